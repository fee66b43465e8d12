/*
 * The table of well-formed UTF-8 (Unicode, table 3-7) without quotes, backslashes, control
 * characters, U+2028 and U+2029.
 */
#include "worker/sample/grammar_plain.h"

#include "proto/grammar_regex.h"

/* clang-format off */
enum { BOUNDARY = GRAMMAR_PLAIN_BOUNDARY, ONE_LEFT, TWO_LEFT, THREE_LEFT, E0, E2, E2_80, ED, F0, F4 };

const struct grammar_plain_step grammar_plain_steps[GRAMMAR_PLAIN_STEPS] = {
    {BOUNDARY, 0x20, 0x21, BOUNDARY}, {BOUNDARY, 0x23, 0x5B, BOUNDARY},
    {BOUNDARY, 0x5D, 0x7E, BOUNDARY}, {BOUNDARY, 0xC2, 0xDF, ONE_LEFT},
    {BOUNDARY, 0xE0, 0xE0, E0},       {BOUNDARY, 0xE1, 0xE1, TWO_LEFT},
    {BOUNDARY, 0xE2, 0xE2, E2},       {BOUNDARY, 0xE3, 0xEC, TWO_LEFT},
    {BOUNDARY, 0xED, 0xED, ED},       {BOUNDARY, 0xEE, 0xEF, TWO_LEFT},
    {BOUNDARY, 0xF0, 0xF0, F0},       {BOUNDARY, 0xF1, 0xF3, THREE_LEFT},
    {BOUNDARY, 0xF4, 0xF4, F4},
    {ONE_LEFT, 0x80, 0xBF, BOUNDARY}, {TWO_LEFT, 0x80, 0xBF, ONE_LEFT},
    {THREE_LEFT, 0x80, 0xBF, TWO_LEFT},
    {E0, 0xA0, 0xBF, ONE_LEFT},       {E2, 0x80, 0x80, E2_80}, {E2, 0x81, 0xBF, ONE_LEFT},
    {E2_80, 0x80, 0xA7, BOUNDARY},    {E2_80, 0xAA, 0xBF, BOUNDARY},
    {ED, 0x80, 0x9F, ONE_LEFT},       {F0, 0x90, 0xBF, TWO_LEFT}, {F4, 0x80, 0x8F, TWO_LEFT},
};
/* clang-format on */

bool grammar_plain_count(const uint8_t *text, size_t bytes, uint32_t *characters)
{
    uint8_t state = BOUNDARY;
    *characters = 0;
    for (size_t i = 0; i < bytes; i++) {
        *characters += state == BOUNDARY;
        size_t s = 0;
        while (s < GRAMMAR_PLAIN_STEPS &&
               (grammar_plain_steps[s].from != state || text[i] < grammar_plain_steps[s].first ||
                text[i] > grammar_plain_steps[s].last))
            s++;
        if (s == GRAMMAR_PLAIN_STEPS)
            return false;
        state = grammar_plain_steps[s].to;
    }
    return state == BOUNDARY;
}

/* The bytes from the state to the end of the character. */
static uint32_t regex_from(struct regex_store *store, uint8_t state)
{
    uint32_t all = REGEX_NOTHING;
    for (size_t s = 0; s < GRAMMAR_PLAIN_STEPS; s++) {
        const struct grammar_plain_step *step = &grammar_plain_steps[s];
        if (step->from != state)
            continue;
        uint64_t words[4] = {0};
        for (uint32_t byte = step->first; byte <= step->last; byte++)
            words[byte / 64] |= 1ull << byte % 64;
        uint32_t rest = step->to == BOUNDARY ? REGEX_EMPTY : regex_from(store, step->to);
        all = regex_or(store, all, regex_concat(store, regex_set(store, words), rest));
    }
    return all;
}

uint32_t grammar_plain_regex(struct regex_store *store)
{
    return regex_from(store, BOUNDARY);
}
