/* Statements to output. */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EXECUTOR_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_EXECUTOR_H

#include "frontend/prompt/jinja/jinja_frame.h"
#include "frontend/prompt/jinja/jinja_loop.h"

enum jinja_flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

enum jinja_flow jinja_execute(struct jinja_run *run, struct jinja_frame *frame,
                              const struct jinja_node *node);

/* Runs all iterations of a loop (and its else). */
enum jinja_flow jinja_execute_loop(struct jinja_run *run, struct jinja_loop *loop);

#endif
