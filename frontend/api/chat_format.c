/*
 * Chat replies as the OpenAI API shapes them.
 *
 * The part of a chunk that never changes within a stream (id, object, created, model) is written
 * once into `head`; a delta costs two appends and an escaped string. A non-streaming reply collects
 * the text and is written whole at the end.
 */
#include "frontend/api/chat_format.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/api/answer.h"
#include "frontend/api/chat_request.h"
#include "frontend/api/generation_prepare.h"
#include "proto/must.h"

struct api_reply {
    bool stream;
    bool include_usage;
    struct answer *answer;
    enum answer_end ended;
    struct text_buffer
        head; /* {"id":…,"object":…,"created":…,"model":… without the closing brace */
    struct text_buffer content; /* streaming: of the next chunk; else of the whole answer */
};

static void on_event(void *context, const struct reply_event *event)
{
    struct api_reply *reply = context;
    must(event->kind == REPLY_CONTENT);
    text_buffer_append(&reply->content, event->bytes, event->length);
}

static struct api_reply *create(const struct reply_config *config)
{
    const struct generation_request *request = &config->prepared->request;
    const char *model = config->assets->model_id;
    struct api_reply *reply = must_alloc(1, sizeof *reply);
    reply->stream = request->stream;
    reply->include_usage = request->include_usage;
    reply->answer = answer_create(config, &(struct reply_event_sink){reply, on_event});
    text_buffer_append_format(&reply->head, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,",
                              config->id,
                              reply->stream ? "chat.completion.chunk" : "chat.completion",
                              (long long)config->created_unix_s);
    text_buffer_append_text(&reply->head, "\"model\":");
    text_buffer_append_json_string(&reply->head, model, strlen(model));
    return reply;
}

static void destroy(struct api_reply *reply)
{
    answer_destroy(reply->answer);
    text_buffer_fini(&reply->head);
    text_buffer_fini(&reply->content);
    free(reply);
}

static const char *finish_name(enum answer_end ended)
{
    return ended == ANSWER_LENGTH ? "length" : ended == ANSWER_TOOL_CALLS ? "tool_calls" : "stop";
}

static void write_usage(const struct api_reply *reply, struct text_buffer *out)
{
    const struct answer_usage *usage = answer_usage(reply->answer);
    text_buffer_append_format(
        out,
        "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
        "\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
        usage->prompt_tokens, usage->completion_tokens,
        usage->prompt_tokens + usage->completion_tokens, usage->cached_tokens);
}

/* data:
 * {head,"choices":[{"index":0,"delta":<delta>,"logprobs":null,"finish_reason":<finish>}][,"usage":null]}
 */
static void chunk_open(const struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "data: ");
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[{\"index\":0,\"delta\":{");
}

static void chunk_close(const struct api_reply *reply, const char *finish, struct text_buffer *out)
{
    if (finish)
        text_buffer_append_format(out, "},\"logprobs\":null,\"finish_reason\":\"%s\"}]", finish);
    else
        text_buffer_append_text(out, "},\"logprobs\":null,\"finish_reason\":null}]");
    text_buffer_append_text(out, reply->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

/* Streams what is in `content` as one chunk. */
static void content_flush(struct api_reply *reply, struct text_buffer *out)
{
    if (!reply->stream || reply->content.length == 0)
        return;
    chunk_open(reply, out);
    text_buffer_append_text(out, "\"content\":");
    text_buffer_append_json_string(out, reply->content.bytes, reply->content.length);
    chunk_close(reply, NULL, out);
    text_buffer_clear(&reply->content);
}

static void begin(struct api_reply *reply, struct text_buffer *out)
{
    if (!reply->stream)
        return;
    chunk_open(reply, out);
    text_buffer_append_text(out, "\"role\":\"assistant\",\"content\":\"\"");
    chunk_close(reply, NULL, out);
}

static bool token(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                  struct text_buffer *out)
{
    must(choice == 0);
    bool stopped = answer_push(reply->answer, token);
    content_flush(reply, out);
    return stopped;
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                       uint32_t cached_tokens, struct text_buffer *out)
{
    must(choice == 0);
    reply->ended = answer_finish(reply->answer, finish, cached_tokens);
    content_flush(reply, out);
    if (!reply->stream)
        return;
    chunk_open(reply, out);
    chunk_close(reply, finish_name(reply->ended), out);
}

static void body_write(const struct api_reply *reply, struct text_buffer *out)
{
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                                 "\"content\":");
    text_buffer_append_json_string(out, reply->content.bytes ? reply->content.bytes : "",
                                   reply->content.length);
    text_buffer_append_format(out,
                              ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}],",
                              finish_name(reply->ended));
    write_usage(reply, out);
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
        text_buffer_append_text(out, "}\n\n");
    }
    text_buffer_append_text(out, "data: [DONE]\n\n");
}

static void fail(struct api_reply *reply, const struct api_error *error, struct text_buffer *out)
{
    must(reply->stream);
    content_flush(reply, out);
    text_buffer_append_text(out, "data: ");
    api_error_write_json(error, out);
    text_buffer_append_text(out, "\n\ndata: [DONE]\n\n");
}

const struct api_format chat_format = {.id_prefix = "chatcmpl-",
                                       .parse = chat_request_parse,
                                       .reply_create = create,
                                       .reply_destroy = destroy,
                                       .reply_begin = begin,
                                       .reply_token = token,
                                       .reply_choice_end = choice_end,
                                       .reply_end = end,
                                       .reply_fail = fail};
