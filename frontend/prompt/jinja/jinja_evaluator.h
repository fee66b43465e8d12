/* Expressions to values. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EVALUATOR_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EVALUATOR_H

#include "frontend/prompt/jinja/jinja_frame.h"

bool jinja_evaluate(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                    struct jinja_value *out) JINJA_CHECKED;

/* Applies a chain of filter nodes without an innermost subject (filter and set blocks) to
 * `subject`. */
bool jinja_evaluate_filters(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node, struct jinja_value subject,
                            struct jinja_value *out) JINJA_CHECKED;

#endif
