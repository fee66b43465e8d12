/*
 * Chat replies in OpenAI's shape.
 *
 * The part of a chunk that is constant within a stream (id, object, created, model) is written once
 * into `head` and `chunk_head`; a delta costs a few appends. A reply that is not streamed is collected in its
 * choices and written at the end. The last chunk of a stream, or the body, also has llama.cpp's
 * `timings`.
 */
#include "frontend/api/chat/chat_format.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_choice.h"
#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/answer_timings.h"
#include "frontend/api/generation/generation_share.h"
#include "frontend/api/generation/token_ids.h"
#include "frontend/reply/prompt_log.h"
#include "proto/must.h"

struct api_reply {
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool timings_per_token;
    bool return_progress;
    uint32_t prompt_tokens;
    struct answer_timings timings;
    struct text_buffer prompt_ids; /* `,"prompt_token_ids":[…]`, if wanted, until it is written */
    struct text_buffer head;       /* {"id":…,"object":…,"created":…,"model":… */
    struct text_buffer chunk_head; /* data: <head>,"choices":[{"index": */
    struct prompt_log *prompt_log; /* NULL: not asked for */
    uint32_t prompt_log_top;
    uint32_t ended; /* choices */
    uint32_t choice_count;
    struct chat_choice *choices[]; /* [choice_count] */
};

static struct api_reply *create(const struct reply_config *config)
{
    const struct generation_request *request = &config->prepared->request;
    const char *model = reply_config_model(config);
    uint32_t choices = generation_share_answers(config->prepared);
    struct api_reply *reply = must_alloc(1, sizeof *reply + choices * sizeof reply->choices[0]);
    reply->stream = request->stream;
    reply->include_usage = request->include_usage;
    reply->continuous_usage = request->continuous_usage;
    reply->timings_per_token = request->timings_per_token;
    reply->return_progress = request->return_progress;
    reply->prompt_tokens = (uint32_t)config->prepared->prompt.count;
    reply->choice_count = choices;
    for (uint32_t i = 0; i < choices; i++)
        reply->choices[i] = chat_choice_create(config, i);
    text_buffer_append_format(&reply->head, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,",
                              config->id,
                              reply->stream ? "chat.completion.chunk" : "chat.completion",
                              (long long)config->created_unix_s);
    text_buffer_append_text(&reply->head, "\"model\":");
    text_buffer_append_json_string(&reply->head, model, strlen(model));
    text_buffer_append_format(&reply->head, ",\"system_fingerprint\":\"%s\"",
                              config->assets->fingerprint);
    if (request->return_token_ids)
        token_ids_write(",\"prompt_token_ids\":[", &config->prepared->prompt, &reply->prompt_ids);
    if (request->prompt_logprobs)
        reply->prompt_log =
            prompt_log_create(config->assets->tokenizer, config->prepared->prompt.ids[0]);
    reply->prompt_log_top = request->prompt_logprobs_top;
    text_buffer_append_text(&reply->chunk_head, "data: ");
    text_buffer_append(&reply->chunk_head, reply->head.bytes, reply->head.length);
    text_buffer_append_text(&reply->chunk_head, ",\"choices\":[{\"index\":");
    must(!reply->head.failed && !reply->chunk_head.failed);
    return reply;
}

static void destroy(struct api_reply *reply)
{
    for (uint32_t i = 0; i < reply->choice_count; i++)
        chat_choice_destroy(reply->choices[i]);
    prompt_log_destroy(reply->prompt_log);
    text_buffer_fini(&reply->prompt_ids);
    text_buffer_fini(&reply->head);
    text_buffer_fini(&reply->chunk_head);
    free(reply);
}

/* --- usage and timings ----------------------------------------------------------------------- */

/* Usage of all choices. The prompt counts once; as cached counts what each choice found: a new
 * image is encoded for one choice and shared by the others. */
static struct answer_usage usage_sum(const struct api_reply *reply)
{
    struct answer_usage sum = {.prompt_tokens = reply->prompt_tokens,
                               .cached = {.tokens = UINT32_MAX, .images = UINT32_MAX}};
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        const struct answer_usage *usage = chat_choice_usage(reply->choices[i]);
        sum.completion_tokens += usage->completion_tokens;
        sum.reasoning_tokens += usage->reasoning_tokens;
        if (usage->cached.tokens < sum.cached.tokens)
            sum.cached.tokens = usage->cached.tokens;
        if (usage->cached.images < sum.cached.images)
            sum.cached.images = usage->cached.images;
    }
    return sum;
}

static void write_usage(const struct api_reply *reply, struct text_buffer *out)
{
    struct answer_usage usage = usage_sum(reply);
    text_buffer_append_format(out,
                              "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
                              "\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u,"
                              "\"cached_images\":%u},"
                              "\"completion_tokens_details\":{\"reasoning_tokens\":%u",
                              usage.prompt_tokens, usage.completion_tokens,
                              usage.prompt_tokens + usage.completion_tokens, usage.cached.tokens,
                              usage.cached.images, usage.reasoning_tokens);
    answer_timings_write_drafts(&reply->timings, out);
    text_buffer_append_text(out, "}}");
}

static void write_timings(const struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, ",\"timings\":");
    answer_timings_write(&reply->timings, reply->prompt_tokens, usage_sum(reply).cached.tokens,
                         out);
}

/* --- a stream -------------------------------------------------------------------------------- */

/* data: {head,"choices":[{"index":0,"delta":<delta>,"logprobs":null,"finish_reason":<finish>}]
 * [,"usage":null][,"timings":{…}]} */
