/*
 * A sink that joins reply events and asserts the rules of each event.
 */
#ifndef SHOAL_TESTS_SUPPORT_HEARD_REPLY_H
#define SHOAL_TESTS_SUPPORT_HEARD_REPLY_H

#include <stdbool.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/reply_event.h"

#define HEARD_CALLS 160

struct heard_call {
    char name[300];
    char id[300]; /* "": none */
    struct text_buffer arguments;
    bool ended;
};

/* Zero-initialized before first use. */
struct heard_reply {
    struct text_buffer content;
    struct text_buffer reasoning;
    struct heard_call calls[HEARD_CALLS];
    size_t call_count;
};

struct reply_event_sink heard_reply_sink(struct heard_reply *heard);
void heard_reply_clear(struct heard_reply *heard); /* keeps the memory */
void heard_reply_fini(struct heard_reply *heard);
const char *heard_text(const struct text_buffer *buffer); /* "" for none */
/* True if both received the same; otherwise prints the difference under `title`. */
bool heard_reply_agrees(const char *title, const struct heard_reply *one,
                        const struct heard_reply *other);

#endif
