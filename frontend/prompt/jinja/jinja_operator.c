/*
 * Arithmetic, comparison and membership.
 *
 * `+` adds, concatenates strings, lists and tuples, and escapes if one side is markup; `%` is a
 * remainder with the sign of the divisor, or string formatting. Numbers are handled first, by the
 * kinds of both sides; then sequences; then Python's messages for unsupported operands. Integers
 * over 64 bits, which Python supports, are refused.
 */
#include "frontend/prompt/jinja/jinja_operator.h"

#include <math.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_format.h"
#include "frontend/prompt/jinja/jinja_markup.h"
#include "frontend/prompt/jinja/jinja_string.h"

static bool overflow_fail(struct jinja_run *run)
{
    return jinja_fail(run, "integer over 64 bits");
}

static bool zero_fail(struct jinja_run *run)
{
    return jinja_fail(run, "division by zero");
}

static bool integer_power(struct jinja_run *run, int64_t base, int64_t exponent,
                          struct jinja_value *out)
{
    if (exponent < 0) {
        if (base == 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        *out = jinja_float(pow((double)base, (double)exponent));
        return true;
    }
    int64_t power = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power))
            return overflow_fail(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return overflow_fail(run);
    }
    *out = jinja_int(power);
    return true;
}

static bool integer_divide(struct jinja_run *run, bool remainder, int64_t a, int64_t b,
                           struct jinja_value *out)
{
    if (b == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    if (b == -1) { /* INT64_MIN / -1 traps */
        if (!remainder && a == INT64_MIN)
            return overflow_fail(run);
        *out = jinja_int(remainder ? 0 : -a);
        return true;
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *out = jinja_int(remainder ? rest : quotient);
    return true;
}

static bool apply_integers(struct jinja_run *run, enum jinja_token_type operator, int64_t a,
                           int64_t b, struct jinja_value *out)
{
    int64_t result = 0;
    bool overflow = false;
    switch (operator) {
    case TOKEN_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case TOKEN_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case TOKEN_MUL: overflow = __builtin_mul_overflow(a, b, &result); break;
    case TOKEN_POW: return integer_power(run, a, b, out);
    case TOKEN_FLOORDIV:
    case TOKEN_MOD: return integer_divide(run, operator== TOKEN_MOD, a, b, out);
    default:
        if (b == 0)
            return zero_fail(run);
        *out = jinja_float((double)a / (double)b);
        return true;
    }
    if (overflow)
        return overflow_fail(run);
    *out = jinja_int(result);
    return true;
}

static bool apply_reals(struct jinja_run *run, enum jinja_token_type operator, double a, double b,
                        struct jinja_value *out)
{
    double result = 0;
    switch (operator) {
    case TOKEN_ADD: result = a + b; break;
    case TOKEN_SUB: result = a - b; break;
    case TOKEN_MUL: result = a * b; break;
    case TOKEN_POW:
        if (a == 0 && b < 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b))
            return jinja_fail(run, "complex numbers are not supported");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return jinja_fail(run, "(34, 'Numerical result out of range')");
        break;
    case TOKEN_DIV:
        if (b == 0)
            return zero_fail(run);
        result = a / b;
        break;
    default:
        if (b == 0)
            return jinja_fail(run, "float modulo");
        result = fmod(a, b);
        if (operator== TOKEN_FLOORDIV) {
            double quotient = (a - result) / b;
            result = result != 0 && (b < 0) != (result < 0) ? quotient - 1 : quotient;
            result = floor(result + 0.5); /* the quotient is whole except for rounding */
        } else if (result != 0 && (b < 0) != (result < 0)) {
            result += b;
        } else if (result == 0) {
            result = copysign(0.0, b);
        }
    }
    *out = jinja_float(result);
    return true;
}

static bool type_fail(struct jinja_run *run, enum jinja_token_type operator,
                      struct jinja_value left, struct jinja_value right)
{
    static const char *const names[] = {
        [TOKEN_ADD] = "+",       [TOKEN_SUB] = "-", [TOKEN_MUL] = "*",          [TOKEN_DIV] = "/",
        [TOKEN_FLOORDIV] = "//", [TOKEN_MOD] = "%", [TOKEN_POW] = "** or pow()"};
    bool concatenation =
        left.kind == JINJA_STRING || left.kind == JINJA_LIST || left.kind == JINJA_TUPLE;
    if (operator== TOKEN_ADD && concatenation)
        return jinja_fail(run, "can only concatenate %s (not \"%s\") to %s", jinja_value_type(left),
                          jinja_value_type(right), jinja_value_type(left));
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", names[operator],
                      jinja_value_type(left), jinja_value_type(right));
}

