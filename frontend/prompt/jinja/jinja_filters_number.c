/*
 * Filters on numbers: abs, int, float, round.
 *
 * int and float read text as Python does ('0x1f' with base 16, '1_000', ' 42.7 '): the digits are
 * checked and cleaned here, then the C library converts. Rounding goes to the even neighbour of the
 * exact binary value; "%.*f" rounds exactly as Python's round() does.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_string.h"

#define NUMBER_BYTES 400

static bool filter_abs(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    int64_t integer = 0;
    if (jinja_value_integer(call->self, &integer)) {
        if (integer == INT64_MIN)
            return jinja_fail(run, "integer over 64 bits");
        *out = jinja_int(integer < 0 ? -integer : integer);
        return true;
    }
    if (call->self.kind == JINJA_FLOAT) {
        *out = jinja_float(fabs(call->self.as.real));
        return true;
    }
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_value_type(call->self));
}

/* The string without surrounding blanks and single underscores between digits; false if it cannot
 * be a number. */
static bool clean_number(struct jinja_run *run, const struct jinja_string *string,
                         char text[NUMBER_BYTES], bool *plausible)
{
    struct jinja_value stripped;
    *plausible = false;
    if (!jinja_run_step(run, JINJA_STEPS_OF_DIGITS) ||
        !jinja_methods_strip(run, string, NULL, JINJA_BOTH, &stripped))
        return false;
    const struct jinja_string *number = stripped.as.string;
    size_t length = 0;
    if (number->length == 0 || number->length >= NUMBER_BYTES)
        return true;
    for (size_t at = 0; at < number->length; at++) {
        char c = number->bytes[at];
        bool between = at > 0 && at + 1 < number->length && number->bytes[at - 1] != '_' &&
                       strchr("+-._", number->bytes[at - 1]) == NULL &&
                       strchr("+-._", number->bytes[at + 1]) == NULL;
        if (c == '\0' || (c == '_' && !between))
            return true;
        if (c != '_')
            text[length++] = c;
    }
    text[length] = '\0';
    *plausible = true;
    return true;
}

static bool read_float(struct jinja_run *run, const struct jinja_string *string, double *real,
                       bool *valid)
{
    char text[NUMBER_BYTES];
    if (!clean_number(run, string, text, valid) || !*valid)
        return *valid || run->failure == RESULT_OK;
    const char *digits = text + (text[0] == '+' || text[0] == '-' ? 1 : 0);
    bool named = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 ||
                 strcasecmp(digits, "nan") == 0;
    *valid = named || strspn(digits, "0123456789.eE+-") == strlen(digits);
    char *end = text;
    if (*valid)
        *real = strtod(text, &end);
    *valid = *valid && end != text && *end == '\0';
    return true;
}

static bool read_integer(struct jinja_run *run, const struct jinja_string *string, int64_t base,
                         int64_t *integer, bool *valid)
{
    char text[NUMBER_BYTES];
    if (!clean_number(run, string, text, valid) || !*valid)
        return *valid || run->failure == RESULT_OK;
    *valid = false;
    const char *digits = text + (text[0] == '+' || text[0] == '-' ? 1 : 0);
    char kind = digits[0] == '0' ? (char)(digits[1] | 0x20) : '\0';
    int64_t prefix = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 0));
    if (base == 0)
        base = prefix != 0 ? prefix : 10;
    if (prefix == base && prefix != 0)
        digits += 2;
    if (base < 2 || base > 36)
        return jinja_fail(run, "int() base must be >= 2 and <= 36, or 0");
    char *end = NULL;
    bool starts = (digits[0] >= '0' && digits[0] <= '9') ||
                  ((digits[0] | 0x20) >= 'a' && (digits[0] | 0x20) <= 'z');
    if (!starts)
        return true;
    errno = 0;
    unsigned long long magnitude = strtoull(digits, &end, (int)base);
    if (*end != '\0' || end == digits)
        return true;
    bool negative = text[0] == '-';
    if (errno == ERANGE || magnitude > (unsigned long long)INT64_MAX + (negative ? 1 : 0))
        return jinja_fail(run, "integer over 64 bits");
    *integer = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    *valid = true;
    return true;
}

