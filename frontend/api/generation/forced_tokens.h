/*
 * The tokens of one answer that are not the model's to choose, as ids: what the answer must begin
 * with and the marks of thinking, whose end is forced when the budget is spent. What each of them
 * does is in proto/submit_record.h ("Forced tokens"); the preparation of a request finds the ids.
 * A zeroed struct forces nothing.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FORCED_TOKENS_H
#define SHOAL_FRONTEND_API_GENERATION_FORCED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

struct forced_tokens {
    /* Owned: [prefix_count] ids of the prefix, [think_start_count] of what begins thinking,
     * [think_end_count] of what ends it, behind each other. NULL for none. */
    uint32_t *ids;
    uint32_t prefix_count;      /* <= LIMIT_PREFIX_TOKENS */
    uint32_t think_start_count; /* <= LIMIT_THINK_TOKENS */
    uint32_t think_end_count;   /* likewise; not 0 when thinking_open or has_thinking_budget */
    bool thinking_open;         /* the prompt ends inside of thinking */
    bool has_thinking_budget;
    uint32_t thinking_budget; /* 0 unless has_thinking_budget; 0: thinking ends at once */
};

#endif
