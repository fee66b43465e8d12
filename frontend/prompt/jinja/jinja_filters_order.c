/*
 * Filters that compare items: sort, dictsort, unique, min, max, groupby; and sum.
 *
 * Python's sort is stable, also in reverse, and raises if two items have no order: a merge sort
 * over (key, item) pairs whose comparison may fail. Strings compare case-insensitively by default.
 */
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_operator.h"
#include "frontend/prompt/jinja/jinja_path.h"
#include "frontend/prompt/jinja/jinja_string.h"

struct keyed {
    struct jinja_value key;
    struct jinja_value item;
};

static bool merge(struct jinja_run *run, const struct keyed *from, size_t start, size_t middle,
                  size_t end, bool reverse, struct keyed *to)
{
    size_t left = start;
    size_t right = middle;
    for (size_t at = start; at < end; at++) {
        bool take_right = left == middle;
        if (!take_right && right < end &&
            !jinja_value_less(run, reverse ? from[left].key : from[right].key,
                              reverse ? from[right].key : from[left].key, &take_right))
            return false;
        to[at] = take_right ? from[right++] : from[left++];
    }
    return jinja_run_step(run, end - start);
}

/* Bottom up. The result is in *sorted, which is one of the two halves of one piece of memory. */
static bool sort(struct jinja_run *run, struct keyed *items, size_t count, bool reverse,
                 struct keyed **sorted)
{
    struct keyed *from = items;
    struct keyed *to = jinja_run_take(run, count, sizeof(*to));
    if (to == NULL)
        return false;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            if (!merge(run, from, start, middle, end, reverse, to))
                return false;
        }
        struct keyed *swap = from;
        from = to;
        to = swap;
    }
    *sorted = from;
    return true;
}

/* Pairs of keys and items; several paths make lists of keys. */
static bool make_keys(struct jinja_run *run, const struct jinja_list *list,
                      const struct jinja_path paths[], size_t path_count, bool as_list,
                      struct keyed **out)
{
    struct keyed *keyed = jinja_run_take(run, list->count, sizeof(*keyed));
    if (keyed == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        struct jinja_items keys = {0};
        keyed[i].item = list->items[i];
        for (size_t j = 0; j < path_count; j++)
            if (!jinja_path_follow(run, &paths[j], list->items[i], &keyed[i].key) ||
                (as_list && !jinja_items_add(run, &keys, keyed[i].key)))
                return false;
        if (as_list && !jinja_items_list(run, &keys, JINJA_LIST, &keyed[i].key))
            return false;
    }
    *out = keyed;
    return true;
}

static bool items_of(struct jinja_run *run, const struct keyed *keyed, size_t count,
                     struct jinja_value *out)
{
    struct jinja_items items = {0};
    for (size_t i = 0; i < count; i++)
        if (!jinja_items_add(run, &items, keyed[i].item))
            return false;
    return jinja_items_list(run, &items, JINJA_LIST, out);
}

#define SORT_PATHS_MAX 8

/* `attribute='a,b.c'`: one path per part. */
static bool sort_paths(struct jinja_run *run, struct jinja_value attribute, bool lower,
                       struct jinja_path paths[SORT_PATHS_MAX], size_t *count)
{
    *count = 1;
    paths[0] = (struct jinja_path){.lower = lower};
    if (attribute.kind != JINJA_STRING)
        return jinja_path_parse(run, attribute, &paths[0]);
    const struct jinja_string *text = attribute.as.string;
    size_t start = 0;
    *count = 0;
    for (size_t at = 0; at <= text->length; at++) {
        struct jinja_value part;
        if (at < text->length && text->bytes[at] != ',')
            continue;
        if (*count == SORT_PATHS_MAX)
            return jinja_fail_bound(run, "sort by too many attributes");
        paths[*count] = (struct jinja_path){.lower = lower};
        if (!jinja_string_slice(run, text, start, at, &part) ||
            !jinja_path_parse(run, part, &paths[*count]))
            return false;
        (*count)++;
        start = at + 1;
    }
    return true;
}

static bool filter_sort(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_list list;
    struct jinja_path paths[SORT_PATHS_MAX];
    size_t path_count;
    struct keyed *keyed;
    bool reverse = jinja_value_truth(call->values[0]);
    bool lower = !jinja_value_truth(call->values[1]);
    return jinja_cursor_collect(run, call->self, &list) &&
           sort_paths(run, call->values[2], lower, paths, &path_count) &&
           make_keys(run, &list, paths, path_count, true, &keyed) &&
           sort(run, keyed, list.count, reverse, &keyed) && items_of(run, keyed, list.count, out);
}

static bool filter_dictsort(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    static const struct jinja_string by_key = {.bytes = "key", .length = 3};
    const struct jinja_string *by = &by_key;
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, "'%s' object has no attribute 'items'",
                          jinja_value_type(call->self));
    if (!jinja_call_string(run, call->values[1], &by))
        return false;
    bool by_value = jinja_string_equals(by, "value");
    if (!by_value && !jinja_string_equals(by, "key"))
        return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    const struct jinja_dict *dict = call->self.as.dict;
    struct jinja_path path = {.lower = !jinja_value_truth(call->values[0])};
    struct keyed *keyed = jinja_run_take(run, dict->count, sizeof(*keyed));
    if (keyed == NULL)
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_entry *entry = &dict->entries[i];
        if (!jinja_items_pair(run, entry->key, entry->value, &keyed[i].item) ||
            !jinja_path_follow(run, &path, by_value ? entry->value : entry->key, &keyed[i].key))
            return false;
    }
    return sort(run, keyed, dict->count, jinja_value_truth(call->values[2]), &keyed) &&
           items_of(run, keyed, dict->count, out);
}

