/*
 * Filters on sequences and mappings: first, last, length, parts, joins; and `default`.
 *
 * All use a cursor, so every filter takes any value that Python can iterate. Filters that return a
 * generator in Python return an iterator here: it is consumed once and has no length.
 */
#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_member.h"
#include "frontend/prompt/jinja/jinja_path.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"

static bool filter_default(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    bool replaced = call->self.kind == JINJA_UNDEFINED ||
                    (jinja_value_truth(call->values[1]) && !jinja_value_truth(call->self));
    *out = replaced ? call->values[0] : call->self;
    return !jinja_is_absent(*out) || jinja_string_literal(run, "", out);
}

static bool filter_length(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    size_t length;
    if (call->self.kind == JINJA_STRING && !jinja_run_scan(run, call->self.as.string->length))
        return false;
    if (!jinja_cursor_length(call->self, &length))
        return jinja_fail(run, "object of type '%s' has no len()", jinja_value_type(call->self));
    *out = jinja_int((int64_t)length);
    return true;
}

static bool filter_first(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_cursor cursor;
    if (!jinja_cursor_start(run, call->self, &cursor) || !jinja_cursor_next(run, &cursor, out))
        return false;
    return !jinja_is_absent(*out) ||
           jinja_undefined_hint(run, "No first item, sequence was empty.", out);
}

static bool filter_last(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    if (call->self.kind == JINJA_ITERATOR)
        return jinja_fail(run, "'generator' object is not reversible");
    if (!jinja_cursor_collect(run, call->self, &list))
        return false;
    if (list.count == 0)
        return jinja_undefined_hint(run, "No last item, sequence was empty.", out);
    *out = list.items[list.count - 1];
    return true;
}

static bool filter_list(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list *list = jinja_run_take(run, 1, sizeof(*list));
    if (list == NULL || !jinja_cursor_collect(run, call->self, list))
        return false;
    list->group = false;
    *out = (struct jinja_value){.kind = JINJA_LIST, .as.list = list};
    return true;
}

static bool filter_join(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    struct jinja_cursor cursor;
    struct jinja_path path = {0};
    struct jinja_value separator = call->values[0];
    if (jinja_is_absent(separator) && !jinja_string_literal(run, "", &separator))
        return false;
    if (!jinja_text_str(run, separator, &separator) ||
        !jinja_path_parse(run, call->values[1], &path) ||
        !jinja_cursor_start(run, call->self, &cursor))
        return false;
    for (size_t i = 0;; i++) {
        struct jinja_value item;
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (jinja_is_absent(item))
            break;
        if (!jinja_path_follow(run, &path, item, &item) ||
            (i > 0 && !jinja_builder_string(run, &builder, separator.as.string)) ||
            !jinja_text_append(run, &builder, item))
            return false;
    }
    return jinja_builder_finish(run, &builder, out);
}

static bool filter_items(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_items items = {0};
    if (call->self.kind != JINJA_DICT && call->self.kind != JINJA_UNDEFINED) {
        (void)jinja_fail(run, "Can only get item pairs from a mapping.");
        return jinja_items_iterator(run, &items, true, out);
    }
    for (size_t i = 0; call->self.kind == JINJA_DICT && i < call->self.as.dict->count; i++) {
        const struct jinja_entry *entry = &call->self.as.dict->entries[i];
        struct jinja_value pair;
        if (!jinja_items_pair(run, entry->key, entry->value, &pair) ||
            !jinja_items_add(run, &items, pair))
            return false;
    }
    return jinja_items_iterator(run, &items, false, out);
}

static bool filter_reverse(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_value backwards[3] = {{0}, {0}, jinja_int(-1)};
    struct jinja_items items = {0};
    struct jinja_list list;
    if (call->self.kind == JINJA_STRING)
        return jinja_member_slice(run, call->self, backwards, out);
    if (!jinja_cursor_can(call->self))
        return jinja_fail(run, "argument must be iterable");
    if (!jinja_cursor_collect(run, call->self, &list))
        return false;
    for (size_t i = list.count; i > 0; i--)
        if (!jinja_items_add(run, &items, list.items[i - 1]))
            return false;
    return call->self.kind == JINJA_ITERATOR ? jinja_items_list(run, &items, JINJA_LIST, out)
                                             : jinja_items_iterator(run, &items, false, out);
}

