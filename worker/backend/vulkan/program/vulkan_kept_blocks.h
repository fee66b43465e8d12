/*
 * One block of the KV cache, one slot of recurrent state, or one row of the pool of features, between the device and host memory: for the file in which a prefix
 * cache outlives its server (worker/cache/prefix_file.h).
 *
 * A block's bytes are its part of the token history, if the group has one, and the keys and values of each layer of the group, in
 * the order of the layers. A slot's are the states of the recurrent layers, a row's the features of one placeholder.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_KEPT_BLOCKS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_KEPT_BLOCKS_H

#include "worker/backend/host/kept_pools.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

struct kept_pools_blocks vulkan_kept_blocks_describe(const struct vulkan_program *program);

struct vulkan_kept_blocks; /* opaque: a staging buffer and its commands; one thread */

enum result vulkan_kept_blocks_create(const struct vulkan_program *program,
                                      struct vulkan_kept_blocks **blocks,
                                      struct error_text *error) RESULT_CHECKED;
void vulkan_kept_blocks_destroy(struct vulkan_kept_blocks *blocks);
/* No step is in progress. Returns once the copy is done. */
enum result vulkan_kept_blocks_copy(struct vulkan_kept_blocks *blocks,
                                    const struct kept_pools_copy *copy,
                                    struct error_text *error) RESULT_CHECKED;

#endif