static bool gather_unique(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_items *unique)
{
    struct jinja_path path = {.lower = !jinja_value_truth(call->values[0])};
    struct jinja_cursor cursor;
    struct jinja_dict *seen;
    if (!jinja_path_parse(run, call->values[1], &path) || !jinja_dict_make(run, 0, &seen) ||
        !jinja_cursor_start(run, call->self, &cursor))
        return false;
    for (;;) {
        struct jinja_value item;
        struct jinja_value key;
        struct jinja_value found = {0};
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (jinja_is_absent(item))
            return true;
        if (!jinja_path_follow(run, &path, item, &key) || !jinja_dict_get(run, seen, key, &found))
            return false;
        if (jinja_is_absent(found) &&
            (!jinja_dict_set(run, seen, key, jinja_none()) || !jinja_items_add(run, unique, item)))
            return false;
    }
}

static bool filter_unique(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_items unique = {0};
    bool done = gather_unique(run, call, &unique);
    return jinja_items_iterator(run, &unique, !done, out);
}

static bool extreme(struct jinja_run *run, const struct jinja_call *call, bool largest,
                    struct jinja_value *out)
{
    struct jinja_path path = {.lower = !jinja_value_truth(call->values[0])};
    struct jinja_list list;
    struct keyed *keyed;
    if (!jinja_cursor_collect(run, call->self, &list) ||
        !jinja_path_parse(run, call->values[1], &path) ||
        !make_keys(run, &list, &path, 1, false, &keyed))
        return false;
    if (list.count == 0)
        return jinja_undefined_hint(run, "No aggregated item, sequence was empty.", out);
    size_t best = 0;
    for (size_t i = 1; i < list.count; i++) {
        bool better;
        if (!jinja_run_step(run, 1) || !jinja_value_less(run, keyed[largest ? best : i].key,
                                                         keyed[largest ? i : best].key, &better))
            return false;
        best = better ? i : best;
    }
    *out = keyed[best].item;
    return true;
}

static bool filter_min(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return extreme(run, call, false, out);
}

static bool filter_max(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return extreme(run, call, true, out);
}

static bool make_group(struct jinja_run *run, const struct jinja_path *path,
                       const struct keyed *keyed, size_t count, struct jinja_value *out)
{
    struct jinja_value *pair = jinja_run_take(run, 2, sizeof(*pair));
    struct jinja_list *group = jinja_run_take(run, 1, sizeof(*group));
    if (pair == NULL || group == NULL || !jinja_path_follow(run, path, keyed[0].item, &pair[0]) ||
        !items_of(run, keyed, count, &pair[1]))
        return false;
    *group = (struct jinja_list){.items = pair, .count = 2, .group = true};
    *out = (struct jinja_value){.kind = JINJA_TUPLE, .as.list = group};
    return true;
}

static bool filter_groupby(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_path path = {.fallback = call->values[1],
                              .lower = !jinja_value_truth(call->values[2])};
    struct jinja_list list;
    struct keyed *keyed;
    struct jinja_items groups = {0};
    if (!jinja_cursor_collect(run, call->self, &list) ||
        !jinja_path_parse(run, call->values[0], &path) ||
        !make_keys(run, &list, &path, 1, false, &keyed) ||
        !sort(run, keyed, list.count, false, &keyed))
        return false;
    path.lower = false; /* groups are named in their first item's spelling */
    for (size_t start = 0; start < list.count;) {
        size_t end = start + 1;
        struct jinja_value group;
        for (bool same = true; same && end < list.count; end += same ? 1 : 0)
            if (!jinja_value_equal(run, keyed[start].key, keyed[end].key, &same))
                return false;
        if (!make_group(run, &path, keyed + start, end - start, &group) ||
            !jinja_items_add(run, &groups, group))
            return false;
        start = end;
    }
    return jinja_items_list(run, &groups, JINJA_LIST, out);
}

static bool filter_sum(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_path path = {0};
    struct jinja_cursor cursor;
    struct jinja_value sum = jinja_is_absent(call->values[1]) ? jinja_int(0) : call->values[1];
    if (sum.kind == JINJA_STRING)
        return jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_path_parse(run, call->values[0], &path) ||
        !jinja_cursor_start(run, call->self, &cursor))
        return false;
    for (;;) {
        struct jinja_value item;
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (jinja_is_absent(item))
            break;
        if (!jinja_path_follow(run, &path, item, &item) ||
            !jinja_operator_apply(run, TOKEN_ADD, sum, item, &sum))
            return false;
    }
    *out = sum;
    return true;
}

const struct jinja_signature jinja_filters_order[] = {
    {"sort", filter_sort, "| reverse case_sensitive attribute"},
    {"dictsort", filter_dictsort, "| case_sensitive by reverse"},
    {"unique", filter_unique, "| case_sensitive attribute"},
    {"min", filter_min, "| case_sensitive attribute"},
    {"max", filter_max, "| case_sensitive attribute"},
    {"groupby", filter_groupby, "attribute | default case_sensitive"},
    {"sum", filter_sum, "| attribute start"},
    {NULL, NULL, NULL}};
