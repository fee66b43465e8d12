/*
 * How many layers each device gets. Pure.
 */
#ifndef SHOAL_WORKER_BACKEND_SPLIT_SPLIT_POLICY_H
#define SHOAL_WORKER_BACKEND_SPLIT_SPLIT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "worker/plan/plan_split.h"

/* The plan between its cuts: piece p has the ops from cut p - 1 on, up to cut p. */
struct split_piece {
    uint64_t weight_bytes;
    uint64_t kv_bytes; /* of a token in all its layers, or of any other unit */
};

/* Divides pieces [0, piece_count) into a run for each of `devices` devices with so much memory, none
 * of them empty: ends[d] is the first piece of the next device. Of all ways one whose scarcest device
 * has the most memory beside its weights for the KV cache of its layers. Returns the bytes that the
 * weights lack on the scarcest device of this way: 0 if they fit. piece_count >= devices. */
uint64_t split_policy_divide(const struct split_piece *pieces, uint32_t piece_count,
                             const uint64_t *memory_bytes, uint32_t devices,
                             uint32_t ends[LIMIT_SPLIT_DEVICES]);

#endif
