/*
 * The number of blocks of each cache group and of recurrent-state slots. Decided once at load,
 * before memory is reserved; the worker logs the numbers.
 */
#ifndef SHOAL_WORKER_CACHE_KV_BUDGET_H
#define SHOAL_WORKER_CACHE_KV_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/plan/kv_layout.h"

struct kv_budget_request {
    uint32_t element_bytes;  /* of one key or value element in the backend */
    uint32_t context_tokens; /* requested maximum length of a sequence */
    uint32_t max_sequences;
    uint32_t step_tokens;
    uint64_t state_slot_bytes; /* state_layout_slot_bytes() */
    bool keeps_checkpoints;    /* the prefix cache keeps checkpoints of recurrent state */
    uint64_t
        draft_block_bytes; /* of a draft model, beside each block of the first FULL group; or 0 */
    uint64_t limit_bytes;
};

struct kv_budget {
    uint32_t blocks[KV_GROUPS_MAX];
    uint32_t max_sequences;    /* <= the requested number: each has its recurrent state */
    uint64_t state_bytes;      /* recurrent state of max_sequences */
    uint32_t checkpoint_slots; /* recurrent states kept by the prefix cache */
    uint64_t checkpoint_bytes;
    uint64_t
        wanted_bytes; /* enough for max_sequences whole contexts, state and checkpoints included */
    uint64_t bytes;   /* all groups; bytes + state_bytes + checkpoint_bytes <= limit_bytes */
    uint32_t
        context_tokens; /* maximum length of a sequence that runs alone, <= the requested one */
};

/* Number of sequences for which limit_bytes are enough: a multiple of 64, at most max_sequences (and that if it
 * is less than 64), so that each has room for 2,048 tokens or its context, and for its recurrent state twice; at
 * least 64. Pure. */
uint32_t kv_budget_sequences(const struct kv_layout *layout,
                             const struct kv_budget_request *request);

/* Pure. RESULT_TOO_LARGE, with the numbers, if limit_bytes does not hold one sequence with the rows
 * of one step. */
enum result kv_budget_plan(const struct kv_layout *layout, const struct kv_budget_request *wanted,
                           struct kv_budget *budget, struct error_text *error) RESULT_CHECKED;

/* Maximum length, up to `tokens`, of a sequence that has pools of `blocks` for itself; 0 if not
 * even one token fits. */
uint32_t kv_budget_longest(const struct kv_layout *layout, const uint32_t blocks[KV_GROUPS_MAX],
                           uint32_t tokens, uint32_t step_tokens);

#endif
