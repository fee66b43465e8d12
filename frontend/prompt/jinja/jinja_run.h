/*
 * One rendering: its memory, its bounds, what it has written and why it failed.
 *
 * Every function of the interpreter that takes a run returns false when it failed, after one of the
 * jinja_fail calls below said why; callers only pass the false on.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_RUN_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_value.h"
#include "proto/result.h"

#define JINJA_CHECKED __attribute__((warn_unused_result))

struct jinja_builder;

struct jinja_run {
    struct jinja_arena arena;
    const struct jinja_dict *globals; /* the caller's variables and the builtins */
    struct jinja_builder *output;     /* where output statements write now */
    uint64_t steps_left;
    unsigned depth;
    int line; /* of the statement at work */
    int64_t now_unix_s;
    enum result failure; /* RESULT_OK until something failed */
    bool raised;         /* by the template itself: its words stand alone */
    struct error_text error;
};

/* Counts `steps` of work. */
bool jinja_run_step(struct jinja_run *run, uint64_t steps) JINJA_CHECKED;

/* Counts work over `bytes` of text: a step for every few dozen. */
bool jinja_run_scan(struct jinja_run *run, uint64_t bytes) JINJA_CHECKED;

/* What converting a float to or from digits costs, in steps. */
#define JINJA_STEPS_OF_DIGITS 64u

/* One level deeper into expressions, blocks and calls; jinja_run_leave() comes back. */
bool jinja_run_enter(struct jinja_run *run) JINJA_CHECKED;
void jinja_run_leave(struct jinja_run *run);

/* NULL (and failed) at the memory bound. Overflow of count x element is a failure, too. */
void *jinja_run_take(struct jinja_run *run, size_t count, size_t element_bytes) JINJA_CHECKED;

/* All return false, so that `return jinja_fail(…)` reads well. The first failure wins. */
bool jinja_fail(struct jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_fail_bound(struct jinja_run *run, const char *what);
/* An operation on something undefined: the message that jinja2's UndefinedError has. */
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value undefined);

/* The undefined value of a name that nothing has / that an object has not / with ready words. */
bool jinja_undefined_name(struct jinja_run *run, const char *name, size_t name_bytes,
                          struct jinja_value *out) JINJA_CHECKED;
bool jinja_undefined_member(struct jinja_run *run, struct jinja_value object,
                            struct jinja_value name, struct jinja_value *out) JINJA_CHECKED;
bool jinja_undefined_hint(struct jinja_run *run, const char *hint,
                          struct jinja_value *out) JINJA_CHECKED;

#endif
