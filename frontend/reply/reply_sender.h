/*
 * Gathers text and pieces of arguments into as few events as a push allows, cut at whole
 * characters, in order.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_SENDER_H
#define SHOAL_FRONTEND_REPLY_REPLY_SENDER_H

#include <stdbool.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/call_writer.h"
#include "frontend/reply/reply_event.h"

struct reply_sender {
    struct reply_event_sink sink;
    struct text_buffer text;
    enum reply_event_kind text_kind; /* the kind of `text`: content or reasoning */
    uint32_t calls;                  /* begun so far */
    bool in_call;                    /* a call has begun and not ended */
};

void reply_sender_fini(struct reply_sender *sender);
/* Appends text of a kind; if the kind changes, text of the other kind is sent first. */
void reply_sender_text(struct reply_sender *sender, enum reply_event_kind kind, const char *bytes,
                       size_t count);
/* Sends the whole characters; `all`: an incomplete one too. */
void reply_sender_flush(struct reply_sender *sender, bool all);

/* Sends the known part of a call: its beginning once it has a name and arguments, then new
 * arguments. */
void reply_sender_call(struct reply_sender *sender, struct call_writer *writer);
/* The call is complete: sends the rest and its end. It must have a name. */
void reply_sender_call_end(struct reply_sender *sender, struct call_writer *writer);

#endif
