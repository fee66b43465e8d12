/*
 * Blocks are written by one table of kinds; what a kind has of its own (a signature, an id and a
 * name) is added where it opens or closes.
 */
#include "frontend/api/messages/messages_blocks.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/messages/messages_turns.h"
#include "frontend/api/messages/thinking_signature.h"

/* --- events ---------------------------------------------------------------------------------- */

void messages_event_begin(const char *name, struct text_buffer *out)
{
    text_buffer_append_text(out, "event: ");
    text_buffer_append_text(out, name);
    text_buffer_append_text(out, "\ndata: {\"type\":\"");
    text_buffer_append_text(out, name);
    text_buffer_append_text(out, "\"");
}

void messages_event_end(struct text_buffer *out)
{
    text_buffer_append_text(out, "}\n\n");
}

/* {"type":"content_block_delta","index":…,"delta":{"type":<type>,<member>:<words>}} */
static void delta_write(struct messages_blocks *blocks, const char *type, const char *member,
                        const char *words, size_t bytes)
{
    struct text_buffer *out = blocks->out;
    messages_event_begin("content_block_delta", out);
    text_buffer_append_text(out, ",\"index\":");
    text_buffer_append_whole(out, blocks->count - 1, 1);
    text_buffer_append_text(out, ",\"delta\":{\"type\":\"");
    text_buffer_append_text(out, type);
    text_buffer_append_text(out, "\",\"");
    text_buffer_append_text(out, member);
    text_buffer_append_text(out, "\":");
    text_buffer_append_json_string(out, words, bytes);
    text_buffer_append_text(out, "}");
    messages_event_end(out);
}

/* --- blocks ---------------------------------------------------------------------------------- */

static const struct {
    const char *empty; /* a block at its start, without tool_use's own members */
    const char *delta;
    const char *member;
} kinds[] = {
    [BLOCK_THINKING] = {"\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"",
                        "thinking_delta", "thinking"},
    [BLOCK_TEXT] = {"\"type\":\"text\",\"text\":\"\"", "text_delta", "text"},
    [BLOCK_TOOL_USE] = {"\"type\":\"tool_use\"", "input_json_delta", "partial_json"},
};

/* ,"id":…,"name":…,"input": of a call. The model's id is part of ours, so that the model finds it
 * again when the call is sent back. */
static void call_write(const struct messages_blocks *blocks, const struct reply_event *call,
                       struct text_buffer *out)
{
    const char *digits = strchr(blocks->message_id, '_');
    text_buffer_append_text(out, ",\"id\":");
    if (call->id) {
        struct text_buffer id = {0};
        text_buffer_append_format(&id, "%s%s", MESSAGES_CALL_ID_PREFIX, call->id);
        text_buffer_append_json_string(out, id.bytes ? id.bytes : "", id.length);
        out->failed |= id.failed;
        text_buffer_fini(&id);
    } else {
        text_buffer_append_format(out, "\"%s%s%02x\"", MESSAGES_CALL_ID_PREFIX,
                                  digits ? digits + 1 : "", call->call);
    }
    text_buffer_append_text(out, ",\"name\":");
    text_buffer_append_json_string(out, call->bytes, call->length);
    text_buffer_append_text(out, ",\"input\":");
}

/* `call`: the event that started it, for a tool_use. */
static void block_open(struct messages_blocks *blocks, enum block_kind kind,
                       const struct reply_event *call)
{
    blocks->open = kind;
    blocks->count++;
    if (blocks->stream) {
        messages_event_begin("content_block_start", blocks->out);
        text_buffer_append_format(blocks->out, ",\"index\":%u,\"content_block\":{%s",
                                  blocks->count - 1, kinds[kind].empty);
        if (call) {
            call_write(blocks, call, blocks->out);
            text_buffer_append_text(blocks->out, "{}");
        }
        text_buffer_append_text(blocks->out, "}");
        messages_event_end(blocks->out);
        return;
    }
    if (blocks->count > 1)
        text_buffer_append_text(&blocks->content, ",");
    text_buffer_append_text(&blocks->content, "{");
    if (call) {
        text_buffer_append_text(&blocks->content, kinds[kind].empty);
        call_write(blocks, call, &blocks->content);
    }
}

