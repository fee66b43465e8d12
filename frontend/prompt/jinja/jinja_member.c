/*
 * Members, items and slices.
 *
 * `m.content` and `m['content']` usually mean the same: the first tries the attribute before the
 * item, the second the item before the attribute. So `m.items` is the method even if the message
 * has a key "items". Methods of a type come from its table. Methods that change a list or a
 * dictionary, and private names, give an undefined value whose message says that they are unsafe;
 * calling it fails with that message, as in Hugging Face's immutable sandbox.
 */
#include "frontend/prompt/jinja/jinja_member.h"

#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_globals.h"
#include "frontend/prompt/jinja/jinja_loop.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_node.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "proto/utf8.h"

static bool bind_method(struct jinja_run *run, struct jinja_value self,
                        const struct jinja_signature *method, struct jinja_value *out)
{
    struct jinja_function *function = jinja_run_take(run, 1, sizeof(*function));
    if (function == NULL)
        return false;
    *function = (struct jinja_function){method, self};
    *out = (struct jinja_value){.kind = JINJA_FUNCTION, .as.function = function};
    return true;
}

static bool unsafe(struct jinja_run *run, struct jinja_value object,
                   const struct jinja_string *name, struct jinja_value *out)
{
    size_t bytes = name->length + 80;
    char *hint = jinja_run_take(run, bytes, 1);
    if (hint == NULL)
        return false;
    (void)snprintf(hint, bytes, "access to attribute '%.*s' of '%s' object is unsafe.",
                   (int)name->length, name->bytes, jinja_value_type(object));
    return jinja_undefined_hint(run, hint, out);
}

static bool macro_member(struct jinja_run *run, const struct jinja_macro *macro,
                         const struct jinja_string *name, struct jinja_value *out)
{
    const struct jinja_macro_body *body = macro->node->macro;
    struct jinja_items items = {0};
    if (jinja_string_equals(name, "name")) {
        *out = jinja_none();
        return macro->node->name == NULL ||
               jinja_string_view(run, macro->node->name, macro->node->name_bytes, true, out);
    }
    if (jinja_string_equals(name, "caller"))
        *out = jinja_bool(body->uses_caller);
    else if (jinja_string_equals(name, "catch_kwargs"))
        *out = jinja_bool(body->uses_kwargs);
    else if (jinja_string_equals(name, "catch_varargs"))
        *out = jinja_bool(body->uses_varargs);
    if (!jinja_string_equals(name, "arguments"))
        return true;
    for (size_t i = 0; i < body->parameter_count; i++) {
        const struct jinja_node *parameter = body->parameters[i].name;
        struct jinja_value shown;
        if (!jinja_string_view(run, parameter->name, parameter->name_bytes, true, &shown) ||
            !jinja_items_add(run, &items, shown))
            return false;
    }
    return jinja_items_list(run, &items, JINJA_TUPLE, out);
}

/* Python's getattr(): *out stays JINJA_MISSING if there is no such attribute. */
static bool attribute(struct jinja_run *run, struct jinja_value object, struct jinja_value name,
                      struct jinja_value *out)
{
    const struct jinja_string *text = name.as.string;
    if (object.kind == JINJA_NAMESPACE)
        return jinja_dict_get(run, object.as.names, name, out);
    if (text->length > 4 && memcmp(text->bytes, "__", 2) == 0 &&
        memcmp(text->bytes + text->length - 2, "__", 2) == 0)
        return unsafe(run, object, text, out);
    if (object.kind == JINJA_LOOP)
        return jinja_loop_member(run, object.as.loop, text, out);
    if (object.kind == JINJA_MACRO)
        return macro_member(run, object.as.macro, text, out);
    if (object.kind == JINJA_CYCLER && jinja_string_equals(text, "current")) {
        *out = object.as.cycler->items[object.as.cycler->next];
        return true;
    }
    if (object.kind == JINJA_TUPLE && object.as.list->group) {
        bool grouper = jinja_string_equals(text, "grouper");
        if (grouper || jinja_string_equals(text, "list")) {
            *out = object.as.list->items[grouper ? 0 : 1];
            return true;
        }
    }
    if (jinja_methods_are_unsafe(object, text))
        return unsafe(run, object, text, out);
    const struct jinja_signature *table =
        object.kind == JINJA_CYCLER ? jinja_globals_cycler_methods() : jinja_methods_of(object);
    const struct jinja_signature *method =
        table == NULL ? NULL : jinja_call_find(table, text->bytes, text->length);
    return method == NULL || bind_method(run, object, method, out);
}

