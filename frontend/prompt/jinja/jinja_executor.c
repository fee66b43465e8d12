/*
 * The executor: walks statements and writes the prompt.
 *
 * Statements return where control goes next, since break and continue leave several blocks at once.
 * Captured blocks replace the run's output by a builder of their own. Each kind of body has its own
 * rule about the scope it writes to.
 */
#include "frontend/prompt/jinja/jinja_executor.h"

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_evaluator.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"
#include "proto/limits.h"

static enum jinja_flow flow_of(bool done)
{
    return done ? FLOW_NEXT : FLOW_FAIL;
}

static enum jinja_flow execute_body(struct jinja_run *run, struct jinja_frame *frame,
                                    const struct jinja_node *body)
{
    for (size_t i = 0; i < body->count; i++) {
        enum jinja_flow flow = jinja_execute(run, frame, body->items[i]);
        if (flow != FLOW_NEXT)
            return flow;
    }
    return FLOW_NEXT;
}

static enum jinja_flow execute_output(struct jinja_run *run, struct jinja_frame *frame,
                                      const struct jinja_node *node)
{
    for (size_t i = 0; i < node->count; i++) {
        struct jinja_value value;
        run->line = node->items[i]->line;
        if (!jinja_evaluate(run, frame, node->items[i], &value) ||
            !jinja_text_append(run, run->output, value))
            return FLOW_FAIL;
    }
    return FLOW_NEXT;
}

static enum jinja_flow execute_if(struct jinja_run *run, struct jinja_frame *frame,
                                  const struct jinja_node *node)
{
    for (size_t i = 0; i < node->count; i += 2) {
        struct jinja_value test;
        run->line = node->items[i]->line;
        if (!jinja_evaluate(run, frame, node->items[i], &test))
            return FLOW_FAIL;
        if (jinja_value_truth(test))
            return jinja_execute(run, frame, node->items[i + 1]);
    }
    return FLOW_NEXT;
}

enum jinja_flow jinja_execute_loop(struct jinja_run *run, struct jinja_loop *loop)
{
    const struct jinja_loop_body *body = loop->node->loop;
    struct jinja_frame *frame;
    bool entered = false;
    if (!jinja_frame_make(run, body->scope, loop->outer, &frame))
        return FLOW_FAIL;
    if (body->uses_loop)
        frame->slots[body->loop_slot] = (struct jinja_value){.kind = JINJA_LOOP, .as.loop = loop};
    for (;;) {
        struct jinja_value item;
        run->line = loop->node->line;
        if (!jinja_loop_next(run, loop, &item))
            return FLOW_FAIL;
        if (jinja_is_absent(item))
            break;
        if (!jinja_frame_load(run, frame) || !jinja_frame_assign(run, frame, body->target, item))
            return FLOW_FAIL;
        enum jinja_flow flow = jinja_execute(run, frame, body->body);
        if (flow == FLOW_FAIL)
            return FLOW_FAIL;
        /* As in jinja2: an iteration left by break does not count as one for the else. */
        entered = entered || flow == FLOW_NEXT;
        if (flow == FLOW_BREAK)
            break;
    }
    if (entered || body->otherwise == NULL)
        return FLOW_NEXT;
    struct jinja_frame *otherwise;
    if (!jinja_frame_make(run, body->else_scope, loop->outer, &otherwise) ||
        !jinja_frame_load(run, otherwise))
        return FLOW_FAIL;
    return jinja_execute(run, otherwise, body->otherwise);
}

static enum jinja_flow execute_for(struct jinja_run *run, struct jinja_frame *frame,
                                   const struct jinja_node *node)
{
    struct jinja_value iterable;
    struct jinja_loop *loop;
    if (!jinja_evaluate(run, frame, node->loop->iterable, &iterable) ||
        !jinja_loop_make(run, node, frame, iterable, 0, &loop))
        return FLOW_FAIL;
    return jinja_execute_loop(run, loop);
}

