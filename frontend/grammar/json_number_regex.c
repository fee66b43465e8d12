/*
 * A number is compared with a bound digit by digit: fewer digits before the point mean a smaller
 * number, with as many digits the first one that differs decides. The regexes are built from the
 * bound's last digit to its first, so that each is one node more than the one after it.
 */
#include "frontend/grammar/json_number_regex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits before the point of the largest double, and after it of the smallest, with room. */
#define WHOLE_DIGITS    320u
#define FRACTION_DIGITS 400u
/* Doubles hold all integers below. */
#define EXACT_INTEGERS 9007199254740992.0

struct decimal {
    bool negative;
    char whole[WHOLE_DIGITS];       /* without leading zeros; "0" */
    char fraction[FRACTION_DIGITS]; /* without trailing zeros; may be "" */
};

/* The shortest decimal that reads back as `value`, which is finite. */
static void decimal_read(double value, struct decimal *decimal)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, fabs(value));
        if (strtod(text, NULL) == fabs(value))
            break;
    }
    char digits[24];
    size_t count = 0;
    for (const char *at = text; *at != '\0' && *at != 'e'; at++) {
        if (*at != '.')
            digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    int point = value == 0 ? 1 : atoi(strchr(text, 'e') + 1) + 1; /* digits before the point */
    size_t whole = 0, fraction = 0;
    for (int i = 0; i < point; i++)
        decimal->whole[whole++] = i < (int)count ? digits[i] : '0';
    if (whole == 0)
        decimal->whole[whole++] = '0';
    for (int i = point; i < (int)count; i++)
        decimal->fraction[fraction++] = i < 0 ? '0' : digits[i];
    decimal->whole[whole] = '\0';
    decimal->fraction[fraction] = '\0';
    decimal->negative = value < 0;
}

static regex_id digit_range(struct grammar_builder *builder, char first, char last)
{
    uint64_t set[4] = {0};
    for (char c = first; c <= last; c++)
        set[c / 64] |= 1ull << (c % 64);
    return first > last ? grammar_regex_nothing(builder) : grammar_regex_bytes(builder, set);
}

static regex_id digits(struct grammar_builder *builder, uint32_t minimum, uint32_t maximum)
{
    return grammar_regex_repeat(builder, digit_range(builder, '0', '9'), minimum, maximum);
}

static regex_id literal(struct grammar_builder *builder, const char *text)
{
    return grammar_regex_literal(builder, text, strlen(text));
}

static regex_id optional(struct grammar_builder *builder, regex_id x)
{
    return grammar_regex_repeat(builder, x, 0, 1);
}

/* An integer without sign. */
static regex_id whole_any(struct grammar_builder *builder)
{
    regex_id many = grammar_regex_concat(builder, digit_range(builder, '1', '9'),
                                         digits(builder, 0, GRAMMAR_UNBOUNDED));
    return grammar_regex_or(builder, literal(builder, "0"), many);
}

static regex_id fraction_any(struct grammar_builder *builder)
{
    return grammar_regex_concat(builder, literal(builder, "."),
                                digits(builder, 1, GRAMMAR_UNBOUNDED));
}

static regex_id signed_of(struct grammar_builder *builder, regex_id x)
{
    return grammar_regex_concat(builder, optional(builder, literal(builder, "-")), x);
}

static regex_id negative_of(struct grammar_builder *builder, regex_id x)
{
    return grammar_regex_concat(builder, literal(builder, "-"), x);
}

static regex_id magnitude_any(struct grammar_builder *builder)
{
    return grammar_regex_concat(builder, whole_any(builder),
                                optional(builder, fraction_any(builder)));
}

regex_id json_number_plain(struct grammar_builder *builder)
{
    return signed_of(builder, magnitude_any(builder));
}

regex_id json_number_integer(struct grammar_builder *builder)
{
    return signed_of(builder, whole_any(builder));
}

regex_id json_number_any(struct grammar_builder *builder)
{
    static const uint64_t mark[4] = {0, 1ull << ('e' - 64) | 1ull << ('E' - 64)};
    static const uint64_t sign[4] = {1ull << '+' | 1ull << '-'};
    regex_id exponent = grammar_regex_concat(
        builder, grammar_regex_bytes(builder, mark),
        grammar_regex_concat(builder, optional(builder, grammar_regex_bytes(builder, sign)),
                             digits(builder, 1, GRAMMAR_UNBOUNDED)));
    return grammar_regex_concat(builder, json_number_plain(builder), optional(builder, exponent));
}

/* Digits with at least one other than 0. */
static regex_id digits_not_zero(struct grammar_builder *builder)
{
    regex_id zeros = grammar_regex_repeat(builder, literal(builder, "0"), 0, GRAMMAR_UNBOUNDED);
    regex_id rest = grammar_regex_concat(builder, digit_range(builder, '1', '9'),
                                         digits(builder, 0, GRAMMAR_UNBOUNDED));
    return grammar_regex_concat(builder, zeros, rest);
}