static bool real_to_integer(struct jinja_run *run, double real, struct jinja_value fallback,
                            struct jinja_value *out)
{
    if (isnan(real)) {
        *out = fallback;
        return true;
    }
    if (!(real > -0x1p63 && real < 0x1p63))
        return jinja_fail(run, isinf(real) ? "cannot convert float infinity to integer"
                                           : "integer over 64 bits");
    *out = jinja_int((int64_t)real);
    return true;
}

static bool filter_int(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_value fallback = jinja_is_absent(call->values[0]) ? jinja_int(0) : call->values[0];
    int64_t base = 10;
    int64_t integer = 0;
    double real = 0;
    bool valid = false;
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (call->self.kind == JINJA_FLOAT)
        return real_to_integer(run, call->self.as.real, fallback, out);
    *out = fallback;
    if (jinja_value_integer(call->self, &integer)) {
        *out = jinja_int(integer);
        return true;
    }
    if (call->self.kind != JINJA_STRING)
        return true;
    if (!jinja_call_integer(run, call->values[1], &base) ||
        !read_integer(run, call->self.as.string, base, &integer, &valid))
        return false;
    if (valid) {
        *out = jinja_int(integer);
        return true;
    }
    if (!read_float(run, call->self.as.string, &real, &valid))
        return false;
    return !valid || isinf(real) || real_to_integer(run, real, fallback, out);
}

static bool filter_float(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_value fallback =
        jinja_is_absent(call->values[0]) ? jinja_float(0) : call->values[0];
    double real = 0;
    bool valid = jinja_value_real(call->self, &real);
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (call->self.kind == JINJA_STRING && !read_float(run, call->self.as.string, &real, &valid))
        return false;
    *out = valid ? jinja_float(real) : fallback;
    return true;
}

static bool round_common(struct jinja_run *run, struct jinja_value value, int64_t precision,
                         struct jinja_value *out)
{
    char text[NUMBER_BYTES];
    int64_t integer = 0;
    double real = 0;
    if (!jinja_value_real(value, &real))
        return jinja_fail(run, "type %s doesn't define __round__ method", jinja_value_type(value));
    bool whole = jinja_value_integer(value, &integer);
    if ((whole && precision >= 0) || precision > 320 || !isfinite(real)) {
        *out = whole ? jinja_int(integer) : value;
        return true;
    }
    double rounded = 0;
    if (!jinja_run_step(run, 2 * JINJA_STEPS_OF_DIGITS))
        return false;
    if (precision >= 0) {
        (void)snprintf(text, sizeof(text), "%.*f", (int)precision, real);
        rounded = strtod(text, NULL);
    } else if (precision > -320) {
        double unit = pow(10, (double)-precision);
        rounded = rint(real / unit) * unit;
    }
    *out = whole ? jinja_int((int64_t)rounded) : jinja_float(rounded);
    return true;
}

static bool filter_round(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    static const struct jinja_string common = {.bytes = "common", .length = 6};
    const struct jinja_string *method = &common;
    int64_t precision = 0;
    double real = 0;
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (!jinja_call_integer(run, call->values[0], &precision) ||
        !jinja_call_string(run, call->values[1], &method))
        return false;
    if (jinja_string_equals(method, "common"))
        return round_common(run, call->self, precision, out);
    bool up = jinja_string_equals(method, "ceil");
    if (!up && !jinja_string_equals(method, "floor"))
        return jinja_fail(run, "method must be common, ceil or floor");
    if (!jinja_value_real(call->self, &real))
        return jinja_fail(run, "must be real number, not %s", jinja_value_type(call->self));
    double scale = pow(10, (double)precision);
    *out = jinja_float((up ? ceil(real * scale) : floor(real * scale)) / scale);
    return true;
}

const struct jinja_signature jinja_filters_number[] = {
    {"abs", filter_abs, ""},
    {"int", filter_int, "| default base"},
    {"float", filter_float, "| default"},
    {"round", filter_round, "| precision method"},
    {NULL, NULL, NULL}};
