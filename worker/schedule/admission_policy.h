/*
 * Decides whether a request can ever run in this worker, and whether the oldest waiting one may
 * start now.
 */
#ifndef SHOAL_WORKER_SCHEDULE_ADMISSION_POLICY_H
#define SHOAL_WORKER_SCHEDULE_ADMISSION_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/plan/kv_layout.h"

struct admission_limits {
    uint32_t context_tokens;    /* maximum number of known tokens of a sequence */
    uint32_t longest_positions; /* maximum computed positions of a sequence that runs alone */
};

/*
 * Computes the number of known tokens at which a request ends by length, limited by the context and
 * the pools. RESULT_CONTEXT_EXCEEDED if the prompt leaves no room for a token, RESULT_TOO_LARGE if
 * it can never fit the pools. Pure.
 */
enum result admission_policy_size(const struct admission_limits *limits, uint32_t prompt_tokens,
                                  uint32_t max_new_tokens, uint32_t *tokens_max) RESULT_CHECKED;

/* The state in which the oldest waiting sequence is considered. Blocks are per group. */
struct admission_snapshot {
    uint32_t running_sequences;
    uint32_t decoding_sequences;
    uint32_t max_sequences;
    uint32_t group_count;
    uint32_t free_blocks[KV_GROUPS_MAX];
    uint64_t promised_blocks[KV_GROUPS_MAX]; /* running prefills will still take them */
    uint32_t wanted_blocks[KV_GROUPS_MAX];   /* for the known tokens of the waiting sequence */
};

/* Pure. Always true if nothing runs: admission_policy_size() has checked that the sequence fits
 * alone. */
bool admission_policy_admits(const struct admission_snapshot *snapshot);

#endif
