/*
 * Sums of weights in fixed point. A weight is exp((logit - largest) / temperature), at most 1. A
 * sum counts units of 2^-43, so it does not depend on the order of addition: a CPU and a GPU that
 * agree on each weight's bits agree on every sum, on the tokens that a filter keeps and on the
 * draw.
 *
 * A million tokens of weight 1 fit 63 bits; a weight below one unit adds 0. The GPU's version is
 * worker/backend/vulkan/shaders/sample_rows.glsl, step by step the same.
 */
#ifndef SHOAL_WORKER_SAMPLE_FIXED_WEIGHT_H
#define SHOAL_WORKER_SAMPLE_FIXED_WEIGHT_H

#include <stdint.h>

#define FIXED_WEIGHT_BITS 43

/* value in [0, 2^20), rounded down. */
uint64_t fixed_weight_of(float value);
/* sum * factor rounded down, and up; sum < 2^63, factor in [0, 2). */
uint64_t fixed_weight_scale(uint64_t sum, float factor);
uint64_t fixed_weight_scale_up(uint64_t sum, float factor);
double fixed_weight_value(uint64_t sum);

/* The distance -log weight of a token from the largest logit, in units of 2^-24, at most 88. */
uint32_t fixed_weight_distance(float log_weight);
/* The mean distance, rounded down, of tokens whose weights sum up to `weight` > 0 and whose weights
 * times distances sum up to `entropy`. */
uint32_t fixed_weight_mean(uint64_t entropy, uint64_t weight);

/* log2(value) in units of 2^-24, rounded down; value > 0. A sum of weights counts 2^-43. */
uint32_t fixed_weight_log2(uint64_t value);

#endif
