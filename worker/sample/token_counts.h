/*
 * Which tokens a sequence has seen, for penalties: kept incrementally, one small hash map per
 * sequence that has a penalty on. Each penalty counts the tokens of its own context, the last so
 * many positions.
 */
#ifndef SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H
#define SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H

#include <stdint.h>

#include "proto/result.h"
#include "proto/sampling_params.h"

struct token_counts;

/* How often a token is in the context of each penalty. */
struct token_count {
    uint32_t token;
    uint32_t repetition; /* in prompt and answer */
    uint32_t presence;   /* in the answer */
    uint32_t frequency;  /* likewise */
};

/* The contexts are those of `params`; positions from `first_generated` on are generated. */
struct token_counts *token_counts_create(const struct sampling_params *params,
                                         uint32_t first_generated);
void token_counts_destroy(struct token_counts *counts);
/* Counts the sequence's first `known` tokens, of which it was given the beginning before. On
 * RESULT_OUT_OF_MEMORY some are counted, and nothing but destroying may follow. */
enum result token_counts_follow(struct token_counts *counts, const uint32_t *tokens,
                                uint32_t known) RESULT_CHECKED;
/* Entries in no particular order, some of them perhaps all zero: `index` from 0 to
 * token_counts_size() - 1. */
uint32_t token_counts_size(const struct token_counts *counts);
struct token_count token_counts_at(const struct token_counts *counts, uint32_t index);

#endif