static bool string_index(struct jinja_run *run, const struct jinja_string *string, int64_t index,
                         struct jinja_value *out)
{
    if (!jinja_run_scan(run, string->length))
        return false;
    if (index < 0)
        index += (int64_t)jinja_string_chars(string);
    if (index < 0)
        return true;
    size_t start = jinja_string_offset(string, (size_t)index);
    if (start >= string->length)
        return true;
    bool valid;
    size_t bytes = utf8_scan(string->bytes + start, string->length - start, &valid);
    return jinja_string_slice(run, string, start, start + bytes, out);
}

/* Python's object[key]: *out stays JINJA_MISSING if Python raises a LookupError or TypeError. */
static bool item(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                 struct jinja_value *out)
{
    int64_t index = 0;
    if (object.kind == JINJA_DICT) {
        bool hashable = key.kind != JINJA_LIST && key.kind != JINJA_DICT && key.kind != JINJA_VIEW;
        return !hashable || jinja_dict_get(run, object.as.dict, key, out);
    }
    if (!jinja_value_integer(key, &index))
        return true;
    if (object.kind == JINJA_STRING)
        return string_index(run, object.as.string, index, out);
    bool list = object.kind == JINJA_LIST || object.kind == JINJA_TUPLE;
    if (!list && object.kind != JINJA_RANGE)
        return true;
    size_t count = list ? object.as.list->count : object.as.range->count;
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || (uint64_t)index >= count)
        return true;
    if (list)
        *out = object.as.list->items[index];
    else
        *out = jinja_int(object.as.range->start + object.as.range->step * index);
    return true;
}

bool jinja_member_get(struct jinja_run *run, struct jinja_value object, struct jinja_value name,
                      struct jinja_value *out)
{
    struct jinja_value found = {0};
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!attribute(run, object, name, &found))
        return false;
    if (jinja_is_absent(found) && !item(run, object, name, &found))
        return false;
    if (jinja_is_absent(found))
        return jinja_undefined_member(run, object, name, out);
    *out = found;
    return true;
}

bool jinja_member_index(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                        struct jinja_value *out)
{
    struct jinja_value found = {0};
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!item(run, object, key, &found))
        return false;
    if (jinja_is_absent(found) && key.kind == JINJA_STRING && !attribute(run, object, key, &found))
        return false;
    if (jinja_is_absent(found))
        return jinja_undefined_member(run, object, key, out);
    *out = found;
    return true;
}

/* --- slices
 * -------------------------------------------------------------------------------------------------
 */

struct slice {
    int64_t start;
    int64_t step;
    size_t count;
};

static int64_t clamp(int64_t index, int64_t length, bool backwards)
{
    if (index < 0)
        index = index < -length ? (backwards ? -1 : 0) : index + length;
    if (index >= length)
        index = backwards ? length - 1 : length;
    return index;
}

static bool slice_bound(struct jinja_run *run, struct jinja_value bound, int64_t *out, bool *given)
{
    *given = bound.kind != JINJA_NONE && !jinja_is_absent(bound);
    if (!*given || jinja_value_integer(bound, out))
        return true;
    return jinja_fail(run, "slice indices must be integers or None or have an __index__ method");
}

