/*
 * Operations on all values: type names, truth, equality, order and hashes.
 *
 * Python compares across int, float and bool, orders strings and sequences, and refuses other
 * comparisons with messages that are reproduced here. Numbers are compared first; containers
 * recurse, counting the run's depth and steps, so that comparing deeply nested values ends at a
 * bound.
 */
#include "frontend/prompt/jinja/jinja_value.h"

#include <math.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_run.h"

const char *jinja_value_type(struct jinja_value value)
{
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    static const char *const types[JINJA_KIND_COUNT] = {[JINJA_MISSING] = "missing",
                                                        [JINJA_UNDEFINED] = "Undefined",
                                                        [JINJA_NONE] = "NoneType",
                                                        [JINJA_BOOL] = "bool",
                                                        [JINJA_INT] = "int",
                                                        [JINJA_FLOAT] = "float",
                                                        [JINJA_STRING] = "str",
                                                        [JINJA_LIST] = "list",
                                                        [JINJA_TUPLE] = "tuple",
                                                        [JINJA_DICT] = "dict",
                                                        [JINJA_RANGE] = "range",
                                                        [JINJA_ITERATOR] = "generator",
                                                        [JINJA_NAMESPACE] = "Namespace",
                                                        [JINJA_LOOP] = "LoopContext",
                                                        [JINJA_CYCLER] = "Cycler",
                                                        [JINJA_JOINER] = "Joiner",
                                                        [JINJA_MACRO] = "Macro",
                                                        [JINJA_FUNCTION] = "function"};
    return value.kind == JINJA_VIEW ? views[value.as.view->part] : types[value.kind];
}

bool jinja_value_truth(struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return value.as.boolean;
    case JINJA_INT: return value.as.integer != 0;
    case JINJA_FLOAT: return value.as.real != 0.0;
    case JINJA_STRING: return value.as.string->length > 0;
    case JINJA_LIST:
    case JINJA_TUPLE: return value.as.list->count > 0;
    case JINJA_DICT: return value.as.dict->count > 0;
    case JINJA_VIEW: return value.as.view->dict->count > 0;
    case JINJA_RANGE: return value.as.range->count > 0;
    default: return true;
    }
}

bool jinja_value_integer(struct jinja_value value, int64_t *integer)
{
    if (value.kind != JINJA_INT && value.kind != JINJA_BOOL)
        return false;
    *integer = value.kind == JINJA_INT ? value.as.integer : (value.as.boolean ? 1 : 0);
    return true;
}

bool jinja_value_real(struct jinja_value value, double *real)
{
    int64_t integer = 0;
    if (value.kind == JINJA_FLOAT)
        *real = value.as.real;
    else if (jinja_value_integer(value, &integer))
        *real = (double)integer;
    else
        return false;
    return true;
}

/* -1, 0, 1, or 2 if one of them is a NaN. */
static int number_compare(struct jinja_value left, struct jinja_value right)
{
    int64_t a = 0;
    int64_t b = 0;
    bool whole_left = jinja_value_integer(left, &a);
    bool whole_right = jinja_value_integer(right, &b);
    if (whole_left && whole_right)
        return a < b ? -1 : (a > b ? 1 : 0);
    double x = whole_left ? (double)a : left.as.real;
    double y = whole_right ? (double)b : right.as.real;
    if (isnan(x) || isnan(y))
        return 2;
    if (x != y || (!whole_left && !whole_right))
        return x < y ? -1 : (x > y ? 1 : 0);
    /* Equal after rounding: the integer decides, unless the double is 2^63. */
    int64_t whole = whole_left ? a : b;
    double real = whole_left ? y : x;
    int order =
        real >= 0x1p63 ? -1 : (whole < (int64_t)real ? -1 : (whole > (int64_t)real ? 1 : 0));
    return whole_left ? order : -order;
}

static bool is_number(struct jinja_value value)
{
    return value.kind == JINJA_INT || value.kind == JINJA_FLOAT || value.kind == JINJA_BOOL;
}

static bool list_equal(struct jinja_run *run, const struct jinja_list *left,
                       const struct jinja_list *right, bool *equal)
{
    *equal = left->count == right->count;
    for (size_t i = 0; *equal && i < left->count; i++)
        if (!jinja_run_step(run, 1) ||
            !jinja_value_equal(run, left->items[i], right->items[i], equal))
            return false;
    return true;
}

static bool dict_equal(struct jinja_run *run, const struct jinja_dict *left,
                       const struct jinja_dict *right, bool *equal)
{
    *equal = left->count == right->count;
    for (size_t i = 0; *equal && i < left->count; i++) {
        struct jinja_value other = {0};
        if (!jinja_run_step(run, 1) || !jinja_dict_get(run, right, left->entries[i].key, &other))
            return false;
        if (jinja_is_absent(other))
            *equal = false;
        else if (!jinja_value_equal(run, left->entries[i].value, other, equal))
            return false;
    }
    return true;
}

