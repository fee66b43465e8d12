/*
 * Multiples of a step, as regexes over decimal digits. A step is c * 10^-d. If c divides a power of
 * ten, the last digits decide; an odd factor up to MODULUS_MAXIMUM is checked by an automaton over
 * remainders, turned into a regex by removing its states.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/grammar/json_number_regex.h"

#define SUFFIX_DIGITS   4u
#define SUFFIX_VALUES   2000u
#define MODULUS_MAXIMUM 9u

static regex_id text_literal(struct grammar_builder *builder, const char *text)
{
    return grammar_regex_literal(builder, text, strlen(text));
}

static regex_id digit_any(struct grammar_builder *builder)
{
    static const uint64_t set[4] = {0x3FFull << '0'};
    return grammar_regex_bytes(builder, set);
}

/* All strings of `count` digits whose value is a multiple of `step`, which divides 10^count. */
static regex_id suffix_multiples(struct grammar_builder *builder, uint32_t step, uint32_t count,
                                 bool strip)
{
    regex_id parts[SUFFIX_VALUES];
    uint32_t used = 0, limit = 1;
    for (uint32_t i = 0; i < count; i++)
        limit *= 10;
    regex_id zeros =
        grammar_regex_repeat(builder, text_literal(builder, "0"), 0, GRAMMAR_UNBOUNDED);
    for (uint32_t value = 0; value < limit; value += step) {
        char text[16];
        snprintf(text, sizeof(text), "%0*u", (int)count, value);
        size_t length = strlen(text);
        while (strip && length > 1 && text[length - 1] == '0')
            length--;
        parts[used++] = grammar_regex_literal(builder, text, length);
    }
    regex_id sum = grammar_regex_or_of(builder, parts, used);
    return strip ? grammar_regex_concat(builder, sum, zeros) : sum;
}

/* Digit strings, leading zeros and the empty one included, whose value is divisible by `modulus`. */
static regex_id remainder_zero(struct grammar_builder *builder, uint32_t modulus)
{
    regex_id edge[MODULUS_MAXIMUM][MODULUS_MAXIMUM];
    for (uint32_t from = 0; from < modulus; from++) {
        for (uint32_t to = 0; to < modulus; to++) {
            uint64_t set[4] = {0};
            for (uint32_t digit = 0; digit < 10; digit++) {
                if ((from * 10 + digit) % modulus == to)
                    set[0] |= 1ull << ('0' + digit);
            }
            edge[from][to] =
                set[0] ? grammar_regex_bytes(builder, set) : grammar_regex_nothing(builder);
        }
    }
    for (uint32_t gone = modulus - 1; gone > 0; gone--) {
        regex_id loop = grammar_regex_repeat(builder, edge[gone][gone], 0, GRAMMAR_UNBOUNDED);
        for (uint32_t from = 0; from < gone; from++) {
            regex_id in = grammar_regex_concat(builder, edge[from][gone], loop);
            for (uint32_t to = 0; to < gone; to++)
                edge[from][to] = grammar_regex_or(
                    builder, edge[from][to], grammar_regex_concat(builder, in, edge[gone][to]));
        }
    }
    return grammar_regex_repeat(builder, edge[0][0], 0, GRAMMAR_UNBOUNDED);
}

/* Digit strings whose value is a multiple of the integer `step`; canonical ones are chosen later. */
static bool whole_multiple(struct grammar_builder *builder, uint32_t step, regex_id *out)
{
    uint32_t power = 1, rest = step, count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t factor = i ? 5 : 2;
        for (; rest % factor == 0; rest /= factor)
            power *= factor;
    }
    uint32_t ten = 1;
    while (ten % power != 0 && count < SUFFIX_DIGITS) {
        ten *= 10;
        count++;
    }
    if (ten % power != 0 || ten / power > SUFFIX_VALUES || rest > MODULUS_MAXIMUM)
        return false;
    regex_id digits = grammar_regex_repeat(builder, digit_any(builder), 0, GRAMMAR_UNBOUNDED);
    regex_id zeros = grammar_regex_repeat(builder, text_literal(builder, "0"), 0, SUFFIX_DIGITS);
    *out = digits;
    if (count > 0) {
        /* Shorter numbers are read with zeros before them: removed again by the quotient below. */
        regex_id long_ones =
            grammar_regex_concat(builder, digits, suffix_multiples(builder, power, count, false));
        regex_id parts[SUFFIX_VALUES];
        uint32_t used = 0;
        for (uint32_t value = 0; value < ten; value += power) {
            char text[16];
            int length = snprintf(text, sizeof(text), "%u", value);
            parts[used++] = grammar_regex_concat(
                builder, zeros, grammar_regex_literal(builder, text, (size_t)length));
        }
        *out = grammar_regex_or(builder, long_ones, grammar_regex_or_of(builder, parts, used));
    }
    if (rest > 1)
        *out = grammar_regex_and(builder, *out, remainder_zero(builder, rest));
    return true;
}

bool json_number_multiple(struct grammar_builder *builder, double step, regex_id *out)
{
    uint32_t places = 0;
    double scaled = step;
    while (places <= SUFFIX_DIGITS && fabs(scaled - nearbyint(scaled)) > 1e-9 * scaled)
        scaled = step * pow(10, ++places);
    double count = nearbyint(scaled);
    if (places > SUFFIX_DIGITS || count < 1 || count > 1e9)
        return false;
    uint32_t integer = (uint32_t)count;
    regex_id point = text_literal(builder, "."), whole, fraction;
    regex_id plain = json_number_plain(builder);
    regex_id sign = grammar_regex_repeat(builder, text_literal(builder, "-"), 0, 1);
    regex_id digits = grammar_regex_repeat(builder, digit_any(builder), 0, GRAMMAR_UNBOUNDED);
    if (places == 0) {
        if (!whole_multiple(builder, integer, &whole))
            return false;
        fraction = grammar_regex_repeat(builder, text_literal(builder, "0"), 1, GRAMMAR_UNBOUNDED);
    } else {
        uint32_t ten = (uint32_t)nearbyint(pow(10, places));
        if (ten % integer != 0 || (integer > 1 && ten / integer > SUFFIX_VALUES))
            return false;
        whole = digits;
        fraction = integer > 1
                       ? suffix_multiples(builder, integer, places, true)
                       : grammar_regex_concat(
                             builder, grammar_regex_repeat(builder, digit_any(builder), 1, places),
                             grammar_regex_repeat(builder, text_literal(builder, "0"), 0,
                                                  GRAMMAR_UNBOUNDED));
    }
    fraction = grammar_regex_concat(builder, point, fraction);
    regex_id number = grammar_regex_concat(builder, sign, whole);
    number = grammar_regex_concat(builder, number, grammar_regex_repeat(builder, fraction, 0, 1));
    *out = grammar_regex_and(builder, plain, number);
    return true;
}
