/*
 * map, select, reject, selectattr, rejectattr: filters that apply other filters and tests to each
 * item.
 *
 * In Python they are generators, so a failure of an item is reported only to a reader that reads
 * that far. Here all items are computed at once; the first failure ends the gathering and is stored
 * in the iterator (jinja_cursor.h).
 */
#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_path.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_tests.h"

/* The operation applied to each item. */
struct applied {
    struct jinja_path path;
    const struct jinja_signature *signature; /* a filter or a test; NULL: none */
    struct jinja_call call;                  /* its arguments */
    bool maps;                               /* maps; else selects */
    bool keeps_true;
};

static bool apply(struct jinja_run *run, struct applied *applied, struct jinja_value item,
                  struct jinja_items *gathered)
{
    struct jinja_value value;
    struct jinja_value result;
    if (!jinja_path_follow(run, &applied->path, item, &value))
        return false;
    result = value;
    applied->call.self = value;
    if (applied->signature != NULL &&
        !jinja_call_builtin(run, applied->signature, &applied->call, &result))
        return false;
    if (applied->maps)
        return jinja_items_add(run, gathered, result);
    return jinja_value_truth(result) != applied->keeps_true || jinja_items_add(run, gathered, item);
}

static bool gather(struct jinja_run *run, struct jinja_value subject, struct applied *applied,
                   struct jinja_items *gathered)
{
    struct jinja_cursor cursor;
    if (!jinja_cursor_start(run, subject, &cursor))
        return false;
    for (;;) {
        struct jinja_value item;
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (jinja_is_absent(item))
            return true;
        if (!apply(run, applied, item, gathered))
            return false;
    }
}

/* The filter or test named by values[0]; the other values are its arguments. */
static bool find_named(struct jinja_run *run, struct applied *applied, bool filter)
{
    const struct jinja_string *name = NULL;
    if (applied->call.count == 0)
        return true;
    if (!jinja_call_string(run, applied->call.values[0], &name))
        return false;
    applied->signature = filter ? jinja_filter_find(name->bytes, name->length)
                                : jinja_test_find(name->bytes, name->length);
    if (applied->signature == NULL)
        return jinja_fail(run, "No %s named '%.*s'.", filter ? "filter" : "test",
                          (int)(name->length > 60 ? 60 : name->length), name->bytes);
    applied->call.values++;
    applied->call.count--;
    return true;
}

static bool prepare_map(struct jinja_run *run, struct applied *applied)
{
    struct jinja_value attribute = {0};
    struct jinja_call *call = &applied->call;
    for (size_t i = 0; call->count == 0 && i < call->named_count; i++)
        if (jinja_string_equals(call->named[i].name.as.string, "attribute"))
            attribute = call->named[i].value;
    if (jinja_is_absent(attribute)) {
        if (call->count == 0)
            return jinja_fail(run, "map requires a filter argument");
        return find_named(run, applied, true);
    }
    for (size_t i = 0; i < call->named_count; i++) {
        const struct jinja_string *name = call->named[i].name.as.string;
        if (jinja_string_equals(name, "default"))
            applied->path.fallback = call->named[i].value;
        else if (!jinja_string_equals(name, "attribute"))
            return jinja_fail(run, "Unexpected keyword argument '%.*s'",
                              (int)(name->length > 60 ? 60 : name->length), name->bytes);
    }
    return jinja_path_parse(run, attribute, &applied->path);
}

static bool prepare_choice(struct jinja_run *run, struct applied *applied, bool by_attribute)
{
    if (by_attribute) {
        if (applied->call.count == 0)
            return jinja_fail(run, "Missing parameter for attribute name");
        if (!jinja_path_parse(run, applied->call.values[0], &applied->path))
            return false;
        applied->call.values++;
        applied->call.count--;
    }
    return find_named(run, applied, false);
}

static bool filter_map(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct applied applied = {.call = *call, .maps = true};
    struct jinja_items gathered = {0};
    bool done = !jinja_value_truth(call->self) ||
                (prepare_map(run, &applied) && gather(run, call->self, &applied, &gathered));
    return jinja_items_iterator(run, &gathered, !done, out);
}

static bool choose(struct jinja_run *run, const struct jinja_call *call, bool by_attribute,
                   bool keeps_true, struct jinja_value *out)
{
    struct applied applied = {.call = *call, .keeps_true = keeps_true};
    struct jinja_items gathered = {0};
    bool done = !jinja_value_truth(call->self) || (prepare_choice(run, &applied, by_attribute) &&
                                                   gather(run, call->self, &applied, &gathered));
    return jinja_items_iterator(run, &gathered, !done, out);
}

static bool filter_select(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return choose(run, call, false, true, out);
}

static bool filter_reject(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return choose(run, call, false, false, out);
}

static bool filter_selectattr(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return choose(run, call, true, true, out);
}

static bool filter_rejectattr(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return choose(run, call, true, false, out);
}

const struct jinja_signature jinja_filters_select[] = {{"map", filter_map, NULL},
                                                       {"select", filter_select, NULL},
                                                       {"reject", filter_reject, NULL},
                                                       {"selectattr", filter_selectattr, NULL},
                                                       {"rejectattr", filter_rejectattr, NULL},
                                                       {NULL, NULL, NULL}};
