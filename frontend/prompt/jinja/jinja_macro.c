/*
 * Macros, call blocks and recursive loops: bodies that run when called and whose output is the
 * call's value.
 *
 * Defaults of a macro's parameters can refer to earlier parameters, and it has up to three hidden
 * ones (caller, kwargs, varargs), depending on the names its body uses. Positional, then keyword
 * arguments are bound to the slots of a new frame whose outer frame is the one of the macro's
 * definition; the body runs into its own builder.
 */
#include "frontend/prompt/jinja/jinja_macro.h"

#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_evaluator.h"
#include "frontend/prompt/jinja/jinja_executor.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "proto/limits.h"

static bool name_is(const struct jinja_named *named, const char *name, size_t name_bytes)
{
    return named->name.as.string->length == name_bytes &&
           memcmp(named->name.as.string->bytes, name, name_bytes) == 0;
}

static struct jinja_value *parameter_slot(struct jinja_frame *frame,
                                          const struct jinja_parameter *parameter)
{
    return &frame->slots[parameter->name->slot];
}

/* The unbound parameter that a keyword names; NULL if there is none. */
static struct jinja_value *open_slot(struct jinja_frame *frame, const struct jinja_macro_body *body,
                                     size_t first, const struct jinja_named *named)
{
    for (size_t i = first; i < body->parameter_count; i++) {
        const struct jinja_node *name = body->parameters[i].name;
        if (name_is(named, name->name, name->name_bytes))
            return parameter_slot(frame, &body->parameters[i]);
    }
    return NULL;
}

static bool bind_positional(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_macro *macro, const struct jinja_call *call)
{
    const struct jinja_macro_body *body = macro->node->macro;
    size_t taken = call->count < body->parameter_count ? call->count : body->parameter_count;
    for (size_t i = 0; i < taken; i++)
        *parameter_slot(frame, &body->parameters[i]) = call->values[i];
    if (body->uses_varargs) {
        struct jinja_items rest = {0};
        for (size_t i = taken; i < call->count; i++)
            if (!jinja_items_add(run, &rest, call->values[i]))
                return false;
        return jinja_items_list(run, &rest, JINJA_TUPLE, &frame->slots[body->varargs_slot]);
    }
    if (call->count > body->parameter_count)
        return jinja_fail(
            run, "macro '%.*s' takes not more than %zu argument(s)", (int)macro->node->name_bytes,
            macro->node->name == NULL ? "" : macro->node->name, body->parameter_count);
    return true;
}

static bool bind_keyword(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_macro *macro, const struct jinja_named *named,
                         size_t first_open, struct jinja_dict *kwargs)
{
    const struct jinja_macro_body *body = macro->node->macro;
    struct jinja_value *slot = open_slot(frame, body, first_open, named);
    if (slot == NULL && body->uses_caller && name_is(named, "caller", 6))
        slot = &frame->slots[body->caller_slot];
    if (slot != NULL) {
        *slot = named->value;
        return true;
    }
    if (kwargs != NULL)
        return jinja_dict_set(run, kwargs, named->name, named->value);
    const struct jinja_string *name = named->name.as.string;
    if (name_is(named, "caller", 6))
        return jinja_fail(run,
                          "macro '%.*s' was invoked with two values for the special caller "
                          "argument. This is most likely a bug.",
                          (int)macro->node->name_bytes,
                          macro->node->name == NULL ? "" : macro->node->name);
    return jinja_fail(run, "macro '%.*s' takes no keyword argument '%.*s'",
                      (int)macro->node->name_bytes,
                      macro->node->name == NULL ? "" : macro->node->name,
                      (int)(name->length > 60 ? 60 : name->length), name->bytes);
}

static bool bind_keywords(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_macro *macro, const struct jinja_call *call)
{
    const struct jinja_macro_body *body = macro->node->macro;
    size_t first_open = call->count < body->parameter_count ? call->count : body->parameter_count;
    struct jinja_dict *kwargs = NULL;
    if (body->uses_kwargs && !jinja_dict_make(run, call->named_count, &kwargs))
        return false;
    for (size_t i = 0; i < call->named_count; i++)
        if (!bind_keyword(run, frame, macro, &call->named[i], first_open, kwargs))
            return false;
    if (body->uses_kwargs)
        frame->slots[body->kwargs_slot] =
            (struct jinja_value){.kind = JINJA_DICT, .as.dict = kwargs};
    if (!body->uses_caller)
        return true;
    struct jinja_value *caller = &frame->slots[body->caller_slot];
    return (!jinja_is_absent(*caller) && caller->kind != JINJA_NONE) ||
           jinja_undefined_hint(run, "No caller defined", caller);
}

static bool not_provided(struct jinja_run *run, const struct jinja_node *name,
                         struct jinja_value *out)
{
    size_t bytes = name->name_bytes + 40;
    char *hint = jinja_run_take(run, bytes, 1);
    if (hint == NULL)
        return false;
    (void)snprintf(hint, bytes, "parameter '%.*s' was not provided", (int)name->name_bytes,
                   name->name);
    return jinja_undefined_hint(run, hint, out);
}

static bool bind_defaults(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_macro_body *body)
{
    for (size_t i = 0; i < body->parameter_count; i++) {
        struct jinja_value *slot = parameter_slot(frame, &body->parameters[i]);
        if (!jinja_is_absent(*slot))
            continue;
        struct jinja_value value;
        if (body->parameters[i].fallback == NULL) {
            if (!not_provided(run, body->parameters[i].name, slot))
                return false;
            continue;
        }
        if (!jinja_evaluate(run, frame, body->parameters[i].fallback, &value))
            return false;
        *slot = value;
    }
    return true;
}

bool jinja_macro_call(struct jinja_run *run, const struct jinja_macro *macro,
                      const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_macro_body *body = macro->node->macro;
    struct jinja_frame *frame;
    if (!jinja_frame_make(run, body->scope, macro->outer, &frame) ||
        !bind_positional(run, frame, macro, call) || !bind_keywords(run, frame, macro, call) ||
        !jinja_frame_load(run, frame) || !bind_defaults(run, frame, body))
        return false;
    struct jinja_builder builder = {.limit_bytes = LIMIT_TEMPLATE_OUTPUT};
    struct jinja_builder *outer = run->output;
    int line = run->line;
    run->output = &builder;
    enum jinja_flow flow = jinja_execute(run, frame, body->body);
    run->output = outer;
    if (flow == FLOW_FAIL)
        return false;
    run->line = line;
    return jinja_builder_finish(run, &builder, out);
}

bool jinja_macro_call_loop(struct jinja_run *run, struct jinja_loop *loop,
                           const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_loop *inner;
    if (!loop->node->loop->recursive)
        return jinja_fail(run,
                          "The loop must have the 'recursive' marker to be called recursively.");
    if (call->count != 1 || call->named_count > 0)
        return jinja_fail(run, "loop() takes one argument");
    if (!jinja_loop_make(run, loop->node, loop->outer, call->values[0], loop->depth0 + 1, &inner))
        return false;
    struct jinja_builder builder = {.limit_bytes = LIMIT_TEMPLATE_OUTPUT};
    struct jinja_builder *outer = run->output;
    run->output = &builder;
    enum jinja_flow flow = jinja_execute_loop(run, inner);
    run->output = outer;
    return flow != FLOW_FAIL && jinja_builder_finish(run, &builder, out);
}
