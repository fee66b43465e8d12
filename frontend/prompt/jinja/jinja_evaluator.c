/*
 * The evaluator: walks expressions.
 *
 * A switch over node types, one small function each. `and` and `or` give values, not booleans;
 * comparisons chain and stop early; unknown filters and tests fail only when reached. Constants and
 * names, which are the majority of nodes, skip the accounting of depth.
 */
#include "frontend/prompt/jinja/jinja_evaluator.h"

#include <stdio.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_member.h"
#include "frontend/prompt/jinja/jinja_operator.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"

static bool evaluate_list(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_items items = {.count = node->count};
    items.items = jinja_run_take(run, node->count, sizeof(struct jinja_value));
    if (items.items == NULL)
        return false;
    for (size_t i = 0; i < node->count; i++)
        if (!jinja_evaluate(run, frame, node->items[i], &items.items[i]))
            return false;
    return jinja_items_list(run, &items, node->type == NODE_LIST ? JINJA_LIST : JINJA_TUPLE, out);
}

static bool evaluate_dict(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_dict *dict;
    if (!jinja_dict_make(run, node->count / 2, &dict))
        return false;
    for (size_t i = 0; i < node->count; i += 2) {
        struct jinja_value key;
        struct jinja_value value;
        if (!jinja_evaluate(run, frame, node->items[i], &key) ||
            !jinja_evaluate(run, frame, node->items[i + 1], &value) ||
            !jinja_dict_set(run, dict, key, value))
            return false;
    }
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}

static bool evaluate_index(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object;
    struct jinja_value key;
    const struct jinja_node *index = node->items[0];
    if (!jinja_evaluate(run, frame, node->subject, &object))
        return false;
    if (index->type != NODE_SLICE)
        return jinja_evaluate(run, frame, index, &key) && jinja_member_index(run, object, key, out);
    struct jinja_value bounds[3] = {{0}, {0}, {0}};
    for (size_t i = 0; i < 3; i++)
        if (index->items[i] != NULL && !jinja_evaluate(run, frame, index->items[i], &bounds[i]))
            return false;
    return jinja_member_slice(run, object, bounds, out);
}

static bool evaluate_call(struct jinja_run *run, struct jinja_frame *frame,
                          const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_call call = {0};
    return jinja_evaluate(run, frame, node->subject, &callee) &&
           jinja_call_evaluate(run, frame, node->arguments, &call) &&
           jinja_call_value(run, callee, &call, out);
}

/* Applies a filter or a test to an evaluated subject. */
static bool apply_named(struct jinja_run *run, struct jinja_frame *frame,
                        const struct jinja_node *node, struct jinja_value subject,
                        struct jinja_value *out)
{
    struct jinja_call call = {.self = subject};
    if (node->signature == NULL)
        return jinja_fail(run, "No %s named '%.*s' found.",
                          node->type == NODE_FILTER ? "filter" : "test",
                          (int)(node->name_bytes > 60 ? 60 : node->name_bytes), node->name);
    return jinja_call_evaluate(run, frame, node->arguments, &call) &&
           jinja_call_builtin(run, node->signature, &call, out);
}

bool jinja_evaluate_filters(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node, struct jinja_value subject,
                            struct jinja_value *out)
{
    if (!jinja_run_enter(run))
        return false;
    bool applied = (node->subject == NULL ||
                    jinja_evaluate_filters(run, frame, node->subject, subject, &subject)) &&
                   apply_named(run, frame, node, subject, out);
    jinja_run_leave(run);
    return applied;
}

static bool evaluate_named(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value subject;
    return jinja_evaluate(run, frame, node->subject, &subject) &&
           apply_named(run, frame, node, subject, out);
}

static bool evaluate_condition(struct jinja_run *run, struct jinja_frame *frame,
                               const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value test;
    if (!jinja_evaluate(run, frame, node->items[0], &test))
        return false;
    if (jinja_value_truth(test))
        return jinja_evaluate(run, frame, node->items[1], out);
    if (node->items[2] != NULL)
        return jinja_evaluate(run, frame, node->items[2], out);
    enum { HINT_BYTES = 128 };
    char *hint = jinja_run_take(run, HINT_BYTES, 1);
    if (hint == NULL)
        return false;
    (void)snprintf(hint, HINT_BYTES,
                   "the inline if-expression on line %d evaluated to false and no else section "
                   "was defined.",
                   node->line);
    return jinja_undefined_hint(run, hint, out);
}

