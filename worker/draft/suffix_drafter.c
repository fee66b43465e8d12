/*
 * Text repeats itself: edits, extracts, code and tool calls contain long runs of tokens that the
 * prompt or the answer already has. The drafter finds the longest earlier occurrence of the
 * sequence's last tokens and proposes what followed it.
 *
 * A hash table leads from the last SEED_TOKENS tokens to the latest position that ends with them,
 * and each position to the one before it with the same hash. Of the latest CANDIDATES_MAX positions
 * the one with the longest match is used, the latest one among equals. Positions more than
 * WINDOW_TOKENS back are forgotten.
 *
 * Memory: at most 8 bytes for each token of the window. Time: each token is indexed once, in
 * constant time; a proposal compares at most CANDIDATES_MAX times MATCH_MAX tokens.
 */
#include "worker/draft/drafter.h"

#include <stdlib.h>
#include <string.h>

#define SEED_TOKENS    3u
#define WINDOW_TOKENS  32768u /* power of two */
#define CANDIDATES_MAX 32u
#define MATCH_MAX      64u
#define NONE           UINT32_MAX

struct suffix_index {
    uint32_t mask;    /* of both tables, whose size is a power of two <= WINDOW_TOKENS */
    uint32_t indexed; /* positions [0, indexed) are in the index */
    uint32_t *heads;  /* [mask + 1] latest position with this hash, or NONE */
    uint32_t *before; /* [mask + 1] by position: the previous one with the same hash, or NONE */
};

static void suffix_close(void *state)
{
    struct suffix_index *index = state;
    if (!index)
        return;
    free(index->heads);
    free(index->before);
    free(index);
}

static void *suffix_open(const struct drafter *drafter, uint32_t tokens_max)
{
    (void)drafter;
    uint32_t size = 64;
    while (size < tokens_max && size < WINDOW_TOKENS)
        size *= 2;
    struct suffix_index *index = calloc(1, sizeof *index);
    if (!index)
        return NULL;
    index->mask = size - 1;
    index->heads = malloc(size * sizeof *index->heads);
    index->before = malloc(size * sizeof *index->before);
    if (!index->heads || !index->before) {
        suffix_close(index);
        return NULL;
    }
    memset(index->heads, 0xff, size * sizeof *index->heads);
    return index;
}

/* Slot of the seed that ends at `at` >= SEED_TOKENS - 1. */
static uint32_t slot_of(const struct suffix_index *index, const uint32_t *tokens, uint32_t at)
{
    uint32_t hash = 0;
    for (uint32_t i = 0; i < SEED_TOKENS; i++)
        hash = (hash ^ tokens[at - i]) * 0x9E3779B1u;
    return (hash ^ hash >> 15) & index->mask;
}

/* Adds the positions before the last token: a match must be followed by a token. */
static void follow(struct suffix_index *index, const uint32_t *tokens, uint32_t known)
{
    uint32_t window = index->mask + 1;
    if (known > window && index->indexed < known - window)
        index->indexed = known - window;
    if (index->indexed < SEED_TOKENS - 1)
        index->indexed = SEED_TOKENS - 1;
    for (; index->indexed + 1 < known; index->indexed++) {
        uint32_t slot = slot_of(index, tokens, index->indexed);
        index->before[index->indexed & index->mask] = index->heads[slot];
        index->heads[slot] = index->indexed;
    }
}

/* How many tokens up to `at` equal those up to `last`. */
static uint32_t match_length(const uint32_t *tokens, uint32_t at, uint32_t last)
{
    uint32_t length = 0;
    while (length < MATCH_MAX && length <= at && tokens[at - length] == tokens[last - length])
        length++;
    return length;
}

/* By the length of the match: 3, 4 to 5, 6 to 8, 9 to 15, 16 to 31, more. */
static uint8_t class_of(uint32_t length)
{
    static const uint32_t firsts[DRAFT_CLASS_TEXT] = {3, 4, 6, 9, 16, 32};
    uint8_t class = 0;
    while (class + 1u < DRAFT_CLASS_TEXT && length >= firsts[class + 1u])
        class ++;
    return class;
}

static void suffix_propose(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                           struct draft_proposal *proposal)
{
    struct suffix_index *index = state;
    proposal->count = 0;
    if (known < SEED_TOKENS + 1 || most == 0)
        return;
    follow(index, tokens, known);
    uint32_t last = known - 1, best = NONE, length = SEED_TOKENS - 1;
    uint32_t at = index->heads[slot_of(index, tokens, last)];
    for (uint32_t i = 0; i < CANDIDATES_MAX && at != NONE && last - at <= index->mask; i++) {
        uint32_t found = match_length(tokens, at, last);
        if (found > length) {
            best = at;
            length = found;
        }
        uint32_t before = index->before[at & index->mask];
        at = before != NONE && before < at ? before : NONE;
    }
    if (best == NONE)
        return;
    /* A match that overlaps the end repeats: the tokens after it continue with the proposal. */
    for (uint32_t i = 0; i < most; i++) {
        uint32_t from = best + 1 + i;
        proposal->tokens[i] = from < known ? tokens[from] : proposal->tokens[from - known];
        proposal->classes[i] = class_of(length + i);
    }
    proposal->count = most;
}

const struct drafter suffix_drafter = {
    .open = suffix_open, .close = suffix_close, .propose = suffix_propose};
