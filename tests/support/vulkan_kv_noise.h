/*
 * Fills a Vulkan KV cache with random rows (kv_noise.h), for benches of decodes with long contexts.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_KV_NOISE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_KV_NOISE_H

#include <stdint.h>

#include "proto/result.h"

struct vulkan_program;

/* Keys and values of every layer, for `kv_blocks` blocks of each group: a staging buffer's rows,
 * repeated. No step is in progress. */
enum result vulkan_kv_noise_fill(const struct vulkan_program *program, const uint32_t *kv_blocks,
                                 struct error_text *error) RESULT_CHECKED;

#endif
