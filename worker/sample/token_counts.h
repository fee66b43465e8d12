/*
 * Counts of the tokens that a sequence has seen, for penalties. Updated token by token, in one
 * small hash map for each sequence that has a penalty. Each penalty counts the tokens of its own
 * context, the last so many positions.
 */
#ifndef SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H
#define SHOAL_WORKER_SAMPLE_TOKEN_COUNTS_H

#include <stdint.h>

#include "proto/result.h"
#include "proto/sampling_params.h"

struct token_counts;

/* Occurrences of a token in each penalty's context. */
struct token_count {
    uint32_t token;
    uint32_t repetition; /* in prompt and answer */
    uint32_t presence;   /* in the answer */
    uint32_t frequency;  /* likewise */
};

/* The contexts are those of `params`; positions >= first_generated are generated tokens. */
struct token_counts *token_counts_create(const struct sampling_params *params,
                                         uint32_t first_generated);
void token_counts_destroy(struct token_counts *counts);
/* Counts up to the sequence's first `known` tokens; those of earlier calls are counted already.
 * After RESULT_OUT_OF_MEMORY the counts are incomplete and can only be destroyed. */
enum result token_counts_follow(struct token_counts *counts, const uint32_t *tokens,
                                uint32_t known) RESULT_CHECKED;
/* Makes `to` equal to `from`. After RESULT_OUT_OF_MEMORY `to` can only be destroyed or copied to
 * again. */
enum result token_counts_copy(struct token_counts *to,
                              const struct token_counts *from) RESULT_CHECKED;
/* Entries in no particular order, some perhaps all zero; `index` < token_counts_size(). */
uint32_t token_counts_size(const struct token_counts *counts);
struct token_count token_counts_at(const struct token_counts *counts, uint32_t index);

#endif
