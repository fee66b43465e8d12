/*
 * Turns parser output into events.
 *
 * A model's tokens may end within a character, and JSON with half a character is useless to a
 * client, so the bytes of an incomplete character wait for the next piece.
 */
#include "frontend/reply/reply_sender.h"

#include <string.h>

#include "frontend/base/utf8_stream.h"
#include "proto/must.h"

void reply_sender_fini(struct reply_sender *sender)
{
    text_buffer_fini(&sender->text);
}

static void send_certain(struct reply_sender *sender, enum reply_event_kind kind, const char *id,
                         const char *bytes, size_t length)
{
    struct reply_event event = {.kind = kind, .id = id, .bytes = bytes, .length = length};
    if (kind == REPLY_CALL_BEGIN || kind == REPLY_CALL_ARGUMENTS || kind == REPLY_CALL_END)
        event.call = sender->calls - 1;
    sender->sink.event(sender->sink.context, &event);
}

static void emit_buffer(struct reply_sender *sender, enum reply_event_kind kind,
                        struct text_buffer *buffer, bool all)
{
    size_t count = all ? buffer->length : utf8_whole_bytes(buffer->bytes, buffer->length);
    if (count > 0)
        send_certain(sender, kind, NULL, buffer->bytes, count);
    text_buffer_consume(buffer, count);
}

void reply_sender_text(struct reply_sender *sender, enum reply_event_kind kind, const char *bytes,
                       size_t count)
{
    if (kind != sender->text_kind)
        reply_sender_flush(sender, true);
    sender->text_kind = kind;
    text_buffer_append(&sender->text, bytes, count);
}

void reply_sender_flush(struct reply_sender *sender, bool all)
{
    emit_buffer(sender, sender->text_kind, &sender->text, all);
}

void reply_sender_call(struct reply_sender *sender, struct call_writer *writer)
{
    if (!writer->name[0] || !writer->has_begun)
        return;
    if (!sender->in_call) {
        reply_sender_flush(sender, true);
        sender->in_call = true;
        sender->calls++;
        send_certain(sender, REPLY_CALL_BEGIN, writer->id[0] ? writer->id : NULL, writer->name,
                     strlen(writer->name));
    }
    emit_buffer(sender, REPLY_CALL_ARGUMENTS, &writer->arguments, false);
}

void reply_sender_call_end(struct reply_sender *sender, struct call_writer *writer)
{
    must(writer->name[0] && writer->is_whole);
    reply_sender_call(sender, writer);
    emit_buffer(sender, REPLY_CALL_ARGUMENTS, &writer->arguments, true);
    send_certain(sender, REPLY_CALL_END, NULL, NULL, 0);
    sender->in_call = false;
}
