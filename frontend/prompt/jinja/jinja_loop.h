/* A running `for` loop, and the `loop` variable that its body sees. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LOOP_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_LOOP_H

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_frame.h"

struct jinja_loop {
    struct jinja_cursor cursor;
    const struct jinja_node *node;  /* NODE_FOR */
    struct jinja_frame *outer;      /* the scope that contains the loop */
    struct jinja_frame *test_frame; /* of `for … if`, or NULL */
    int64_t index0;                 /* -1 before the first item */
    int64_t depth0;
    int64_t length; /* -1 until it is requested */
    struct jinja_value before;
    struct jinja_value current;
    struct jinja_value after;   /* the look-ahead item; JINJA_MISSING if not read yet */
    struct jinja_value changed; /* the last arguments of changed(): a tuple */
};

bool jinja_loop_make(struct jinja_run *run, const struct jinja_node *node,
                     struct jinja_frame *outer, struct jinja_value iterable, int64_t depth0,
                     struct jinja_loop **loop) JINJA_CHECKED;

/* Advances to the next item that passes the loop's test; *item is JINJA_MISSING at the end. */
bool jinja_loop_next(struct jinja_run *run, struct jinja_loop *loop,
                     struct jinja_value *item) JINJA_CHECKED;

/* `loop.name`; *out is unchanged if there is no such member. */
bool jinja_loop_member(struct jinja_run *run, struct jinja_loop *loop,
                       const struct jinja_string *name, struct jinja_value *out) JINJA_CHECKED;

struct jinja_builder;
bool jinja_loop_describe(struct jinja_run *run, struct jinja_loop *loop,
                         struct jinja_builder *builder) JINJA_CHECKED;

#endif
