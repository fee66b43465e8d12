/*
 * Can this request ever run here, and may the next one begin now?
 */
#ifndef SHOAL_WORKER_SCHEDULE_ADMISSION_POLICY_H
#define SHOAL_WORKER_SCHEDULE_ADMISSION_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/plan/kv_layout.h"

struct admission_limits {
    uint32_t context_tokens;    /* known tokens of a sequence at most */
    uint32_t longest_positions; /* computed positions that fit the pools while it is alone */
};

/*
 * Known tokens at which a request of these sizes ends by length, capped by the context and by the
 * pools. RESULT_CONTEXT_EXCEEDED when the prompt leaves no room for a token, RESULT_TOO_LARGE when
 * it could never fit the pools. Pure.
 */
enum result admission_policy_size(const struct admission_limits *limits, uint32_t prompt_tokens,
                                  uint32_t max_new_tokens, uint32_t *tokens_max) RESULT_CHECKED;

/* The state in which the oldest waiting sequence asks to begin. Blocks are per group. */
struct admission_snapshot {
    uint32_t running_sequences;
    uint32_t decoding_sequences;
    uint32_t max_sequences;
    uint32_t group_count;
    uint32_t free_blocks[KV_GROUPS_MAX];
    uint64_t promised_blocks[KV_GROUPS_MAX]; /* running prefills will still take */
    uint32_t wanted_blocks[KV_GROUPS_MAX];   /* its own known tokens need */
};

/* Pure. Always true when nothing runs: admission_policy_size() made sure that it fits alone. */
bool admission_policy_admits(const struct admission_snapshot *snapshot);

#endif