regex_id json_number_not_integer(struct grammar_builder *builder)
{
    regex_id fraction =
        grammar_regex_concat(builder, literal(builder, "."), digits_not_zero(builder));
    return signed_of(builder, grammar_regex_concat(builder, whole_any(builder), fraction));
}

/* Integers without sign below (or above) `whole`. */
static regex_id whole_compared(struct grammar_builder *builder, const char *whole, bool below)
{
    size_t length = strlen(whole);
    regex_id same = grammar_regex_nothing(builder); /* as many digits, from digit i on */
    for (size_t i = length; i-- > 0;) {
        char low = i == 0 && length > 1 ? '1' : '0';
        regex_id digit = below ? digit_range(builder, low, (char)(whole[i] - 1))
                               : digit_range(builder, (char)(whole[i] + 1), '9');
        uint32_t rest = (uint32_t)(length - i - 1);
        regex_id differs = grammar_regex_concat(builder, digit, digits(builder, rest, rest));
        regex_id equal =
            grammar_regex_concat(builder, digit_range(builder, whole[i], whole[i]), same);
        same = grammar_regex_or(builder, differs, equal);
    }
    regex_id first = digit_range(builder, '1', '9');
    uint32_t more = (uint32_t)length;
    if (!below) {
        regex_id longer =
            grammar_regex_concat(builder, first, digits(builder, more, GRAMMAR_UNBOUNDED));
        return grammar_regex_or(builder, same, longer);
    }
    if (length == 1)
        return same;
    regex_id shorter = grammar_regex_concat(builder, first, digits(builder, 0, more - 2));
    shorter = grammar_regex_or(builder, literal(builder, "0"), shorter);
    return grammar_regex_or(builder, same, shorter);
}

/* Whether 0 stands in this relation to a fraction with these digits. */
static bool zero_compared(enum number_relation relation, const char *fraction)
{
    bool equal = fraction[strspn(fraction, "0")] == '\0';
    switch (relation) {
    case NUMBER_AT_LEAST: return equal;
    case NUMBER_ABOVE: return false;
    case NUMBER_AT_MOST: return true;
    default: return !equal;
    }
}

/* Digits after the point in this relation to `fraction`; the empty text is 0. */
static regex_id fraction_compared(struct grammar_builder *builder, enum number_relation relation,
                                  const char *fraction)
{
    bool below = relation == NUMBER_AT_MOST || relation == NUMBER_BELOW;
    regex_id any = digits(builder, 0, GRAMMAR_UNBOUNDED);
    regex_id rest; /* after the bound's last digit */
    switch (relation) {
    case NUMBER_AT_LEAST: rest = any; break;
    case NUMBER_ABOVE: rest = digits_not_zero(builder); break;
    case NUMBER_AT_MOST:
        rest = grammar_regex_repeat(builder, literal(builder, "0"), 0, GRAMMAR_UNBOUNDED);
        break;
    default: rest = grammar_regex_nothing(builder); break;
    }
    for (size_t i = strlen(fraction); i-- > 0;) {
        regex_id digit = below ? digit_range(builder, '0', (char)(fraction[i] - 1))
                               : digit_range(builder, (char)(fraction[i] + 1), '9');
        regex_id differs = grammar_regex_concat(builder, digit, any);
        regex_id equal =
            grammar_regex_concat(builder, digit_range(builder, fraction[i], fraction[i]), rest);
        rest = grammar_regex_or(builder, differs, equal);
        if (zero_compared(relation, fraction + i))
            rest = grammar_regex_or(builder, rest, grammar_regex_empty(builder));
    }
    return rest;
}

/* Numbers without sign in this relation to the decimal's magnitude. */
static regex_id magnitude_compared(struct grammar_builder *builder, enum number_relation relation,
                                   const struct decimal *bound)
{
    bool below = relation == NUMBER_AT_MOST || relation == NUMBER_BELOW;
    regex_id differs = grammar_regex_concat(builder, whole_compared(builder, bound->whole, below),
                                            optional(builder, fraction_any(builder)));
    regex_id tail = grammar_regex_and(builder, digits(builder, 1, GRAMMAR_UNBOUNDED),
                                      fraction_compared(builder, relation, bound->fraction));
    tail = grammar_regex_concat(builder, literal(builder, "."), tail);
    if (zero_compared(relation, bound->fraction))
        tail = grammar_regex_or(builder, tail, grammar_regex_empty(builder));
    regex_id equal = grammar_regex_concat(builder, literal(builder, bound->whole), tail);
    return grammar_regex_or(builder, differs, equal);
}

/* x without fractions that doubles may not tell from the bound. */
static regex_id short_only(struct grammar_builder *builder, regex_id x)
{
    static const uint64_t characters[4] = {0x3FFull << '0' | 1ull << '-' | 1ull << '.'};
    regex_id few = grammar_regex_repeat(builder, grammar_regex_bytes(builder, characters), 1, 16);
    return grammar_regex_and(builder, x,
                             grammar_regex_or(builder, few, json_number_integer(builder)));
}

