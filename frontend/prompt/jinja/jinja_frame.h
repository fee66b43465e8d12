/* Scopes at run time: the values of one scope's slots, and the path to the enclosing scopes. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FRAME_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_FRAME_H

#include "frontend/prompt/jinja/jinja_node.h"
#include "frontend/prompt/jinja/jinja_run.h"

struct jinja_frame {
    struct jinja_frame *outer;
    const struct jinja_scope *scope;
    struct jinja_value slots[];
};

/* All slots start as JINJA_MISSING. */
bool jinja_frame_make(struct jinja_run *run, const struct jinja_scope *scope,
                      struct jinja_frame *outer, struct jinja_frame **frame) JINJA_CHECKED;

/* Sets every slot except parameters to its first value; called for each iteration of a loop. */
bool jinja_frame_load(struct jinja_run *run, struct jinja_frame *frame) JINJA_CHECKED;

/* The slot of a bound name. */
struct jinja_value *jinja_frame_slot(struct jinja_frame *frame, const struct jinja_node *name);

/* Assigns to a name, a tuple of targets or a namespace's attribute. */
bool jinja_frame_assign(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *target, struct jinja_value value) JINJA_CHECKED;

#endif
