/*
 * The methods of each kind of value.
 *
 * String methods are in jinja_methods_string.c (search, split, strip, replace) and
 * jinja_methods_case.c (case and classes); those of lists, tuples and dictionaries are here,
 * because the immutable sandbox allows only a few.
 */
#include "frontend/prompt/jinja/jinja_methods.h"

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"

static bool make_view(struct jinja_run *run, const struct jinja_call *call,
                      enum jinja_view_part part, struct jinja_value *out)
{
    struct jinja_view *view = jinja_run_take(run, 1, sizeof(*view));
    if (view == NULL)
        return false;
    *view = (struct jinja_view){call->self.as.dict, part};
    *out = (struct jinja_value){.kind = JINJA_VIEW, .as.view = view};
    return true;
}

static bool dict_keys(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return make_view(run, call, JINJA_VIEW_KEYS, out);
}

static bool dict_values(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return make_view(run, call, JINJA_VIEW_VALUES, out);
}

static bool dict_items(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return make_view(run, call, JINJA_VIEW_ITEMS, out);
}

static bool dict_get(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value found = {0};
    if (!jinja_dict_get(run, call->self.as.dict, call->values[0], &found))
        return false;
    if (jinja_is_absent(found))
        found = jinja_is_absent(call->values[1]) ? jinja_none() : call->values[1];
    *out = found;
    return true;
}

static bool itself(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    *out = call->self; /* immutable, so its copy is the same object */
    return jinja_run_step(run, 1);
}

static const struct jinja_signature dict_methods[] = {
    {"keys", dict_keys, ""}, {"values", dict_values, ""},        {"items", dict_items, ""},
    {"copy", itself, ""},    {"get", dict_get, "key | default"}, {NULL, NULL, NULL}};

static bool list_count(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_list *list = call->self.as.list;
    int64_t count = 0;
    if (!jinja_run_step(run, list->count))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        bool equal;
        if (!jinja_value_equal(run, list->items[i], call->values[0], &equal))
            return false;
        count += equal ? 1 : 0;
    }
    *out = jinja_int(count);
    return true;
}

static int64_t from_end(int64_t index, size_t count)
{
    return index < 0 ? (index < -(int64_t)count ? 0 : index + (int64_t)count) : index;
}

static bool list_index(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_list *list = call->self.as.list;
    int64_t start = 0;
    int64_t stop = INT64_MAX;
    if (!jinja_call_integer(run, call->values[1], &start) ||
        !jinja_call_integer(run, call->values[2], &stop) || !jinja_run_step(run, list->count))
        return false;
    start = from_end(start, list->count);
    stop = from_end(stop, list->count);
    for (int64_t i = start; i < stop && (uint64_t)i < list->count; i++) {
        bool equal;
        if (!jinja_value_equal(run, list->items[i], call->values[0], &equal))
            return false;
        if (equal) {
            *out = jinja_int(i);
            return true;
        }
    }
    return jinja_fail(run, "%s.index(x): x not in %s", jinja_value_type(call->self),
                      jinja_value_type(call->self));
}

static const struct jinja_signature list_methods[] = {{"count", list_count, "value"},
                                                      {"index", list_index, "value | start stop"},
                                                      {"copy", itself, ""},
                                                      {NULL, NULL, NULL}};

const struct jinja_signature *jinja_methods_of(struct jinja_value object)
{
    switch (object.kind) {
    case JINJA_STRING: return jinja_methods_string;
    case JINJA_DICT: return dict_methods;
    case JINJA_LIST: return list_methods;
    case JINJA_TUPLE: return list_methods;
    default: return NULL;
    }
}

bool jinja_methods_are_unsafe(struct jinja_value object, const struct jinja_string *name)
{
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *names = NULL;
    if (object.kind == JINJA_LIST)
        names = of_list;
    else if (object.kind == JINJA_DICT)
        names = of_dict;
    for (; names != NULL && *names != NULL; names++)
        if (jinja_string_equals(name, *names))
            return true;
    return false;
}
