/*
 * A vector becomes text when it arrives, so that the end of a body with many inputs does not hold up
 * other streams; the end joins the texts in the order of the inputs.
 */
#include "frontend/api/pooling/embedding_format.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/generation_share.h"
#include "frontend/api/pooling/embedding_request.h"
#include "frontend/base/monotonic_clock.h"
#include "proto/must.h"

struct api_reply {
    struct embedding_state state;
    struct text_buffer model; /* JSON */
    int64_t began_us;
    uint64_t prompt_tokens;
    uint32_t count;
    struct embedding {
        uint32_t tokens;         /* of the input */
        struct text_buffer text; /* of its vector, or of its tokens' vectors, comma-separated */
    } embeddings[];              /* [count] */
};

static struct api_reply *create(const struct reply_config *config)
{
    const char *model = reply_config_model(config);
    uint32_t count = generation_share_answers(config->prepared);
    struct api_reply *reply = must_alloc(1, sizeof *reply + count * sizeof reply->embeddings[0]);
    reply->state = *(const struct embedding_state *)config->prepared->request.own.state;
    reply->began_us = monotonic_clock_us();
    text_buffer_append_json_string(&reply->model, model, strlen(model));
    reply->count = count;
    for (uint32_t i = 0; i < count; i++) {
        reply->embeddings[i].tokens = (uint32_t)generation_share_prompt(config->prepared, i)->count;
        reply->prompt_tokens += reply->embeddings[i].tokens;
    }
    return reply;
}

static void destroy(struct api_reply *reply)
{
    for (uint32_t i = 0; i < reply->count; i++)
        text_buffer_fini(&reply->embeddings[i].text);
    text_buffer_fini(&reply->model);
    free(reply);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    (void)reply;
    (void)out;
}

/* Appends `vectors` of them. */
static bool vectors_write(struct api_reply *reply, uint32_t answer, uint32_t vectors,
                          const struct reply_token *token)
{
    size_t columns = token->vector_count / vectors;
    struct text_buffer *text = &reply->embeddings[answer].text;
    float *copy = must_alloc(columns, sizeof *copy);
    for (uint32_t i = 0; i < vectors; i++) {
        memcpy(copy, token->vector + i * columns, columns * sizeof *copy);
        size_t kept = vector_text_shape(&reply->state.form, copy, columns);
        text_buffer_append_text(text, i > 0 ? "," : "");
        vector_text_append(&reply->state.form, copy, kept, text);
    }
    free(copy);
    return false;
}

static bool token(struct api_reply *reply, uint32_t answer, const struct reply_token *token,
                  struct text_buffer *out)
{
    (void)out;
    return vectors_write(reply, answer, 1, token);
}

/* The vector of the input, or those of its tokens. */
static bool token_of_llama(struct api_reply *reply, uint32_t answer,
                           const struct reply_token *token, struct text_buffer *out)
{
    (void)out;
    return vectors_write(reply, answer, token->vector_rows, token);
}

static void choice_end(struct api_reply *reply, uint32_t answer, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    (void)reply;
    (void)answer;
    (void)finish;
    (void)cached;
    (void)out;
}

static void text_append(const struct api_reply *reply, uint32_t index, struct text_buffer *out)
{
    text_buffer_append(out, reply->embeddings[index].text.bytes,
                       reply->embeddings[index].text.length);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < reply->count; i++) {
        text_buffer_append_format(
            out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "", i);
        text_append(reply, i, out);
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "],\"model\":");
    text_buffer_append(out, reply->model.bytes, reply->model.length);
    text_buffer_append_format(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
                              (unsigned long long)reply->prompt_tokens,
                              (unsigned long long)reply->prompt_tokens);
}

static void end_of_llama(struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "[");
    for (uint32_t i = 0; i < reply->count; i++) {
        text_buffer_append_format(out, "%s{\"index\":%u,\"embedding\":[", i > 0 ? "," : "", i);
        text_append(reply, i, out);
        text_buffer_append_text(out, "]}");
    }
    text_buffer_append_text(out, "]");
}

static void end_of_ollama(struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"model\":");
    text_buffer_append(out, reply->model.bytes, reply->model.length);
    text_buffer_append_text(out, ",\"embeddings\":[");
    for (uint32_t i = 0; i < reply->count && !reply->state.empty; i++) {
        text_buffer_append_text(out, i > 0 ? "," : "");
        text_append(reply, i, out);
    }
    text_buffer_append_format(
        out, "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%llu}",
        (long long)(monotonic_clock_us() - reply->began_us) * 1000,
        reply->state.empty ? 0ull : (unsigned long long)reply->prompt_tokens);
}

static void end_of_ollama_old(struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"embedding\":");
    if (reply->state.empty)
        text_buffer_append_text(out, "[]");
    else
        text_append(reply, 0, out);
    text_buffer_append_text(out, "}");
}

#define FORMAT(name, parser, on_token, on_end)                                                     \
    const struct api_format name = {.id_prefix = "embd-",                                          \
                                    .prompt_field = "input",                                       \
                                    .parse = parser,                                               \
                                    .reply_create = create,                                        \
                                    .reply_destroy = destroy,                                      \
                                    .reply_begin = begin,                                          \
                                    .reply_token = on_token,                                       \
                                    .reply_choice_end = choice_end,                                \
                                    .reply_end = on_end}

FORMAT(embedding_format, embedding_request_parse_openai, token, end);
FORMAT(embedding_llama_format, embedding_request_parse_llama, token_of_llama, end_of_llama);
FORMAT(embedding_ollama_format, embedding_request_parse_ollama, token, end_of_ollama);
FORMAT(embedding_ollama_old_format, embedding_request_parse_ollama_old, token, end_of_ollama_old);