static bool is_sequence(struct jinja_value value)
{
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

static bool repeat_list(struct jinja_run *run, struct jinja_value value, uint64_t times,
                        struct jinja_value *out)
{
    const struct jinja_list *list = value.as.list;
    struct jinja_items all = {0};
    size_t count;
    if (__builtin_mul_overflow(list->count, times, &count))
        return jinja_fail_bound(run, "template needs too much memory");
    all.items = jinja_run_take(run, count, sizeof(struct jinja_value));
    if (all.items == NULL || !jinja_run_step(run, 1 + count / 8))
        return false;
    for (; all.count < count; all.count++)
        all.items[all.count] = list->items[all.count % list->count];
    return jinja_items_list(run, &all, value.kind, out);
}

static bool repeat(struct jinja_run *run, struct jinja_value value, int64_t times,
                   struct jinja_value *out)
{
    uint64_t wanted = times < 0 ? 0 : (uint64_t)times;
    if (value.kind != JINJA_STRING)
        return repeat_list(run, value, wanted, out);
    const struct jinja_string *string = value.as.string;
    struct jinja_builder builder = {0};
    uint64_t bytes;
    if (string->length == 0)
        wanted = 0;
    if (__builtin_mul_overflow(wanted, string->length, &bytes))
        bytes = UINT64_MAX;
    if (!jinja_builder_reserve(run, &builder, bytes))
        return false;
    for (; wanted > 0; wanted--)
        if (!jinja_builder_string(run, &builder, string))
            return false;
    return jinja_builder_finish(run, &builder, out);
}

static bool add_lists(struct jinja_run *run, struct jinja_value left, struct jinja_value right,
                      struct jinja_value *out)
{
    const struct jinja_list *a = left.as.list;
    const struct jinja_list *b = right.as.list;
    struct jinja_items all = {.count = a->count + b->count};
    all.items = jinja_run_take(run, all.count, sizeof(struct jinja_value));
    if (all.items == NULL || !jinja_run_step(run, 1 + all.count / 8))
        return false;
    if (a->count > 0)
        memcpy(all.items, a->items, a->count * sizeof(*all.items));
    if (b->count > 0)
        memcpy(all.items + a->count, b->items, b->count * sizeof(*all.items));
    return jinja_items_list(run, &all, left.kind, out);
}

static bool apply_sequences(struct jinja_run *run, enum jinja_token_type operator,
                            struct jinja_value left, struct jinja_value right,
                            struct jinja_value *out)
{
    int64_t times = 0;
    if (operator== TOKEN_ADD && left.kind == JINJA_STRING && right.kind == JINJA_STRING)
        return left.as.string->markup || right.as.string->markup
                   ? jinja_markup_add(run, left.as.string, right.as.string, out)
                   : jinja_string_concat(run, left.as.string, right.as.string, out);
    if (operator== TOKEN_ADD && left.kind == right.kind && left.kind != JINJA_STRING &&
        is_sequence(left))
        return add_lists(run, left, right, out);
    if (operator== TOKEN_MUL && is_sequence(left) && jinja_value_integer(right, &times))
        return repeat(run, left, times, out);
    if (operator== TOKEN_MUL && is_sequence(right) && jinja_value_integer(left, &times))
        return repeat(run, right, times, out);
    return type_fail(run, operator, left, right);
}

bool jinja_operator_apply(struct jinja_run *run, enum jinja_token_type operator,
                          struct jinja_value left, struct jinja_value right,
                          struct jinja_value *out)
{
    int64_t a = 0;
    int64_t b = 0;
    double x = 0;
    double y = 0;
    if (!jinja_run_step(run, 1))
        return false;
    if (jinja_value_integer(left, &a) && jinja_value_integer(right, &b))
        return apply_integers(run, operator, a, b, out);
    if (jinja_value_real(left, &x) && jinja_value_real(right, &y))
        return jinja_run_step(run, JINJA_STEPS_OF_DIGITS) && apply_reals(run, operator, x, y, out);
    if (operator== TOKEN_MOD && left.kind == JINJA_STRING)
        return jinja_format_percent(run, left.as.string, right, out);
    if (left.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, left);
    if (right.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, right);
    return apply_sequences(run, operator, left, right, out);
}

bool jinja_operator_sign(struct jinja_run *run, bool negate, struct jinja_value value,
                         struct jinja_value *out)
{
    int64_t integer = 0;
    if (jinja_value_integer(value, &integer)) {
        if (negate && integer == INT64_MIN)
            return overflow_fail(run);
        *out = jinja_int(negate ? -integer : integer);
        return true;
    }
    if (value.kind == JINJA_FLOAT) {
        *out = jinja_float(negate ? -value.as.real : value.as.real);
        return true;
    }
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    return jinja_fail(run, "bad operand type for unary %c: '%s'", negate ? '-' : '+',
                      jinja_value_type(value));
}

static bool string_contains(struct jinja_run *run, const struct jinja_string *string,
                            struct jinja_value item, bool *contains)
{
    if (item.kind != JINJA_STRING)
        return jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                          jinja_value_type(item));
    *contains = jinja_string_find(string, 0, item.as.string) != SIZE_MAX;
    return jinja_run_scan(run, string->length);
}

