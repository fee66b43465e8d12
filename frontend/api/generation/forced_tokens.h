/*
 * Token ids of one answer that the model does not choose: the start of the answer, and the marks of
 * thinking, whose end is forced when the budget is used up. proto/run_params.h ("Forced tokens")
 * defines their effect. A zeroed struct forces nothing.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FORCED_TOKENS_H
#define SHOAL_FRONTEND_API_GENERATION_FORCED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

struct forced_tokens {
    /* Owned: ids of the prefix [prefix_count], of the start of thinking [think_start_count], and of
     * its end [think_end_count], one after the other. NULL: none. */
    uint32_t *ids;
    uint32_t prefix_count;      /* <= LIMIT_PREFIX_TOKENS */
    uint32_t think_start_count; /* <= LIMIT_THINK_TOKENS */
    uint32_t think_end_count;   /* likewise; not 0 when thinking_open or has_thinking_budget */
    bool thinking_open;         /* the prompt ends inside thinking */
    bool has_thinking_budget;
    uint32_t thinking_budget; /* 0 unless has_thinking_budget; 0: thinking ends at once */
};

#endif