static void chunk_write(struct api_reply *reply, uint32_t choice, const char *delta,
                        size_t delta_bytes, const char *finish, struct text_buffer *out)
{
    text_buffer_append(out, reply->chunk_head.bytes, reply->chunk_head.length);
    text_buffer_append_whole(out, choice, 1);
    text_buffer_append_text(out, ",\"delta\":");
    text_buffer_append(out, delta, delta_bytes);
    text_buffer_append_text(out, ",\"logprobs\":");
    chat_choice_write_logprobs(reply->choices[choice], out);
    chat_choice_write_token_ids(reply->choices[choice], out);
    if (finish) {
        text_buffer_append_format(out, ",\"finish_reason\":\"%s\"", finish);
        chat_choice_write_stop_reason(reply->choices[choice], out);
        text_buffer_append_text(out, "}]");
    } else {
        text_buffer_append_text(out, ",\"finish_reason\":null}]");
    }
    if (reply->prompt_ids.length > 0) { /* once, with the first chunk */
        text_buffer_append(out, reply->prompt_ids.bytes, reply->prompt_ids.length);
        text_buffer_clear(&reply->prompt_ids);
    }
    if (reply->continuous_usage) {
        text_buffer_append_text(out, ",");
        write_usage(reply, out);
    } else if (reply->include_usage) {
        text_buffer_append_text(out, ",\"usage\":null");
    }
    bool is_last = finish && reply->ended == reply->choice_count && !reply->include_usage;
    if (is_last || (reply->timings_per_token && reply->timings.tokens > 0))
        write_timings(reply, out);
    text_buffer_append_text(out, "}\n\n");
}

static void deltas_write(struct api_reply *reply, uint32_t choice, struct text_buffer *out)
{
    const char *delta;
    size_t bytes;
    while (reply->stream && chat_choice_take_delta(reply->choices[choice], &delta, &bytes))
        chunk_write(reply, choice, delta, bytes, NULL, out);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    static const char role[] = "{\"role\":\"assistant\",\"content\":\"\"}";
    for (uint32_t i = 0; reply->stream && i < reply->choice_count; i++)
        chunk_write(reply, i, role, sizeof role - 1, NULL, out);
}

static void progress(struct api_reply *reply, uint32_t choice,
                     const struct reply_progress *progress, struct text_buffer *out)
{
    if (!reply->stream || !reply->return_progress)
        return;
    text_buffer_append(out, reply->chunk_head.bytes, reply->chunk_head.length);
    text_buffer_append_format(out,
                              "%u,\"delta\":{},\"logprobs\":null,\"finish_reason\":null}],"
                              "\"prompt_progress\":",
                              choice);
    answer_timings_write_progress(progress, out);
    text_buffer_append_text(out, "}\n\n");
}

static void prompt_token(struct api_reply *reply, uint32_t choice, const struct reply_token *token)
{
    if (choice == 0 && reply->prompt_log)
        prompt_log_push(reply->prompt_log, (struct token_logprob){token->id, token->logprob},
                        token->rank, token->alternatives, token->alternative_count);
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    answer_timings_note(&reply->timings, token);
    bool stopped = chat_choice_push(reply->choices[choice], token);
    deltas_write(reply, choice, out);
    return stopped;
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    struct chat_choice *ending = reply->choices[choice];
    chat_choice_finish(ending, finish, cached);
    deltas_write(reply, choice, out);
    reply->ended++;
    if (reply->stream)
        chunk_write(reply, choice, "{}", 2, chat_choice_finish_name(ending), out);
}

/* --- the end --------------------------------------------------------------------------------- */

static void body_write(struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[");
    for (uint32_t i = 0; i < reply->choice_count; i++) {
        struct chat_choice *choice = reply->choices[i];
        text_buffer_append_format(out, "%s{\"index\":%u,\"message\":", i > 0 ? "," : "", i);
        chat_choice_write_message(choice, out);
        text_buffer_append_text(out, ",\"logprobs\":");
        chat_choice_write_logprobs(choice, out);
        chat_choice_write_token_ids(choice, out);
        text_buffer_append_format(out, ",\"finish_reason\":\"%s\"",
                                  chat_choice_finish_name(choice));
        chat_choice_write_stop_reason(choice, out);
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "]");
    text_buffer_append(out, reply->prompt_ids.bytes, reply->prompt_ids.length);
    if (reply->prompt_log) {
        text_buffer_append_text(out, ",\"prompt_logprobs\":");
        prompt_log_write(reply->prompt_log, reply->prompt_log_top, out);
    }
    text_buffer_append_text(out, ",");
    write_usage(reply, out);
    write_timings(reply, out);
    text_buffer_append_text(out, "}");
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    if (!reply->stream) {
        body_write(reply, out);
        return;
    }
    if (reply->include_usage) {
        text_buffer_append_text(out, "data: ");
        text_buffer_append(out, reply->head.bytes, reply->head.length);
        text_buffer_append_text(out, ",\"choices\":[],");
        write_usage(reply, out);
        write_timings(reply, out);
        text_buffer_append_text(out, "}\n\n");
    }
    text_buffer_append_text(out, "data: [DONE]\n\n");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    api_error_write_last_events(error, out);
}

static void fail_early(const struct reply_refusal *refusal, struct text_buffer *out)
{
    api_error_write_last_events(refusal->error, out);
}

const struct api_format chat_format = {.id_prefix = "chatcmpl-",
                                       .parse = chat_request_parse,
                                       .reply_create = create,
                                       .reply_destroy = destroy,
                                       .reply_begin = begin,
                                       .reply_progress = progress,
                                       .reply_prompt_token = prompt_token,
                                       .reply_token = token,
                                       .reply_choice_end = choice_end,
                                       .reply_end = end,
                                       .reply_fail = fail,
                                       .reply_fail_early = fail_early};
