/*
 * The order of the sequences allows a binary search by the first id. Single tokens are the rule: all
 * tokens of the vocabulary whose text has a breaker in it.
 */
#include "proto/dry_breakers.h"

#include <stdbool.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/must.h"

/* Checks the sequence at `at`, whose end is *next. */
static enum result check_sequence(const struct dry_breakers *breakers, uint32_t at, uint32_t least,
                                  uint32_t vocab_tokens, uint32_t *next, struct error_text *error)
{
    uint32_t length = breakers->words[at];
    if (length < 1 || length > LIMIT_DRY_BREAKER_TOKENS || length >= breakers->word_count - at)
        return error_set(error, RESULT_INVALID, "DRY_BREAKERS[%u]: a sequence of %u ids", at,
                         length);
    for (uint32_t i = 1; i <= length; i++) {
        uint32_t token = breakers->words[at + i];
        if (token >= vocab_tokens || (i == 1 && token < least))
            return error_set(error, RESULT_INVALID,
                             "DRY_BREAKERS[%u]: token %u is outside the vocabulary or of the order",
                             at + i, token);
    }
    *next = at + 1 + length;
    return RESULT_OK;
}

enum result dry_breakers_init(struct dry_breakers *breakers, uint32_t *words, uint32_t word_count,
                              uint32_t vocab_tokens, struct error_text *error)
{
    *breakers = (struct dry_breakers){.words = words, .word_count = word_count};
    enum result result = RESULT_OK;
    breakers->starts = calloc(word_count / 2 + 1, sizeof *breakers->starts);
    if (!breakers->starts)
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the breakers of DRY");
    uint32_t least = 0, equal = 0;
    for (uint32_t at = 0; at < word_count && result == RESULT_OK;) {
        uint32_t next = word_count;
        result = check_sequence(breakers, at, least, vocab_tokens, &next, error);
        if (result != RESULT_OK)
            break;
        equal = breakers->sequence_count > 0 && words[at + 1] == least ? equal + 1 : 1;
        if (equal > LIMIT_DRY_BREAKERS)
            result = error_set(error, RESULT_INVALID, "DRY_BREAKERS[%u]: sequence %u of token %u",
                               at, equal, words[at + 1]);
        breakers->starts[breakers->sequence_count++] = at;
        least = words[at + 1];
        at = next;
    }
    if (result != RESULT_OK)
        dry_breakers_fini(breakers);
    return result;
}

void dry_breakers_fini(struct dry_breakers *breakers)
{
    free(breakers->words);
    free(breakers->starts);
    *breakers = (struct dry_breakers){0};
}

/* The first sequence whose first id is at least `token`. */
static uint32_t first_of(const struct dry_breakers *breakers, uint32_t token)
{
    uint32_t low = 0, high = breakers->sequence_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (breakers->words[breakers->starts[middle] + 1] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The length of the longest breaker that begins `back` tokens before the newest one; 0: none. */
static uint32_t longest_at(const struct dry_breakers *breakers, const uint32_t *newest,
                           uint32_t back)
{
    uint32_t token = *(newest - back);
    uint32_t longest = 0;
    for (uint32_t i = first_of(breakers, token); i < breakers->sequence_count; i++) {
        const uint32_t *sequence = breakers->words + breakers->starts[i];
        if (sequence[1] != token)
            break;
        uint32_t length = sequence[0];
        bool equal = length <= back + 1;
        for (uint32_t k = 1; k < length && equal; k++)
            equal = sequence[1 + k] == *(newest - back + k);
        longest = equal && length > longest ? length : longest;
    }
    return longest;
}

uint32_t dry_breakers_find_last(const struct dry_breakers *breakers, const uint32_t *newest,
                                uint32_t count)
{
    for (uint32_t back = 0; breakers && back < count; back++) {
        uint32_t length = longest_at(breakers, newest, back);
        if (length > 0)
            return back + 1 - length;
    }
    return count;
}
