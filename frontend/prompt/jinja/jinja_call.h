/*
 * Calls: of builtins (functions, methods, filters, tests) with their parameters bound by name or
 * position, of macros, and of the few objects that can be called.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_CALL_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_CALL_H

#include "frontend/prompt/jinja/jinja_frame.h"
#include "frontend/prompt/jinja/jinja_run.h"

struct jinja_named {
    struct jinja_value name; /* a string */
    struct jinja_value value;
};

/*
 * The arguments of a builtin. `self` is the bound object, or the subject of the filter or test. A
 * builtin with declared parameters finds one value for each of them (JINJA_MISSING if none was
 * passed) and no named ones.
 */
struct jinja_call {
    struct jinja_value self;
    const struct jinja_value *values;
    size_t count;
    const struct jinja_named *named;
    size_t named_count;
};

/* Evaluates argument expressions into `call`; its self is unchanged. */
bool jinja_call_evaluate(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_arguments *arguments,
                         struct jinja_call *call) JINJA_CHECKED;

bool jinja_call_builtin(struct jinja_run *run, const struct jinja_signature *signature,
                        const struct jinja_call *call, struct jinja_value *out) JINJA_CHECKED;

/* Calls any value; `call->self` is ignored. */
bool jinja_call_value(struct jinja_run *run, struct jinja_value callee,
                      const struct jinja_call *call, struct jinja_value *out) JINJA_CHECKED;

bool jinja_call_can(struct jinja_value value);

/* A builtin found by name in a table that ends with a NULL name, or NULL. */
const struct jinja_signature *jinja_call_find(const struct jinja_signature table[],
                                              const char *name, size_t name_bytes);

/* Checks the type of an argument; fails if it is wrong. For an absent argument *out is
 * unchanged. */
bool jinja_call_integer(struct jinja_run *run, struct jinja_value value,
                        int64_t *out) JINJA_CHECKED;
bool jinja_call_string(struct jinja_run *run, struct jinja_value value,
                       const struct jinja_string **out) JINJA_CHECKED;

#endif
