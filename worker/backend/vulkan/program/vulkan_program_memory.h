/*
 * Makes a program: lays out its tensors, KV cache, recurrent states, features and scratch memory on
 * the device.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_PROGRAM_MEMORY_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_PROGRAM_MEMORY_H

#include "worker/backend/vulkan/program/vulkan_program.h"

/* Everything but the weights' contents. `options` belong to this plan: a vision plan has
 * max_patch_rows, and the caller sets its features_address. */
enum result vulkan_program_init(struct vulkan_program *program, const struct vulkan_device *device,
                                struct vulkan_kernels *kernels, const struct plan *plan,
                                const struct backend_options *options,
                                struct error_text *error) RESULT_CHECKED;
/* Of the keys, or values, of one layer of group `g`; latent groups have no values of their own. */
uint64_t vulkan_program_kv_bytes(const struct kv_layout *layout, uint32_t g, bool values,
                                 uint32_t blocks);
/* For options->shares_kv: the KV cache of a program with the same layout, which outlives it. */
void vulkan_program_share_kv(struct vulkan_program *program, const struct vulkan_program *lender);
void vulkan_program_fini(struct vulkan_program *program);

#endif