/* item in container */
static bool value_contains(struct jinja_run *run, struct jinja_value container,
                           struct jinja_value item, bool *contains)
{
    struct jinja_value found = {0};
    struct jinja_cursor cursor;
    *contains = false;
    if (container.kind == JINJA_STRING)
        return string_contains(run, container.as.string, item, contains);
    if (container.kind == JINJA_DICT) {
        if (!jinja_dict_get(run, container.as.dict, item, &found))
            return false;
        *contains = !jinja_is_absent(found);
        return true;
    }
    if (!jinja_cursor_can(container))
        return jinja_fail(run, "argument of type '%s' is not iterable",
                          jinja_value_type(container));
    if (!jinja_cursor_start(run, container, &cursor))
        return false;
    while (!*contains) {
        if (!jinja_cursor_next(run, &cursor, &found))
            return false;
        if (jinja_is_absent(found))
            break;
        if (!jinja_value_equal(run, found, item, contains))
            return false;
    }
    return true;
}

bool jinja_operator_compare(struct jinja_run *run, enum jinja_token_type operator,
                            struct jinja_value left, struct jinja_value right, bool *holds)
{
    bool equal = false;
    bool orders = operator>= TOKEN_LT && operator<= TOKEN_GE;
    if (orders && left.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, left);
    switch (operator) {
    case TOKEN_EQ: return jinja_value_equal(run, left, right, holds);
    case TOKEN_NE:
        if (!jinja_value_equal(run, left, right, &equal))
            return false;
        *holds = !equal;
        return true;
    case TOKEN_LT: return jinja_value_less(run, left, right, holds);
    case TOKEN_GT: return jinja_value_less(run, right, left, holds);
    case TOKEN_PIPE:
    case TOKEN_TILDE:
        if (!value_contains(run, right, left, holds))
            return false;
        *holds = *holds == (operator== TOKEN_PIPE);
        return true;
    default: break;
    }
    /* <= and >= are not the negation of > and <: all are false for a NaN. */
    bool less = false;
    bool turned = operator== TOKEN_GE;
    if (!jinja_value_less(run, turned ? right : left, turned ? left : right, &less) ||
        (!less && !jinja_value_equal(run, left, right, &equal)))
        return false;
    *holds = less || equal;
    return true;
}
