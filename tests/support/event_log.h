/*
 * Events of an answer parser, joined: adjacent pieces of one kind are one entry, and a call with its
 * arguments is one entry. Events that break the rules of reply_event.h end the program.
 */
#ifndef SHOAL_TESTS_SUPPORT_EVENT_LOG_H
#define SHOAL_TESTS_SUPPORT_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/reply_event.h"

struct cJSON;

struct event_log_entry {
    enum reply_event_kind kind; /* CONTENT, REASONING or CALL_BEGIN */
    bool ended;                 /* a call */
    char *name;                 /* of a call */
    char *id;                   /* of a call, or NULL */
    struct text_buffer text;    /* of a call its arguments */
};

/* Zero-initialized before first use. */
struct event_log {
    struct event_log_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t calls;
    size_t bytes; /* of all events */
};

struct reply_event_sink event_log_sink(struct event_log *log);
void event_log_fini(struct event_log *log);

bool event_log_equal(const struct event_log *a, const struct event_log *b);
/*
 * Whether the log is what a list says: ["reasoning", text], ["content", text], ["call", name,
 * arguments] or ["call", name, arguments, id], and "cut call" for one without an end. Arguments of
 * whole calls are compared as values, of others as bytes. Prints both under `name` when it is not.
 */
bool event_log_matches(const struct event_log *log, const struct cJSON *events, const char *name);

#endif
