/* Bodies that become strings when called: macros, call blocks, recursive loops. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MACRO_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_MACRO_H

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_loop.h"

bool jinja_macro_call(struct jinja_run *run, const struct jinja_macro *macro,
                      const struct jinja_call *call, struct jinja_value *out) JINJA_CHECKED;

/* `loop(items)` in a recursive loop: runs its body over other items. */
bool jinja_macro_call_loop(struct jinja_run *run, struct jinja_loop *loop,
                           const struct jinja_call *call, struct jinja_value *out) JINJA_CHECKED;

#endif
