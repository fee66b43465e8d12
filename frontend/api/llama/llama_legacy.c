/*
 * Two APIs share the path /completions: OpenAI's for clients whose base URL has no /v1, and
 * llama.cpp's native one. A body with a field that only llama.cpp's has gets its reply.
 */
#include "frontend/api/llama/llama_legacy.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "frontend/api/chat/completions_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/llama/llama_format.h"
#include "proto/must.h"

struct api_reply {
    const struct api_format *format;
    struct api_reply *own; /* of that format */
};

static bool is_native(const char *json, size_t json_bytes)
{
    static const char *const names[] = {"n_predict",     "n_probs",         "return_tokens",
                                        "repeat_last_n", "response_fields", "samplers",
                                        "n_keep",        "n_indent",        "t_max_predict_ms"};
    cJSON *body;
    struct api_error error;
    bool found = false;
    if (request_fields_read_body(json, json_bytes, &body, &error) != RESULT_OK)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        found |= request_fields_member(body, names[i]) != NULL;
    cJSON_Delete(body);
    return found;
}

static enum result parse(const struct parse_context *context, const char *json, size_t json_bytes,
                         struct generation_request *request, struct api_error *error)
{
    const struct api_format *format =
        is_native(json, json_bytes) ? &llama_completion_format : &completions_format;
    return format->parse(context, json, json_bytes, request, error);
}

static struct api_reply *create(const struct reply_config *config)
{
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    bool native = config->prepared->request.own.state != NULL;
    reply->format = native ? &llama_completion_format : &completions_format;
    reply->own = reply->format->reply_create(config);
    return reply;
}

static void destroy(struct api_reply *reply)
{
    reply->format->reply_destroy(reply->own);
    free(reply);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    reply->format->reply_begin(reply->own, out);
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    return reply->format->reply_token(reply->own, choice, token, out);
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    reply->format->reply_choice_end(reply->own, choice, finish, cached, out);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    reply->format->reply_end(reply->own, out);
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    reply->format->reply_fail(reply->own, error, out);
}

/* The body is not parsed: OpenAI's clients need the [DONE], llama.cpp's ignore it. */
static void fail_early(const struct reply_refusal *refusal, struct text_buffer *out)
{
    completions_format.reply_fail_early(refusal, out);
}

const struct api_format llama_legacy_format = {.id_prefix = "cmpl-",
                                               .prompt_field = "prompt",
                                               .parse = parse,
                                               .reply_create = create,
                                               .reply_destroy = destroy,
                                               .reply_begin = begin,
                                               .reply_token = token,
                                               .reply_choice_end = choice_end,
                                               .reply_end = end,
                                               .reply_fail = fail,
                                               .reply_fail_early = fail_early};