static bool range_equal(const struct jinja_range *left, const struct jinja_range *right)
{
    if (left->count != right->count || left->count == 0)
        return left->count == right->count;
    return left->start == right->start && (left->count == 1 || left->step == right->step);
}

static bool same_kind_equal(struct jinja_run *run, struct jinja_value left,
                            struct jinja_value right, bool *equal)
{
    switch (left.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: *equal = true; return true;
    case JINJA_STRING:
        *equal = left.as.string->length == right.as.string->length &&
                 memcmp(left.as.string->bytes, right.as.string->bytes, left.as.string->length) == 0;
        return jinja_run_scan(run, *equal ? left.as.string->length : 0);
    case JINJA_LIST:
    case JINJA_TUPLE: return list_equal(run, left.as.list, right.as.list, equal);
    case JINJA_DICT: return dict_equal(run, left.as.dict, right.as.dict, equal);
    case JINJA_RANGE: *equal = range_equal(left.as.range, right.as.range); return true;
    default: *equal = left.as.list == right.as.list; return true; /* the same object */
    }
}

bool jinja_value_equal(struct jinja_run *run, struct jinja_value left, struct jinja_value right,
                       bool *equal)
{
    if (is_number(left) && is_number(right)) {
        *equal = number_compare(left, right) == 0;
        return true;
    }
    *equal = false;
    if (left.kind != right.kind)
        return true;
    if (!jinja_run_enter(run))
        return false;
    bool compared = same_kind_equal(run, left, right, equal);
    jinja_run_leave(run);
    return compared;
}

static bool string_less(const struct jinja_string *left, const struct jinja_string *right)
{
    size_t common = left->length < right->length ? left->length : right->length;
    int order = common == 0 ? 0 : memcmp(left->bytes, right->bytes, common);
    return order != 0 ? order < 0 : left->length < right->length;
}

static bool list_less(struct jinja_run *run, const struct jinja_list *left,
                      const struct jinja_list *right, bool *less)
{
    for (size_t i = 0; i < left->count && i < right->count; i++) {
        bool equal;
        if (!jinja_run_step(run, 1) ||
            !jinja_value_equal(run, left->items[i], right->items[i], &equal))
            return false;
        if (equal)
            continue;
        if (!jinja_run_enter(run))
            return false;
        bool compared = jinja_value_less(run, left->items[i], right->items[i], less);
        jinja_run_leave(run);
        return compared;
    }
    *less = left->count < right->count;
    return true;
}

bool jinja_value_less(struct jinja_run *run, struct jinja_value left, struct jinja_value right,
                      bool *less)
{
    if (is_number(left) && is_number(right)) {
        *less = number_compare(left, right) == -1;
        return true;
    }
    if (left.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, left);
    if (right.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, right);
    if (left.kind == JINJA_STRING && right.kind == JINJA_STRING) {
        *less = string_less(left.as.string, right.as.string);
        return jinja_run_scan(run, left.as.string->length);
    }
    if (left.kind == right.kind && (left.kind == JINJA_LIST || left.kind == JINJA_TUPLE))
        return list_less(run, left.as.list, right.as.list, less);
    return jinja_fail(run, "'<' not supported between instances of '%s' and '%s'",
                      jinja_value_type(left), jinja_value_type(right));
}

static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
}

static bool list_hash(struct jinja_run *run, const struct jinja_list *list, uint64_t *hash)
{
    uint64_t sum = list->count;
    if (!jinja_run_enter(run))
        return false;
    bool hashed = true;
    for (size_t i = 0; hashed && i < list->count; i++) {
        uint64_t item = 0;
        hashed = jinja_value_hash(run, list->items[i], &item);
        sum = mix(sum ^ item);
    }
    jinja_run_leave(run);
    *hash = sum;
    return hashed;
}

bool jinja_value_hash(struct jinja_run *run, struct jinja_value value, uint64_t *hash)
{
    int64_t integer = 0;
    switch (value.kind) {
    case JINJA_STRING:
        *hash = jinja_dict_hash_bytes(value.as.string->bytes, value.as.string->length);
        return jinja_run_scan(run, value.as.string->length);
    case JINJA_BOOL:
    case JINJA_INT:
        (void)jinja_value_integer(value, &integer);
        *hash = mix((uint64_t)integer);
        return true;
    case JINJA_FLOAT:
        if (value.as.real >= -0x1p63 && value.as.real < 0x1p63 &&
            value.as.real == (double)(int64_t)value.as.real)
            *hash = mix((uint64_t)(int64_t)value.as.real);
        else
            memcpy(hash, &value.as.real, sizeof(*hash));
        return true;
    case JINJA_TUPLE: return list_hash(run, value.as.list, hash);
    case JINJA_LIST:
    case JINJA_DICT:
    case JINJA_VIEW: return jinja_fail(run, "unhashable type: '%s'", jinja_value_type(value));
    case JINJA_UNDEFINED:
    case JINJA_NONE: *hash = mix((uint64_t)value.kind); return true;
    default: *hash = mix((uint64_t)(uintptr_t)value.as.list); return true;
    }
}
