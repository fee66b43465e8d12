/*
 * Sums of weights as integers. A weight is exp((logit - largest) / temperature), at most 1; a sum
 * counts units of 2^-43, so it does not depend on who adds first, and a processor and a GPU that
 * agree on each weight's bits agree on every sum, on what a filter keeps of it and on the draw.
 * A million tokens of weight 1 fit 63 bits; what weighs less than a unit adds nothing. The device's
 * side is worker/backend/vulkan/shaders/sample_rows.glsl, step by step the same.
 */
#ifndef SHOAL_WORKER_SAMPLE_WEIGHT_UNITS_H
#define SHOAL_WORKER_SAMPLE_WEIGHT_UNITS_H

#include <stdint.h>

#define WEIGHT_UNIT_BITS 43

/* value in [0, 2^20), rounded down. */
uint64_t weight_units_of(float value);
/* sum * factor rounded down, and up; sum < 2^63, factor in [0, 2). */
uint64_t weight_units_scale(uint64_t sum, float factor);
uint64_t weight_units_scale_up(uint64_t sum, float factor);
double weight_units_value(uint64_t sum);

/* How far below the largest logit a token lies, -log of its weight, in units of 2^-24: at most 88.
 */
uint32_t weight_units_distance(float log_weight);
/* The mean distance of tokens whose weights sum up to `weight` > 0, and those times their distances
 * to `entropy`; rounded down. */
uint32_t weight_units_mean(uint64_t entropy, uint64_t weight);

#endif