static bool slice_resolve(struct jinja_run *run, const struct jinja_value bounds[3], size_t length,
                          struct slice *slice)
{
    int64_t start = 0;
    int64_t stop = 0;
    int64_t step = 1;
    int64_t total = (int64_t)length;
    bool has_start;
    bool has_stop;
    bool has_step;
    if (!slice_bound(run, bounds[0], &start, &has_start) ||
        !slice_bound(run, bounds[1], &stop, &has_stop) ||
        !slice_bound(run, bounds[2], &step, &has_step))
        return false;
    if (step == 0)
        return jinja_fail(run, "slice step cannot be zero");
    if (step < -INT64_MAX)
        step = -INT64_MAX;
    bool backwards = step < 0;
    start = has_start ? clamp(start, total, backwards) : (backwards ? total - 1 : 0);
    stop = has_stop ? clamp(stop, total, backwards) : (backwards ? -1 : total);
    slice->start = start;
    slice->step = step;
    if (backwards)
        slice->count = start > stop ? (size_t)((start - stop - 1) / -step + 1) : 0;
    else
        slice->count = stop > start ? (size_t)((stop - start - 1) / step + 1) : 0;
    return true;
}

static bool slice_string(struct jinja_run *run, const struct jinja_string *string,
                         const struct slice *slice, struct jinja_value *out)
{
    if (!jinja_run_scan(run, string->length))
        return false;
    if (slice->step == 1 || slice->count == 0) {
        size_t start = jinja_string_offset(string, slice->count == 0 ? 0 : (size_t)slice->start);
        struct jinja_string rest = {.bytes = string->bytes + start,
                                    .length = string->length - start};
        return jinja_string_slice(run, string, start,
                                  start + jinja_string_offset(&rest, slice->count), out);
    }
    struct jinja_list chars;
    struct jinja_builder builder = {0};
    if (!jinja_cursor_collect(run, jinja_string(string), &chars))
        return false;
    for (size_t i = 0; i < slice->count; i++)
        if (!jinja_builder_string(run, &builder,
                                  chars.items[slice->start + (int64_t)i * slice->step].as.string))
            return false;
    return jinja_builder_finish(run, &builder, out);
}

static bool slice_range(struct jinja_run *run, const struct jinja_range *range,
                        const struct slice *slice, struct jinja_value *out)
{
    struct jinja_range *made = jinja_run_take(run, 1, sizeof(*made));
    if (made == NULL)
        return false;
    made->count = slice->count;
    if (__builtin_mul_overflow(range->step, slice->step, &made->step) ||
        __builtin_add_overflow(range->start, range->step * slice->start, &made->start) ||
        __builtin_mul_overflow(made->step, (int64_t)made->count, &made->stop) ||
        __builtin_add_overflow(made->stop, made->start, &made->stop))
        return jinja_fail(run, "integer over 64 bits");
    *out = (struct jinja_value){.kind = JINJA_RANGE, .as.range = made};
    return true;
}

bool jinja_member_slice(struct jinja_run *run, struct jinja_value object,
                        const struct jinja_value bounds[3], struct jinja_value *out)
{
    size_t length = 0;
    struct slice slice = {0};
    bool list = object.kind == JINJA_LIST || object.kind == JINJA_TUPLE;
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!list && object.kind != JINJA_STRING && object.kind != JINJA_RANGE)
        return jinja_fail(run, "'%s' object is not subscriptable", jinja_value_type(object));
    if (object.kind == JINJA_STRING && !jinja_run_scan(run, object.as.string->length))
        return false;
    if (!jinja_cursor_length(object, &length) || !slice_resolve(run, bounds, length, &slice))
        return false;
    if (object.kind == JINJA_STRING)
        return slice_string(run, object.as.string, &slice, out);
    if (object.kind == JINJA_RANGE)
        return slice_range(run, object.as.range, &slice, out);
    struct jinja_items items = {.count = slice.count};
    if (slice.step == 1) { /* shares the items */
        struct jinja_list *part = jinja_run_take(run, 1, sizeof(*part));
        if (part == NULL)
            return false;
        *part = (struct jinja_list){.count = slice.count};
        if (slice.count > 0)
            part->items = object.as.list->items + slice.start;
        *out = (struct jinja_value){.kind = object.kind, .as.list = part};
        return true;
    }
    items.items = jinja_run_take(run, slice.count, sizeof(*items.items));
    if (items.items == NULL || !jinja_run_step(run, 1 + slice.count / 8))
        return false;
    for (size_t i = 0; i < slice.count; i++)
        items.items[i] = object.as.list->items[slice.start + (int64_t)i * slice.step];
    return jinja_items_list(run, &items, object.kind, out);
}
