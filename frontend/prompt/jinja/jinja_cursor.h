/* Iteration over every value that Python can iterate: sequences, strings by character, dictionaries
 * by key, iterators. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_CURSOR_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_CURSOR_H

#include "frontend/prompt/jinja/jinja_run.h"

struct jinja_cursor {
    struct jinja_value over;
    size_t next; /* item; byte in a string */
};

bool jinja_cursor_can(struct jinja_value value);

bool jinja_cursor_start(struct jinja_run *run, struct jinja_value value,
                        struct jinja_cursor *cursor) JINJA_CHECKED;

/* *item becomes JINJA_MISSING at the end. */
bool jinja_cursor_next(struct jinja_run *run, struct jinja_cursor *cursor,
                       struct jinja_value *item) JINJA_CHECKED;

/* Python's len(); false for values without a length (an iterator, a number). */
bool jinja_cursor_length(struct jinja_value value, size_t *length);

/* All (remaining) items as a list. */
bool jinja_cursor_collect(struct jinja_run *run, struct jinja_value value,
                          struct jinja_list *list) JINJA_CHECKED;

/* Items gathered one by one. */
struct jinja_items {
    struct jinja_value *items;
    size_t count;
    size_t capacity;
};
bool jinja_items_add(struct jinja_run *run, struct jinja_items *items,
                     struct jinja_value value) JINJA_CHECKED;

/* A list, tuple or view of the gathered items. */
bool jinja_items_list(struct jinja_run *run, const struct jinja_items *items, enum jinja_kind kind,
                      struct jinja_value *out) JINJA_CHECKED;
/* `failed`: gathering ended with a failure of the run, which the iterator reports when its reader
 * gets to that item. */
bool jinja_items_iterator(struct jinja_run *run, const struct jinja_items *items, bool failed,
                          struct jinja_value *out) JINJA_CHECKED;

/* A tuple of two. */
bool jinja_items_pair(struct jinja_run *run, struct jinja_value first, struct jinja_value second,
                      struct jinja_value *out) JINJA_CHECKED;

#endif
