/*
 * Builds a plan with random weights for tests of ops: tensors, weights and ops are appended one by
 * one, and any backend can load the result. The same seed gives the same weights.
 *
 * Weights are random bytes in which every f16 scale has an ordinary magnitude, so all bit patterns
 * of quants and integer scales occur.
 */
#ifndef SHOAL_TESTS_SUPPORT_PLAN_SKETCH_H
#define SHOAL_TESTS_SUPPORT_PLAN_SKETCH_H

#include <stdint.h>

#include "tests/support/test_random.h"
#include "worker/plan/plan.h"

struct plan_sketch;

struct plan_sketch *plan_sketch_create(uint64_t seed);
void plan_sketch_destroy(struct plan_sketch *sketch);

/* The sketch's own; config, kv and logits may be set freely. */
struct plan *plan_sketch_plan(struct plan_sketch *sketch);
struct test_random *plan_sketch_random(struct plan_sketch *sketch);
/* Uniform in [-1, 1). */
float plan_sketch_uniform(struct plan_sketch *sketch);

plan_tensor_id plan_sketch_tensor(struct plan_sketch *sketch, enum plan_rows rows,
                                  uint32_t columns);
plan_weight_id plan_sketch_weight(struct plan_sketch *sketch, enum ggml_type type, uint32_t rows,
                                  uint32_t columns);
/* Makes the matrix a stack of as many experts, which share its rows evenly. */
void plan_sketch_split_weight(struct plan_sketch *sketch, plan_weight_id weight, uint32_t experts);
void plan_sketch_append(struct plan_sketch *sketch, struct plan_op op);
/* An op of one or two inputs (or PLAN_NONE) with its first `count` weights. */
void plan_sketch_append_op(struct plan_sketch *sketch, enum op_stem stem, plan_tensor_id x,
                           plan_tensor_id y, plan_tensor_id out, const plan_weight_id *weights,
                           uint32_t count, union op_params params);
/* A plan without logits of two stages: patch_rows of `frames` into `pixels`, then `op`. */
void plan_sketch_stages(struct plan_sketch *sketch, plan_tensor_id pixels, uint32_t frames,
                        struct plan_op op);
/* One KV group of `layers` layers, window 0 for all positions. */
void plan_sketch_set_kv(struct plan_sketch *sketch, uint32_t layers, uint32_t kv_heads,
                        uint32_t head_dim, uint32_t window);
/* Quantizes that group; with a start there is an OPENING one beside it. */
void plan_sketch_quantize_kv(struct plan_sketch *sketch,
                             const struct kv_quantization *quantization);
/* `layers` layers that keep state, each of so many floats. */
void plan_sketch_set_state(struct plan_sketch *sketch, uint32_t layers, uint32_t conv_floats,
                           uint32_t delta_floats, uint32_t conv_row_floats,
                           uint32_t delta_row_floats);

/* A weight's row as f32 [columns]. */
void plan_sketch_weight_row(const struct plan_sketch *sketch, plan_weight_id weight, uint32_t row,
                            float *out);

#endif
