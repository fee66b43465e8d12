/*
 * Tests: `x is defined`, `x is mapping`, `x is divisibleby 3` …
 *
 * A test is a builtin whose self is the subject and whose result is a boolean. Operators are tests
 * too, under several names each.
 */
#include "frontend/prompt/jinja/jinja_tests.h"

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_operator.h"
#include "frontend/prompt/jinja/jinja_text.h"

#define DEFINE_TEST(name, truth)                                                                   \
    static bool test_##name(struct jinja_run *run, const struct jinja_call *call,                  \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        struct jinja_value value = call->self;                                                     \
        (void)run;                                                                                 \
        *out = jinja_bool(truth);                                                                  \
        return true;                                                                               \
    }
DEFINE_TEST(defined, value.kind != JINJA_UNDEFINED)
DEFINE_TEST(undefined, value.kind == JINJA_UNDEFINED)
DEFINE_TEST(none, value.kind == JINJA_NONE)
DEFINE_TEST(boolean, value.kind == JINJA_BOOL)
DEFINE_TEST(true, value.kind == JINJA_BOOL && value.as.boolean)
DEFINE_TEST(false, value.kind == JINJA_BOOL && !value.as.boolean)
DEFINE_TEST(integer, value.kind == JINJA_INT)
DEFINE_TEST(float, value.kind == JINJA_FLOAT)
DEFINE_TEST(number,
            value.kind == JINJA_INT || value.kind == JINJA_FLOAT || value.kind == JINJA_BOOL)
DEFINE_TEST(string, value.kind == JINJA_STRING)
DEFINE_TEST(mapping, value.kind == JINJA_DICT)
DEFINE_TEST(sequence, value.kind == JINJA_UNDEFINED || value.kind == JINJA_STRING ||
                          value.kind == JINJA_LIST || value.kind == JINJA_TUPLE ||
                          value.kind == JINJA_DICT || value.kind == JINJA_RANGE)
DEFINE_TEST(iterable, jinja_cursor_can(value))
DEFINE_TEST(callable, jinja_call_can(value))
DEFINE_TEST(escaped, value.kind == JINJA_STRING && value.as.string->markup)

static bool remainder_of(struct jinja_run *run, struct jinja_value value, struct jinja_value by,
                         int64_t wanted, struct jinja_value *out)
{
    struct jinja_value rest;
    bool equal;
    if (!jinja_operator_apply(run, TOKEN_MOD, value, by, &rest) ||
        !jinja_value_equal(run, rest, jinja_int(wanted), &equal))
        return false;
    *out = jinja_bool(equal);
    return true;
}

static bool test_odd(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return remainder_of(run, call->self, jinja_int(2), 1, out);
}

static bool test_even(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return remainder_of(run, call->self, jinja_int(2), 0, out);
}

static bool test_divisibleby(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    return remainder_of(run, call->self, call->values[0], 0, out);
}

static bool is_cased(struct jinja_run *run, const struct jinja_call *call, bool upper,
                     struct jinja_value *out)
{
    struct jinja_value text;
    if (!jinja_text_str(run, call->self, &text) || !jinja_run_scan(run, text.as.string->length * 4))
        return false;
    *out = jinja_bool(jinja_methods_is_cased(text.as.string, upper));
    return true;
}

static bool test_upper(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return is_cased(run, call, true, out);
}

static bool test_lower(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return is_cased(run, call, false, out);
}

/* Python's `is`: singletons, small integers, and the same object. */
static bool test_sameas(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value a = call->self;
    struct jinja_value b = call->values[0];
    bool same = a.kind == b.kind;
    (void)run;
    if (same && a.kind == JINJA_BOOL)
        same = a.as.boolean == b.as.boolean;
    else if (same && a.kind == JINJA_INT)
        same = a.as.integer == b.as.integer && a.as.integer >= -5 && a.as.integer <= 256;
    else if (same && a.kind != JINJA_NONE)
        same = a.kind != JINJA_FLOAT && a.as.list == b.as.list;
    *out = jinja_bool(same);
    return true;
}

static bool compare(struct jinja_run *run, const struct jinja_call *call,
                    enum jinja_token_type operator, struct jinja_value * out)
{
    bool holds;
    if (!jinja_operator_compare(run, operator, call->self, call->values[0], &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

#define DEFINE_COMPARISON(name, operator)                                                          \
    static bool test_##name(struct jinja_run *run, const struct jinja_call *call,                  \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        return compare(run, call, operator, out);                                                  \
    }
DEFINE_COMPARISON(eq, TOKEN_EQ)
DEFINE_COMPARISON(ne, TOKEN_NE)
DEFINE_COMPARISON(lt, TOKEN_LT)
DEFINE_COMPARISON(le, TOKEN_LE)
DEFINE_COMPARISON(gt, TOKEN_GT)
DEFINE_COMPARISON(ge, TOKEN_GE)
DEFINE_COMPARISON(in, TOKEN_PIPE)

static bool is_named(struct jinja_run *run, const struct jinja_call *call, bool filter,
                     struct jinja_value *out)
{
    const struct jinja_string *name = NULL;
    if (!jinja_call_string(run, call->self, &name))
        return false;
    *out = jinja_bool((filter ? jinja_filter_find(name->bytes, name->length)
                              : jinja_test_find(name->bytes, name->length)) != NULL);
    return true;
}

static bool test_filter(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return is_named(run, call, true, out);
}

static bool test_test(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return is_named(run, call, false, out);
}

static const struct jinja_signature TESTS[] = {
    {"defined", test_defined, ""},    {"undefined", test_undefined, ""},
    {"none", test_none, ""},          {"boolean", test_boolean, ""},
    {"true", test_true, ""},          {"false", test_false, ""},
    {"integer", test_integer, ""},    {"float", test_float, ""},
    {"number", test_number, ""},      {"string", test_string, ""},
    {"mapping", test_mapping, ""},    {"sequence", test_sequence, ""},
    {"iterable", test_iterable, ""},  {"callable", test_callable, ""},
    {"escaped", test_escaped, ""},    {"odd", test_odd, ""},
    {"even", test_even, ""},          {"divisibleby", test_divisibleby, "num"},
    {"upper", test_upper, ""},        {"lower", test_lower, ""},
    {"sameas", test_sameas, "other"}, {"in", test_in, "seq"},
    {"eq", test_eq, "other"},         {"equalto", test_eq, "other"},
    {"==", test_eq, "other"},         {"ne", test_ne, "other"},
    {"!=", test_ne, "other"},         {"lt", test_lt, "other"},
    {"lessthan", test_lt, "other"},   {"<", test_lt, "other"},
    {"le", test_le, "other"},         {"<=", test_le, "other"},
    {"gt", test_gt, "other"},         {"greaterthan", test_gt, "other"},
    {">", test_gt, "other"},          {"ge", test_ge, "other"},
    {">=", test_ge, "other"},         {"filter", test_filter, ""},
    {"test", test_test, ""},          {NULL, NULL, NULL}};

const struct jinja_signature *jinja_test_find(const char *name, size_t name_bytes)
{
    return jinja_call_find(TESTS, name, name_bytes);
}
