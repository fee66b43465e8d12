/*
 * A KV cache full of random rows (worker/cache/kv_noise.h), for benches that step behind long
 * contexts without computing them.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_NOISE_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_NOISE_H

#include "worker/backend/vulkan/program/vulkan_program.h"

/* Every layer's keys and values, of `kv_blocks` blocks for each group: as many rows as a staging
 * buffer holds, over and over. No step is under way. */
enum result vulkan_kv_noise_fill(const struct vulkan_program *program, const uint32_t *kv_blocks,
                                 struct error_text *error) RESULT_CHECKED;

#endif