/* The open block's text as members of its object. */
static void block_write(struct messages_blocks *blocks)
{
    struct text_buffer *out = &blocks->content;
    const char *text = blocks->text.length > 0 ? blocks->text.bytes : "";
    size_t bytes = blocks->text.length;
    char signature[THINKING_SIGNATURE_BYTES];
    switch (blocks->open) {
    case BLOCK_NONE: break;
    case BLOCK_THINKING:
        thinking_signature_make(blocks->model_id, text, bytes, signature);
        text_buffer_append_text(out, "\"type\":\"thinking\",\"thinking\":");
        text_buffer_append_json_string(out, text, bytes);
        text_buffer_append_format(out, ",\"signature\":\"%s\"", signature);
        break;
    case BLOCK_TEXT:
        text_buffer_append_text(out, "\"type\":\"text\",\"text\":");
        text_buffer_append_json_string(out, text, bytes);
        break;
    case BLOCK_TOOL_USE: text_buffer_append(out, text, bytes); break;
    }
    text_buffer_append_text(out, "}");
}

static void block_close(struct messages_blocks *blocks)
{
    if (blocks->open == BLOCK_NONE)
        return;
    if (!blocks->stream) {
        block_write(blocks);
    } else {
        if (blocks->open == BLOCK_THINKING) {
            char signature[THINKING_SIGNATURE_BYTES];
            thinking_signature_make(blocks->model_id, blocks->text.bytes ? blocks->text.bytes : "",
                                    blocks->text.length, signature);
            delta_write(blocks, "signature_delta", "signature", signature, strlen(signature));
        }
        messages_event_begin("content_block_stop", blocks->out);
        text_buffer_append_format(blocks->out, ",\"index\":%u", blocks->count - 1);
        messages_event_end(blocks->out);
    }
    blocks->content.failed |= blocks->text.failed;
    text_buffer_clear(&blocks->text);
    blocks->open = BLOCK_NONE;
}

static void block_add(struct messages_blocks *blocks, const struct reply_event *event)
{
    if (blocks->open == BLOCK_THINKING && blocks->omits_thinking)
        return;
    if (!blocks->stream || blocks->open == BLOCK_THINKING)
        text_buffer_append(&blocks->text, event->bytes, event->length);
    if (blocks->stream)
        delta_write(blocks, kinds[blocks->open].delta, kinds[blocks->open].member, event->bytes,
                    event->length);
}

void messages_blocks_event(struct messages_blocks *blocks, const struct reply_event *event)
{
    static const enum block_kind kind_of[] = {
        [REPLY_CONTENT] = BLOCK_TEXT,        [REPLY_REASONING] = BLOCK_THINKING,
        [REPLY_CALL_BEGIN] = BLOCK_TOOL_USE, [REPLY_CALL_ARGUMENTS] = BLOCK_TOOL_USE,
        [REPLY_CALL_END] = BLOCK_TOOL_USE,
    };
    enum block_kind kind = kind_of[event->kind];
    if (blocks->open != kind || event->kind == REPLY_CALL_BEGIN) {
        block_close(blocks);
        block_open(blocks, kind, event->kind == REPLY_CALL_BEGIN ? event : NULL);
    }
    if (event->kind == REPLY_CALL_END)
        block_close(blocks);
    else if (event->kind != REPLY_CALL_BEGIN)
        block_add(blocks, event);
}

/* A call that started and did not end was cut off: in a whole message its input must be JSON. */
static void call_mend(struct messages_blocks *blocks)
{
    if (blocks->stream || blocks->open != BLOCK_TOOL_USE)
        return;
    cJSON *input =
        cJSON_ParseWithLength(blocks->text.bytes ? blocks->text.bytes : "", blocks->text.length);
    if (!cJSON_IsObject(input)) {
        text_buffer_clear(&blocks->text);
        text_buffer_append_text(&blocks->text, "{}");
    }
    cJSON_Delete(input);
}

void messages_blocks_end(struct messages_blocks *blocks)
{
    call_mend(blocks);
    block_close(blocks);
}

void messages_blocks_fini(struct messages_blocks *blocks)
{
    text_buffer_fini(&blocks->text);
    text_buffer_fini(&blocks->content);
}
