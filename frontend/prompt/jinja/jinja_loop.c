/*
 * Loops and the `loop` variable.
 *
 * `loop.last` looks one item ahead, `loop.length` may have to read all items, and with `for … if`
 * both run the test on later items. As in jinja2: one item of look-ahead; if the length of an
 * iterator is requested, the rest is read into a list and the loop continues over that.
 */
#include "frontend/prompt/jinja/jinja_loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_evaluator.h"
#include "frontend/prompt/jinja/jinja_string.h"

bool jinja_loop_make(struct jinja_run *run, const struct jinja_node *node,
                     struct jinja_frame *outer, struct jinja_value iterable, int64_t depth0,
                     struct jinja_loop **loop)
{
    struct jinja_loop *made = jinja_run_take(run, 1, sizeof(*made));
    if (made == NULL)
        return false;
    *made = (struct jinja_loop){
        .node = node, .outer = outer, .index0 = -1, .depth0 = depth0, .length = -1};
    *loop = made;
    if (!jinja_cursor_start(run, iterable, &made->cursor))
        return false;
    return node->loop->test == NULL ||
           (jinja_frame_make(run, node->loop->test_scope, outer, &made->test_frame) &&
            jinja_frame_load(run, made->test_frame));
}

/* The next item of the source that passes the test. */
static bool pull(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *item)
{
    for (;;) {
        if (!jinja_cursor_next(run, &loop->cursor, item))
            return false;
        if (jinja_is_absent(*item) || loop->test_frame == NULL)
            return true;
        struct jinja_value passes;
        if (!jinja_frame_assign(run, loop->test_frame, loop->node->loop->test_target, *item) ||
            !jinja_evaluate(run, loop->test_frame, loop->node->loop->test, &passes))
            return false;
        if (jinja_value_truth(passes))
            return true;
    }
}

static bool peek(struct jinja_run *run, struct jinja_loop *loop)
{
    return !jinja_is_absent(loop->after) || pull(run, loop, &loop->after);
}

bool jinja_loop_next(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *item)
{
    if (!peek(run, loop))
        return false;
    *item = loop->after;
    loop->after = (struct jinja_value){0};
    if (jinja_is_absent(*item))
        return true;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *item;
    return true;
}

static bool measure(struct jinja_run *run, struct jinja_loop *loop)
{
    size_t length;
    if (loop->length >= 0)
        return true;
    if (loop->test_frame == NULL && jinja_cursor_length(loop->cursor.over, &length)) {
        loop->length = (int64_t)length;
        return true;
    }
    struct jinja_items rest = {0};
    for (;;) {
        struct jinja_value item;
        if (!pull(run, loop, &item))
            return false;
        if (jinja_is_absent(item))
            break;
        if (!jinja_items_add(run, &rest, item))
            return false;
    }
    loop->length = (int64_t)rest.count + loop->index0 + 1 + (jinja_is_absent(loop->after) ? 0 : 1);
    loop->test_frame = NULL; /* all remaining items passed the test */
    loop->cursor.next = 0;
    return jinja_items_list(run, &rest, JINJA_LIST, &loop->cursor.over);
}

static bool loop_cycle(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    if (call->count == 0)
        return jinja_fail(run, "no items for cycling given");
    *out = call->values[(size_t)call->self.as.loop->index0 % call->count];
    return true;
}

static bool loop_changed(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_loop *loop = call->self.as.loop;
    struct jinja_items items = {0};
    bool equal = false;
    struct jinja_value seen;
    for (size_t i = 0; i < call->count; i++)
        if (!jinja_items_add(run, &items, call->values[i]))
            return false;
    if (!jinja_items_list(run, &items, JINJA_TUPLE, &seen) ||
        !jinja_value_equal(run, loop->changed, seen, &equal))
        return false;
    if (!equal)
        loop->changed = seen;
    *out = jinja_bool(!equal);
    return true;
}

static const struct jinja_signature LOOP_METHODS[] = {
    {"cycle", loop_cycle, NULL}, {"changed", loop_changed, NULL}, {NULL, NULL, NULL}};

static bool loop_method(struct jinja_run *run, struct jinja_loop *loop,
                        const struct jinja_string *name, struct jinja_value *out)
{
    const struct jinja_signature *method = jinja_call_find(LOOP_METHODS, name->bytes, name->length);
    if (method == NULL)
        return true;
    struct jinja_function *function = jinja_run_take(run, 1, sizeof(*function));
    if (function == NULL)
        return false;
    *function = (struct jinja_function){method, {.kind = JINJA_LOOP, .as.loop = loop}};
    *out = (struct jinja_value){.kind = JINJA_FUNCTION, .as.function = function};
    return true;
}

static bool loop_neighbour(struct jinja_run *run, struct jinja_loop *loop, bool next,
                           struct jinja_value *out)
{
    if (next && !peek(run, loop))
        return false;
    bool absent = next ? jinja_is_absent(loop->after) : loop->index0 == 0;
    if (absent)
        return jinja_undefined_hint(
            run, next ? "there is no next item" : "there is no previous item", out);
    *out = next ? loop->after : loop->before;
    return true;
}

bool jinja_loop_member(struct jinja_run *run, struct jinja_loop *loop,
                       const struct jinja_string *name, struct jinja_value *out)
{
    if (jinja_string_equals(name, "index"))
        *out = jinja_int(loop->index0 + 1);
    else if (jinja_string_equals(name, "index0"))
        *out = jinja_int(loop->index0);
    else if (jinja_string_equals(name, "first"))
        *out = jinja_bool(loop->index0 == 0);
    else if (jinja_string_equals(name, "depth"))
        *out = jinja_int(loop->depth0 + 1);
    else if (jinja_string_equals(name, "depth0"))
        *out = jinja_int(loop->depth0);
    else if (jinja_string_equals(name, "previtem"))
        return loop_neighbour(run, loop, false, out);
    else if (jinja_string_equals(name, "nextitem"))
        return loop_neighbour(run, loop, true, out);
    else if (jinja_string_equals(name, "last")) {
        if (!peek(run, loop))
            return false;
        *out = jinja_bool(jinja_is_absent(loop->after));
    } else if (jinja_string_equals(name, "length") || jinja_string_equals(name, "revindex") ||
               jinja_string_equals(name, "revindex0")) {
        if (!measure(run, loop))
            return false;
        int64_t passed = name->length == 6 ? 0 : loop->index0 + (name->length == 9 ? 1 : 0);
        *out = jinja_int(loop->length - passed);
    } else {
        return loop_method(run, loop, name, out);
    }
    return true;
}

bool jinja_loop_describe(struct jinja_run *run, struct jinja_loop *loop,
                         struct jinja_builder *builder)
{
    char text[80];
    if (!measure(run, loop))
        return false;
    (void)snprintf(text, sizeof(text), "<LoopContext %" PRId64 "/%" PRId64 ">", loop->index0 + 1,
                   loop->length);
    return jinja_builder_text(run, builder, text);
}