static bool make_macro(struct jinja_run *run, struct jinja_frame *frame,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_run_take(run, 1, sizeof(*macro));
    if (macro == NULL)
        return false;
    *macro = (struct jinja_macro){node, frame};
    *out = (struct jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
    return true;
}

static enum jinja_flow execute_macro(struct jinja_run *run, struct jinja_frame *frame,
                                     const struct jinja_node *node)
{
    struct jinja_value macro;
    return flow_of(make_macro(run, frame, node, &macro) &&
                   jinja_frame_assign(run, frame, node->target, macro));
}

static enum jinja_flow execute_call_block(struct jinja_run *run, struct jinja_frame *frame,
                                          const struct jinja_node *node)
{
    struct jinja_value callee;
    struct jinja_value result;
    struct jinja_value caller;
    struct jinja_call call = {0};
    if (!make_macro(run, frame, node, &caller) ||
        !jinja_evaluate(run, frame, node->subject->subject, &callee) ||
        !jinja_call_evaluate(run, frame, node->subject->arguments, &call))
        return FLOW_FAIL;
    struct jinja_named *named = jinja_run_take(run, call.named_count + 1, sizeof(*named));
    if (named == NULL || !jinja_run_step(run, call.named_count))
        return FLOW_FAIL;
    for (size_t i = 0; i < call.named_count; i++)
        named[i] = call.named[i];
    named[call.named_count].value = caller;
    if (!jinja_string_literal(run, "caller", &named[call.named_count].name))
        return FLOW_FAIL;
    call.named = named;
    call.named_count++;
    return flow_of(jinja_call_value(run, callee, &call, &result) &&
                   jinja_text_append(run, run->output, result));
}

/* Runs a body into a string. */
static enum jinja_flow capture(struct jinja_run *run, struct jinja_frame *frame,
                               const struct jinja_node *body, struct jinja_value *out)
{
    struct jinja_builder builder = {.limit_bytes = LIMIT_TEMPLATE_OUTPUT};
    struct jinja_builder *outer = run->output;
    run->output = &builder;
    enum jinja_flow flow = jinja_execute(run, frame, body);
    run->output = outer;
    if (flow != FLOW_NEXT)
        return flow;
    return flow_of(jinja_builder_finish(run, &builder, out));
}

/* Set and filter blocks: captures, filters, then assigns or writes. */
static enum jinja_flow execute_captured(struct jinja_run *run, struct jinja_frame *frame,
                                        const struct jinja_node *node)
{
    struct jinja_frame *inner;
    struct jinja_value text = {0};
    if (!jinja_frame_make(run, node->scope, frame, &inner) || !jinja_frame_load(run, inner))
        return FLOW_FAIL;
    enum jinja_flow flow = capture(run, inner, node->body, &text);
    if (flow != FLOW_NEXT)
        return flow;
    if (node->subject != NULL && !jinja_evaluate_filters(run, inner, node->subject, text, &text))
        return FLOW_FAIL;
    return flow_of(node->type == NODE_SET_BLOCK ? jinja_frame_assign(run, frame, node->target, text)
                                                : jinja_text_append(run, run->output, text));
}

/* Checks, before the value is computed, that namespaces among the targets are namespaces. */
static bool check_namespaces(struct jinja_run *run, struct jinja_frame *frame,
                             const struct jinja_node *target)
{
    if (target->type == NODE_NAMESPACE_REF &&
        jinja_frame_slot(frame, target)->kind != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    for (size_t i = 0; i < target->count; i++)
        if (!check_namespaces(run, frame, target->items[i]))
            return false;
    return true;
}

static enum jinja_flow execute_set(struct jinja_run *run, struct jinja_frame *frame,
                                   const struct jinja_node *node)
{
    struct jinja_value value;
    return flow_of(check_namespaces(run, frame, node->target) &&
                   jinja_evaluate(run, frame, node->subject, &value) &&
                   jinja_frame_assign(run, frame, node->target, value));
}

static enum jinja_flow execute_with(struct jinja_run *run, struct jinja_frame *frame,
                                    const struct jinja_node *node)
{
    struct jinja_frame *inner;
    if (!jinja_frame_make(run, node->scope, frame, &inner) || !jinja_frame_load(run, inner))
        return FLOW_FAIL;
    for (size_t i = 0; i < node->count; i += 2) {
        struct jinja_value value;
        if (!jinja_evaluate(run, frame, node->items[i + 1], &value) ||
            !jinja_frame_assign(run, inner, node->items[i], value))
            return FLOW_FAIL;
    }
    return jinja_execute(run, inner, node->body);
}

static enum jinja_flow execute_scope(struct jinja_run *run, struct jinja_frame *frame,
                                     const struct jinja_node *node)
{
    struct jinja_frame *inner;
    if (!jinja_frame_make(run, node->scope, frame, &inner) || !jinja_frame_load(run, inner))
        return FLOW_FAIL;
    return jinja_execute(run, inner, node->body);
}

static enum jinja_flow execute_inside(struct jinja_run *run, struct jinja_frame *frame,
                                      const struct jinja_node *node)
{
    switch (node->type) {
    case NODE_BODY: return execute_body(run, frame, node);
    case NODE_OUTPUT: return execute_output(run, frame, node);
    case NODE_IF: return execute_if(run, frame, node);
    case NODE_FOR: return execute_for(run, frame, node);
    case NODE_MACRO: return execute_macro(run, frame, node);
    case NODE_CALL_BLOCK: return execute_call_block(run, frame, node);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK: return execute_captured(run, frame, node);
    case NODE_SET: return execute_set(run, frame, node);
    case NODE_WITH: return execute_with(run, frame, node);
    case NODE_SCOPE: return execute_scope(run, frame, node);
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: return flow_of(jinja_fail(run, "an expression cannot stand here"));
    }
}

enum jinja_flow jinja_execute(struct jinja_run *run, struct jinja_frame *frame,
                              const struct jinja_node *node)
{
    if (!jinja_run_enter(run))
        return FLOW_FAIL;
    run->line = node->line;
    enum jinja_flow flow = execute_inside(run, frame, node);
    jinja_run_leave(run);
    return flow;
}
