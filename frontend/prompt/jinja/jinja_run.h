/*
 * One rendering: its memory, bounds, output and failure.
 *
 * Every function of the interpreter that takes a run returns false after a failure, for which one
 * of the jinja_fail calls below recorded the reason; callers only return false.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_RUN_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/prompt/jinja/jinja_arena.h"
#include "frontend/prompt/jinja/jinja_value.h"
#include "proto/result.h"

#define JINJA_CHECKED __attribute__((warn_unused_result))

struct jinja_builder;

struct jinja_run {
    struct jinja_arena arena;
    const struct jinja_dict *globals; /* the caller's variables and the builtins */
    struct jinja_builder *output;     /* the target of output statements */
    uint64_t steps_left;
    const atomic_bool *cancelled; /* NULL: never */
    unsigned depth;
    int line; /* of the current statement */
    int64_t now_unix_s;
    enum result failure; /* RESULT_OK until a failure */
    bool raised;         /* by the template itself: its message is reported alone */
    struct error_text error;
};

/* Counts `steps` of work. Fails at the bound, and with RESULT_CANCELLED once the rendering is
 * cancelled. */
bool jinja_run_step(struct jinja_run *run, uint64_t steps) JINJA_CHECKED;

/* Counts work over `bytes` of text: one step per few bytes. */
bool jinja_run_scan(struct jinja_run *run, uint64_t bytes) JINJA_CHECKED;

/* The cost of converting a float to or from digits, in steps. */
#define JINJA_STEPS_OF_DIGITS 256u

/* One level deeper into expressions, blocks and calls; jinja_run_leave() returns. */
bool jinja_run_enter(struct jinja_run *run) JINJA_CHECKED;
void jinja_run_leave(struct jinja_run *run);

/* NULL (and failed) at the memory bound. Overflow of count x element is a failure too. */
void *jinja_run_take(struct jinja_run *run, size_t count, size_t element_bytes) JINJA_CHECKED;

/* All return false, so that callers can `return jinja_fail(…)`. The first failure is kept. */
bool jinja_fail(struct jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_fail_bound(struct jinja_run *run, const char *what);
/* Fails for an operation on an undefined value, with the message of jinja2's UndefinedError. */
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value undefined);

/* The undefined value of an unknown name / of a missing member of an object / with a given
 * message. */
bool jinja_undefined_name(struct jinja_run *run, const char *name, size_t name_bytes,
                          struct jinja_value *out) JINJA_CHECKED;
bool jinja_undefined_member(struct jinja_run *run, struct jinja_value object,
                            struct jinja_value name, struct jinja_value *out) JINJA_CHECKED;
bool jinja_undefined_hint(struct jinja_run *run, const char *hint,
                          struct jinja_value *out) JINJA_CHECKED;

#endif
