/*
 * How many blocks does each cache group get? Decided once at load, before any memory is reserved,
 * and the numbers are printed.
 */
#ifndef SHOAL_WORKER_CACHE_KV_BUDGET_H
#define SHOAL_WORKER_CACHE_KV_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/plan/kv_layout.h"

struct kv_budget_request {
    uint32_t element_bytes;  /* of one key or value element in the backend */
    uint32_t context_tokens; /* longest sequence wanted */
    uint32_t max_sequences;
    uint32_t step_tokens;
    uint64_t state_slot_bytes; /* state_layout_slot_bytes() */
    bool keeps_checkpoints;    /* of recurrent state, for the prefix cache */
    uint64_t limit_bytes;
};

struct kv_budget {
    uint32_t blocks[KV_GROUPS_MAX];
    uint32_t max_sequences;    /* <= the ones wanted: each has its recurrent state */
    uint64_t state_bytes;      /* of all of them */
    uint32_t checkpoint_slots; /* that keep states for the prefix cache */
    uint64_t checkpoint_bytes;
    uint64_t wanted_bytes;   /* with which max_sequences whole contexts never run short, state and
                                checkpoints included */
    uint64_t bytes;          /* of all groups together; with both others <= limit_bytes */
    uint32_t context_tokens; /* longest sequence that fits while it is alone, <= the one wanted */
};

/* Pure. RESULT_TOO_LARGE, with the numbers, when limit_bytes does not even hold one sequence of one
 * step's rows. */
enum result kv_budget_plan(const struct kv_layout *layout, const struct kv_budget_request *wanted,
                           struct kv_budget *budget, struct error_text *error) RESULT_CHECKED;

/* Longest sequence, at most `tokens`, that fits into pools of `blocks` while it is alone; 0 when
 * not even one token does. */
uint32_t kv_budget_longest(const struct kv_layout *layout, const uint32_t blocks[KV_GROUPS_MAX],
                           uint32_t tokens, uint32_t step_tokens);

#endif