/* Numbers such as 1e-06 without sign, of which doubles are above 0 and below 1. */
static regex_id small_scientific(struct grammar_builder *builder)
{
    static const uint64_t mark[4] = {0, 1ull << ('e' - 64) | 1ull << ('E' - 64)};
    regex_id fraction =
        grammar_regex_concat(builder, literal(builder, "."), digits(builder, 1, 14));
    regex_id zero = optional(builder, literal(builder, "0"));
    regex_id few = grammar_regex_concat(builder, zero, digit_range(builder, '1', '9'));
    regex_id many =
        grammar_regex_concat(builder, digit_range(builder, '1', '9'), digits(builder, 1, 1));
    regex_id exponent =
        grammar_regex_concat(builder, literal(builder, "-"), grammar_regex_or(builder, few, many));
    exponent = grammar_regex_concat(builder, grammar_regex_bytes(builder, mark), exponent);
    return grammar_regex_concat(
        builder, digit_range(builder, '1', '9'),
        grammar_regex_concat(builder, optional(builder, fraction), exponent));
}

/* Adds them, and their negatives, if all of these have the relation to the bound. */
static regex_id with_small(struct grammar_builder *builder, regex_id x, bool below, double bound)
{
    if (below ? bound >= 1 : bound <= 0)
        x = grammar_regex_or(builder, x, small_scientific(builder));
    if (below ? bound >= 0 : bound <= -1)
        x = grammar_regex_or(builder, x, negative_of(builder, small_scientific(builder)));
    return x;
}

regex_id json_number_compared(struct grammar_builder *builder, enum number_relation relation,
                              double bound)
{
    bool below = relation == NUMBER_AT_MOST || relation == NUMBER_BELOW;
    if (fabs(bound) >= EXACT_INTEGERS)
        bound = nextafter(bound, below ? -INFINITY : INFINITY);
    if (isinf(bound)) /* no double is beyond */
        return grammar_regex_nothing(builder);
    struct decimal decimal;
    decimal_read(bound, &decimal);
    regex_id any = magnitude_any(builder);
    regex_id result;
    if (bound == 0)
        result = below ? negative_of(builder, magnitude_compared(builder, NUMBER_ABOVE, &decimal))
                       : magnitude_compared(builder, relation, &decimal);
    else if (below && bound > 0)
        result = grammar_regex_or(builder, negative_of(builder, any),
                                  magnitude_compared(builder, relation, &decimal));
    else if (below) /* -x <= -b if x >= b */
        result = negative_of(
            builder,
            magnitude_compared(builder, relation == NUMBER_BELOW ? NUMBER_ABOVE : NUMBER_AT_LEAST,
                               &decimal));
    else if (bound > 0)
        result = magnitude_compared(builder, relation, &decimal);
    else
        result = grammar_regex_or(
            builder, any,
            negative_of(builder,
                        magnitude_compared(builder,
                                           relation == NUMBER_ABOVE ? NUMBER_BELOW : NUMBER_AT_MOST,
                                           &decimal)));
    if (relation == NUMBER_AT_MOST && bound == 0)
        result = grammar_regex_or(builder, result, magnitude_compared(builder, relation, &decimal));
    if (relation == NUMBER_ABOVE || relation == NUMBER_BELOW)
        result = short_only(builder, result);
    return with_small(builder, result, below, bound);
}

static regex_id decimal_literal(struct grammar_builder *builder, const struct decimal *decimal)
{
    char text[WHOLE_DIGITS + FRACTION_DIGITS + 4];
    snprintf(text, sizeof(text), "%s%s%s%s", decimal->negative ? "-" : "", decimal->whole,
             decimal->fraction[0] != '\0' ? "." : "", decimal->fraction);
    return literal(builder, text);
}

bool json_number_literal(struct grammar_builder *builder, double value, regex_id *out)
{
    struct decimal decimal;
    if (fabs(value) >= EXACT_INTEGERS)
        return false;
    decimal_read(value, &decimal);
    *out = decimal_literal(builder, &decimal);
    return true;
}

bool json_number_equal(struct grammar_builder *builder, double value, regex_id *out)
{
    struct decimal decimal;
    if (!json_number_literal(builder, value, out))
        return false;
    decimal_read(value, &decimal);
    regex_id zeros = grammar_regex_repeat(builder, literal(builder, "0"), 1, GRAMMAR_UNBOUNDED);
    if (decimal.fraction[0] == '\0')
        zeros = grammar_regex_concat(builder, literal(builder, "."), zeros);
    *out = grammar_regex_concat(builder, *out, optional(builder, zeros));
    if (value == 0)
        *out = signed_of(builder, *out);
    return true;
}
