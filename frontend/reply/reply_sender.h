/*
 * Events on their way to whoever hears of them: text and pieces of arguments gathered into as few
 * events as a push allows, cut at whole characters only, in order.
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
    enum reply_event_kind text_kind; /* of what is in `text`: content or reasoning */
    uint32_t calls;                  /* begun so far */
    bool in_call;                    /* one has begun and not ended */
};

void reply_sender_fini(struct reply_sender *sender);
/* Appends text of a kind; other kind than before: what is there is told first. */
void reply_sender_text(struct reply_sender *sender, enum reply_event_kind kind, const char *bytes,
                       size_t count);
/* Tells the whole characters that are there; `all`: and what is no whole one. */
void reply_sender_flush(struct reply_sender *sender, bool all);

/* The call is told as far as it is known: its beginning once it has a name and arguments, then what
 * came of these. */
void reply_sender_call(struct reply_sender *sender, struct call_writer *writer);
/* The call is whole: tells the rest and its end. It must have a name. */
void reply_sender_call_end(struct reply_sender *sender, struct call_writer *writer);

#endif
