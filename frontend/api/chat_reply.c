/*
 * Chat replies as the OpenAI API shapes them.
 *
 * The part of a chunk that never changes within a stream (id, object, created, model) is written
 * once into `head`; a delta costs two appends and an escaped string. A non-streaming reply collects
 * the text and is written whole at the end.
 */
#include "frontend/api/chat_reply.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/reply/reply_text.h"
#include "proto/must.h"

struct chat_reply {
    bool stream;
    bool include_usage;
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    struct reply_text *text;
    struct text_buffer
        head; /* {"id":…,"object":…,"created":…,"model":… without the closing brace */
    struct text_buffer delta; /* streaming: scratch; else the whole answer so far */
};

struct chat_reply *chat_reply_create(const struct model_assets *assets,
                                     const struct prepared_chat *prepared, const char *id,
                                     int64_t created_unix_s)
{
    const struct chat_request *request = &prepared->request;
    struct chat_reply *reply = must_alloc(1, sizeof *reply);
    reply->stream = request->stream;
    reply->include_usage = request->include_usage;
    reply->prompt_tokens = (uint32_t)prepared->prompt.count;
    reply->text = reply_text_create(assets->tokenizer, request->stops, request->stop_count);
    text_buffer_append_format(&reply->head, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,",
                              id, reply->stream ? "chat.completion.chunk" : "chat.completion",
                              (long long)created_unix_s);
    text_buffer_append_text(&reply->head, "\"model\":");
    text_buffer_append_json_string(&reply->head, assets->model_id, strlen(assets->model_id));
    return reply;
}

void chat_reply_destroy(struct chat_reply *reply)
{
    if (!reply)
        return;
    reply_text_destroy(reply->text);
    text_buffer_fini(&reply->head);
    text_buffer_fini(&reply->delta);
    free(reply);
}

static const char *finish_name(enum finish_reason finish)
{
    return finish == FINISH_LENGTH ? "length" : "stop";
}

static void write_usage(const struct chat_reply *reply, uint32_t cached_tokens,
                        struct text_buffer *out)
{
    text_buffer_append_format(
        out,
        "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
        "\"total_tokens\":%u,\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
        reply->prompt_tokens, reply->generated_tokens,
        reply->prompt_tokens + reply->generated_tokens, cached_tokens);
}

/* data:
 * {head,"choices":[{"index":0,"delta":<delta>,"logprobs":null,"finish_reason":<finish>}][,"usage":null]}
 */
static void chunk_open(const struct chat_reply *reply, struct text_buffer *out)
{
    text_buffer_append_text(out, "data: ");
    text_buffer_append(out, reply->head.bytes, reply->head.length);
    text_buffer_append_text(out, ",\"choices\":[{\"index\":0,\"delta\":{");
}

static void chunk_close(const struct chat_reply *reply, const char *finish, struct text_buffer *out)
{
    if (finish)
        text_buffer_append_format(out, "},\"logprobs\":null,\"finish_reason\":\"%s\"}]", finish);
    else
        text_buffer_append_text(out, "},\"logprobs\":null,\"finish_reason\":null}]");
    text_buffer_append_text(out, reply->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

/* Streams what is in `delta` as one chunk. */
static void delta_flush(struct chat_reply *reply, struct text_buffer *out)
{
    if (reply->delta.length == 0)
        return;
    chunk_open(reply, out);
    text_buffer_append_text(out, "\"content\":");
    text_buffer_append_json_string(out, reply->delta.bytes, reply->delta.length);
    chunk_close(reply, NULL, out);
    text_buffer_clear(&reply->delta);
}

void chat_reply_begin(struct chat_reply *reply, struct text_buffer *out)
{
    if (!reply->stream)
        return;
    chunk_open(reply, out);
    text_buffer_append_text(out, "\"role\":\"assistant\",\"content\":\"\"");
    chunk_close(reply, NULL, out);
}

bool chat_reply_token(struct chat_reply *reply, uint32_t token, bool is_stop_token,
                      struct text_buffer *out)
{
    reply->generated_tokens++;
    if (is_stop_token)
        return false;
    bool stopped = reply_text_push(reply->text, token, &reply->delta);
    if (reply->stream)
        delta_flush(reply, out);
    return stopped;
}

void chat_reply_end(struct chat_reply *reply, enum finish_reason finish, uint32_t cached_tokens,
                    struct text_buffer *out)
{
    reply_text_finish(reply->text, &reply->delta);
    if (!reply->stream) {
        text_buffer_append(out, reply->head.bytes, reply->head.length);
        text_buffer_append_text(out,
                                ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                                "\"content\":");
        text_buffer_append_json_string(out, reply->delta.bytes ? reply->delta.bytes : "",
                                       reply->delta.length);
        text_buffer_append_format(
            out, ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}],",
            finish_name(finish));
        write_usage(reply, cached_tokens, out);
        text_buffer_append_text(out, "}");
        return;
    }
    delta_flush(reply, out);
    chunk_open(reply, out);
    chunk_close(reply, finish_name(finish), out);
    if (reply->include_usage) {
        text_buffer_append_text(out, "data: ");
        text_buffer_append(out, reply->head.bytes, reply->head.length);
        text_buffer_append_text(out, ",\"choices\":[],");
        write_usage(reply, cached_tokens, out);
        text_buffer_append_text(out, "}\n\n");
    }
    text_buffer_append_text(out, "data: [DONE]\n\n");
}

void chat_reply_fail(struct chat_reply *reply, const struct api_error *error,
                     struct text_buffer *out)
{
    if (!reply->stream) {
        api_error_write_json(error, out);
        return;
    }
    delta_flush(reply, out);
    text_buffer_append_text(out, "data: ");
    api_error_write_json(error, out);
    text_buffer_append_text(out, "\n\ndata: [DONE]\n\n");
}

uint32_t chat_reply_generated_tokens(const struct chat_reply *reply)
{
    return reply->generated_tokens;
}
