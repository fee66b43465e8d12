/*
 * All lengths are found at once by the Z algorithm on the history read backwards: matches[s] is the
 * number of tokens, from the newest on, that are equal to those s places earlier. It takes time and
 * memory in proportion to the history, whatever the text is.
 *
 * The power is a product in double precision, so it has the same bits on every machine.
 */
#include "worker/sample/dry_penalty.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

void dry_scratch_fini(struct dry_scratch *scratch)
{
    free(scratch->matches);
    free(scratch->longest);
    *scratch = (struct dry_scratch){0};
}

static void reserve(struct dry_scratch *scratch, uint32_t count, uint32_t vocab_tokens)
{
    if (!scratch->longest)
        scratch->longest = must_alloc(vocab_tokens, sizeof *scratch->longest);
    if (count <= scratch->capacity)
        return;
    free(scratch->matches);
    scratch->capacity = count + count / 2;
    scratch->matches = must_alloc(scratch->capacity, sizeof *scratch->matches);
}

/* Fills matches[1 .. count - 1]. `newest` points to the last token; newest[-s] is s places earlier. */
static void find_matches(const uint32_t *newest, uint32_t count, uint32_t *matches)
{
    uint32_t from = 0, end = 0; /* the match that reaches furthest: its shift, and where it ends */
    for (uint32_t shift = 1; shift < count; shift++) {
        uint32_t length = 0;
        if (shift < end) {
            length = matches[shift - from];
            if (length < end - shift) {
                matches[shift] = length;
                continue;
            }
            length = end - shift;
        }
        while (shift + length < count && *(newest - length) == *(newest - shift - length))
            length++;
        matches[shift] = length;
        from = shift;
        end = shift + length;
    }
}

static float penalty_of(const struct sampling_params *params, uint32_t length)
{
    double power = 1.0, square = (double)params->dry_base;
    for (uint32_t left = length - params->dry_allowed_length; left > 0; left >>= 1) {
        if (left & 1)
            power = fmin(power * square, (double)FLT_MAX);
        square = fmin(square * square, (double)FLT_MAX);
    }
    return (float)fmin((double)params->dry_multiplier * power, (double)FLT_MAX);
}

void dry_penalty_apply(struct dry_scratch *scratch, const struct sampling_params *params,
                       const struct dry_history *history, float *row, uint32_t vocab_tokens)
{
    uint32_t count = history->count;
    if (params->dry_context > 0 && params->dry_context < count)
        count = params->dry_context;
    if (count <= params->dry_allowed_length)
        return;
    const uint32_t *newest = history->tokens + history->count - 1;
    uint32_t limit = dry_breakers_find_last(history->breakers, newest, count);
    if (limit < params->dry_allowed_length)
        return;
    reserve(scratch, count, vocab_tokens);
    find_matches(newest, count, scratch->matches);
    for (uint32_t shift = 1; shift < count; shift++) {
        uint32_t length = scratch->matches[shift] < limit ? scratch->matches[shift] : limit;
        uint32_t *longest = &scratch->longest[*(newest - shift + 1)];
        if (length >= params->dry_allowed_length && length + 1 > *longest)
            *longest = length + 1; /* 0: the token extends nothing */
    }
    for (uint32_t shift = 1; shift < count; shift++) {
        uint32_t token = *(newest - shift + 1);
        must(token < vocab_tokens);
        if (scratch->longest[token] > 0)
            row[token] -= penalty_of(params, scratch->longest[token] - 1);
        scratch->longest[token] = 0;
    }
}
