/*
 * Splits a plan at boundaries between layers, so that each part can run on a device of its own
 * (worker/backend/split/README.md). A part is a plan: its ops, with the tensors and weights that
 * they use. What lives across a cut is passed on as tensors of step rows (struct plan, taken and
 * passed). A part's layouts of KV cache and recurrent state have the whole plan's groups and layer
 * numbers, with the memory of its own layers alone; so block ids and slots mean the same in every
 * part.
 */
#ifndef SHOAL_WORKER_PLAN_PLAN_SPLIT_H
#define SHOAL_WORKER_PLAN_PLAN_SPLIT_H

#include "proto/result.h"
#include "worker/plan/plan.h"

/* A boundary: `ops` ops and `layers` layers come before it. */
struct plan_cut {
    uint32_t ops;
    uint32_t layers;
};

/* The boundaries where the plan may be cut, in order; returns how many, < LIMIT_LAYERS. There is none
 * between a layer and those that attend over its keys, before the last layer that adds a part of an
 * image's features, nor after rows were selected for logits. */
uint32_t plan_split_cuts(const struct plan *plan, struct plan_cut cuts[LIMIT_LAYERS]);

/* Where the residual alone, one tensor of step rows as wide as the model, lives after the first `layers`
 * layers, 0 < layers < the model's: the op before which it does, and the tensor. 0: there is no such place, or
 * layers cannot be told apart. Unlike at a cut, features may be added and keys attended over beyond it. */
uint32_t plan_split_residual(const struct plan *plan, uint32_t layers, plan_tensor_id *residual);

/* The part of ops [begin, end): each is 0, the ops of a cut, or the plan's op_count. Weights' bytes
 * remain the whole plan's. The caller frees it with plan_destroy(). */
struct plan *plan_split_part(const struct plan *plan, uint32_t begin, uint32_t end);

/* Bytes of the weights that ops [begin, end) use, as the checkpoint stores them. */
uint64_t plan_split_weight_bytes(const struct plan *plan, uint32_t begin, uint32_t end);

#endif
