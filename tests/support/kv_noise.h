/*
 * Random keys and values in the form of a KV cache, the same in every run. Benchmarks of long
 * contexts use them instead of computed ones. Zeros would not do: the time of a kernel depends on the
 * codes (table look-ups; the device lowers its clock with its power).
 */
#ifndef SHOAL_TESTS_SUPPORT_KV_NOISE_H
#define SHOAL_TESTS_SUPPORT_KV_NOISE_H

#include "worker/plan/kv_codec.h"

enum kv_noise_stream { KV_NOISE_KEYS, KV_NOISE_VALUES };

/* sides [count][side->bytes]: of a head, KV_BLOCK_TOKENS positions each. */
void kv_noise_codes(const struct kv_side *side, enum kv_noise_stream stream, uint32_t count,
                    uint8_t *sides);
/* halves [count][KV_BLOCK_TOKENS][head_dim]: the same in full precision. */
void kv_noise_halves(uint32_t head_dim, enum kv_noise_stream stream, uint32_t count,
                     uint16_t *halves);

#endif