static bool evaluate_logic(struct jinja_run *run, struct jinja_frame *frame,
                           const struct jinja_node *node, struct jinja_value *out)
{
    for (size_t i = 0; i < node->count; i++) {
        if (!jinja_evaluate(run, frame, node->items[i], out))
            return false;
        if (jinja_value_truth(*out) == (node->type == NODE_OR))
            return true;
    }
    return true;
}

static bool evaluate_not(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value;
    if (!jinja_evaluate(run, frame, node->subject, &value))
        return false;
    *out = jinja_bool(!jinja_value_truth(value));
    return true;
}

static bool evaluate_compare(struct jinja_run *run, struct jinja_frame *frame,
                             const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left;
    bool holds = true;
    if (!jinja_evaluate(run, frame, node->items[0], &left))
        return false;
    for (size_t i = 1; holds && i < node->count; i++) {
        struct jinja_value right;
        if (!jinja_evaluate(run, frame, node->items[i], &right) ||
            !jinja_operator_compare(run, node->operators[i], left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool evaluate_arithmetic(struct jinja_run *run, struct jinja_frame *frame,
                                const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left;
    if (!jinja_evaluate(run, frame, node->items[0], &left))
        return false;
    for (size_t i = 1; i < node->count; i++) {
        struct jinja_value right;
        if (!jinja_evaluate(run, frame, node->items[i], &right) ||
            !jinja_operator_apply(run, node->operators[i], left, right, &left))
            return false;
    }
    *out = left;
    return true;
}

static bool evaluate_concat(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value joined = {0};
    for (size_t i = 0; i < node->count; i++) {
        struct jinja_value item;
        struct jinja_value text;
        if (!jinja_evaluate(run, frame, node->items[i], &item) || !jinja_text_str(run, item, &text))
            return false;
        if (i == 0)
            joined = text;
        else if (!jinja_string_concat(run, joined.as.string, text.as.string, &joined))
            return false;
    }
    *out = joined;
    return true;
}

static bool evaluate_inside(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value;
    switch (node->type) {
    case NODE_TUPLE:
    case NODE_LIST: return evaluate_list(run, frame, node, out);
    case NODE_DICT: return evaluate_dict(run, frame, node, out);
    case NODE_MEMBER:
        return jinja_evaluate(run, frame, node->subject, &value) &&
               jinja_member_get(run, value, node->value, out);
    case NODE_INDEX: return evaluate_index(run, frame, node, out);
    case NODE_CALL: return evaluate_call(run, frame, node, out);
    case NODE_FILTER:
    case NODE_TEST: return evaluate_named(run, frame, node, out);
    case NODE_CONDITION: return evaluate_condition(run, frame, node, out);
    case NODE_OR:
    case NODE_AND: return evaluate_logic(run, frame, node, out);
    case NODE_NOT: return evaluate_not(run, frame, node, out);
    case NODE_COMPARE: return evaluate_compare(run, frame, node, out);
    case NODE_ARITHMETIC: return evaluate_arithmetic(run, frame, node, out);
    case NODE_CONCAT: return evaluate_concat(run, frame, node, out);
    case NODE_NEGATE:
    case NODE_PLUS:
        return jinja_evaluate(run, frame, node->subject, &value) &&
               jinja_operator_sign(run, node->type == NODE_NEGATE, value, out);
    default: return jinja_fail(run, "a slice cannot stand here");
    }
}

bool jinja_evaluate(struct jinja_run *run, struct jinja_frame *frame, const struct jinja_node *node,
                    struct jinja_value *out)
{
    if (node->type == NODE_CONST) {
        *out = node->value;
        return jinja_run_step(run, 1);
    }
    if (node->type == NODE_NAME) {
        *out = *jinja_frame_slot(frame, node);
        if (!jinja_is_absent(*out))
            return jinja_run_step(run, 1);
        return jinja_run_step(run, 1) &&
               jinja_undefined_name(run, node->name, node->name_bytes, out);
    }
    if (!jinja_run_enter(run))
        return false;
    bool evaluated = evaluate_inside(run, frame, node, out);
    jinja_run_leave(run);
    return evaluated;
}
