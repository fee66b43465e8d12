/*
 * Replies in Anthropic's shape: the message around its blocks (messages_blocks.h).
 */
#include "frontend/api/messages/messages_format.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/answer.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/messages/messages_blocks.h"
#include "frontend/api/messages/messages_error.h"
#include "frontend/api/messages/messages_request.h"
#include "proto/must.h"

struct api_reply {
    const struct model_assets *assets;
    const char *model;
    struct answer *answer;
    enum answer_end ended;
    bool stream;
    bool context_bounds; /* the context leaves less than max_tokens */
    char id[64];
    char request_id[LIMIT_HTTP_REQUEST_ID_BYTES + 1];
    struct messages_blocks blocks;
};

static void on_event(void *context, const struct reply_event *event)
{
    struct api_reply *reply = context;
    messages_blocks_event(&reply->blocks, event);
}

static struct api_reply *create(const struct reply_config *config)
{
    const struct generation_request *request = &config->prepared->request;
    const struct messages_state *state = request->own.state;
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    reply->assets = config->assets;
    reply->model = reply_config_model(config);
    reply->stream = request->stream;
    reply->context_bounds = request->max_new_tokens > config->prepared->max_new_tokens;
    must(strlen(config->id) < sizeof reply->id &&
         strlen(config->request_id) < sizeof reply->request_id);
    strcpy(reply->id, config->id);
    strcpy(reply->request_id, config->request_id);
    reply->blocks = (struct messages_blocks){.message_id = reply->id,
                                             .model_id = config->assets->model_id,
                                             .stream = request->stream,
                                             .omits_thinking = state && state->omits_thinking};
    reply->answer = answer_create(config, 0, &(struct reply_event_sink){reply, on_event});
    return reply;
}

static void destroy(struct api_reply *reply)
{
    answer_destroy(reply->answer);
    messages_blocks_fini(&reply->blocks);
    free(reply);
}

static void usage_write(const struct api_reply *reply, struct text_buffer *out)
{
    const struct answer_usage *usage = answer_usage(reply->answer);
    text_buffer_append_format(out,
                              "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                              "\"cache_read_input_tokens\":%u,"
                              "\"cache_read_input_images\":%u,\"output_tokens\":%u,"
                              "\"output_tokens_details\":{\"thinking_tokens\":%u}}",
                              usage->prompt_tokens - usage->cached.tokens, usage->cached.tokens,
                              usage->cached.images, usage->completion_tokens,
                              usage->reasoning_tokens);
}

/* {"id":…,"type":"message","role":"assistant","model":…,"content":[ */
static void message_open(const struct api_reply *reply, struct text_buffer *out)
{
    const char *model = reply->model;
    text_buffer_append_format(
        out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", reply->id);
    text_buffer_append_json_string(out, model, strlen(model));
    text_buffer_append_text(out, ",\"content\":[");
}

static const char *stop_reason(const struct api_reply *reply)
{
    switch (reply->ended) {
    case ANSWER_STOP_STRING: return "stop_sequence";
    case ANSWER_TOOL_CALLS: return "tool_use";
    case ANSWER_LENGTH:
        return reply->context_bounds ? "model_context_window_exceeded" : "max_tokens";
    case ANSWER_NOT_ENDED:
    case ANSWER_STOP: break;
    }
    return "end_turn";
}

static void stop_write(const struct api_reply *reply, struct text_buffer *out)
{
    const char *string = answer_stop_string(reply->answer);
    text_buffer_append_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(reply));
    if (string)
        text_buffer_append_json_string(out, string, strlen(string));
    else
        text_buffer_append_text(out, "null");
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    if (!reply->stream)
        return;
    messages_event_begin("message_start", out);
    text_buffer_append_text(out, ",\"message\":");
    message_open(reply, out);
    text_buffer_append_text(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    usage_write(reply, out);
    text_buffer_append_text(out, "}");
    messages_event_end(out);
    messages_event_begin("ping", out);
    messages_event_end(out);
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    must(choice == 0);
    reply->blocks.out = out;
    return answer_push(reply->answer, token);
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       struct cached_prompt cached, struct text_buffer *out)
{
    must(choice == 0);
    reply->blocks.out = out;
    reply->ended = answer_finish(reply->answer, finish, cached);
    messages_blocks_end(&reply->blocks);
}

static void end(struct api_reply *reply, struct text_buffer *out)
{
    out->failed |= reply->blocks.content.failed;
    if (!reply->stream) {
        message_open(reply, out);
        if (reply->blocks.content.length > 0)
            text_buffer_append(out, reply->blocks.content.bytes, reply->blocks.content.length);
        text_buffer_append_text(out, "],");
        stop_write(reply, out);
        text_buffer_append_text(out, ",");
        usage_write(reply, out);
        text_buffer_append_text(out, "}");
        return;
    }
    messages_event_begin("message_delta", out);
    text_buffer_append_text(out, ",\"delta\":{");
    stop_write(reply, out);
    text_buffer_append_text(out, "},");
    usage_write(reply, out);
    messages_event_end(out);
    messages_event_begin("message_stop", out);
    messages_event_end(out);
}

static void error_event(const struct api_error *error, const char *request_id,
                        struct text_buffer *out)
{
    text_buffer_append_text(out, "event: error\ndata: ");
    (void)messages_error_write(error, request_id, out);
    text_buffer_append_text(out, "\n\n");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    error_event(error, reply->request_id, out);
}

static void fail_early(const struct reply_refusal *refusal, struct text_buffer *out)
{
    error_event(refusal->error, refusal->request_id, out);
}

const struct api_format messages_format = {.id_prefix = "msg_",
                                           .silence = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                           .parse = messages_request_parse,
                                           .reply_create = create,
                                           .reply_destroy = destroy,
                                           .reply_begin = begin,
                                           .reply_token = token,
                                           .reply_choice_end = choice_end,
                                           .reply_end = end,
                                           .reply_fail = fail,
                                           .reply_fail_early = fail_early};