static bool gather_batches(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_items *batches)
{
    struct jinja_list list;
    int64_t size = 0;
    bool fill = call->values[1].kind != JINJA_NONE && !jinja_is_absent(call->values[1]);
    if (!jinja_call_integer(run, call->values[0], &size) ||
        !jinja_cursor_collect(run, call->self, &list))
        return false;
    for (size_t at = 0; at < list.count;) {
        struct jinja_items batch = {0};
        struct jinja_value made;
        /* If the size is 0 or less, the first batch takes all items. */
        while (at < list.count && (batch.count == 0 || (int64_t)batch.count != size))
            if (!jinja_items_add(run, &batch, list.items[at++]))
                return false;
        if (size == 0 && batches->count == 0 && list.count > 0) {
            struct jinja_items none = {0};
            if (!jinja_items_list(run, &none, JINJA_LIST, &made) ||
                !jinja_items_add(run, batches, made))
                return false;
        }
        while (fill && at == list.count && (int64_t)batch.count < size)
            if (!jinja_items_add(run, &batch, call->values[1]))
                return false;
        if (!jinja_items_list(run, &batch, JINJA_LIST, &made) ||
            !jinja_items_add(run, batches, made))
            return false;
    }
    return true;
}

static bool filter_batch(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_items batches = {0};
    bool done = gather_batches(run, call, &batches);
    return jinja_items_iterator(run, &batches, !done, out);
}

static bool gather_slices(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_items *slices)
{
    struct jinja_list list;
    int64_t wanted = 0;
    bool fill = call->values[1].kind != JINJA_NONE && !jinja_is_absent(call->values[1]);
    if (!jinja_call_integer(run, call->values[0], &wanted) ||
        !jinja_cursor_collect(run, call->self, &list))
        return false;
    if (wanted == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    size_t at = 0;
    for (int64_t i = 0; i < wanted; i++) {
        size_t extra = list.count % (size_t)wanted;
        size_t size = list.count / (size_t)wanted + ((size_t)i < extra ? 1 : 0);
        struct jinja_items slice = {0};
        struct jinja_value made;
        for (; size > 0; size--)
            if (!jinja_items_add(run, &slice, list.items[at++]))
                return false;
        if (fill && (size_t)i >= extra && !jinja_items_add(run, &slice, call->values[1]))
            return false;
        if (!jinja_items_list(run, &slice, JINJA_LIST, &made) ||
            !jinja_items_add(run, slices, made))
            return false;
    }
    return true;
}

static bool filter_slice(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_items slices = {0};
    bool done = gather_slices(run, call, &slices);
    return jinja_items_iterator(run, &slices, !done, out);
}

static bool filter_attr(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_string *name = NULL;
    if (!jinja_call_string(run, call->values[0], &name))
        return false;
    /* Unlike `.name`, never an item: keys of a mapping are ignored. */
    if (call->self.kind == JINJA_DICT) {
        static const struct jinja_dict empty = {0};
        struct jinja_value bare = {.kind = JINJA_DICT, .as.dict = &empty};
        struct jinja_value found;
        if (!jinja_member_get(run, bare, call->values[0], &found))
            return false;
        if (found.kind == JINJA_UNDEFINED) {
            *out = found;
            return true;
        }
    }
    return jinja_member_get(run, call->self, call->values[0], out);
}

const struct jinja_signature jinja_filters_sequence[] = {
    {"default", filter_default, "| default_value boolean"},
    {"d", filter_default, "| default_value boolean"},
    {"length", filter_length, ""},
    {"count", filter_length, ""},
    {"first", filter_first, ""},
    {"last", filter_last, ""},
    {"list", filter_list, ""},
    {"join", filter_join, "| d attribute"},
    {"items", filter_items, ""},
    {"reverse", filter_reverse, ""},
    {"batch", filter_batch, "linecount | fill_with"},
    {"slice", filter_slice, "slices | fill_with"},
    {"attr", filter_attr, "name"},
    {NULL, NULL, NULL}};
