/*
 * One dispatch of one kernel, by hand: buffers that the test reads and writes through plain
 * pointers, a kernel by name, a push struct, a grid. Every failure fails the test.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_TRIAL_H
#define SHOAL_TESTS_SUPPORT_VULKAN_TRIAL_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"

#define VULKAN_TRIAL_BUFFERS 32u

struct vulkan_trial {
    const struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
    uint32_t buffer_count;
    struct vulkan_buffer buffers[VULKAN_TRIAL_BUFFERS];
};

void vulkan_trial_init(struct vulkan_trial *trial, const struct vulkan_device *device);
void vulkan_trial_fini(struct vulkan_trial *trial);
/* Frees the buffers, so that the next case can have as many. */
void vulkan_trial_clear(struct vulkan_trial *trial);

/* A mapped buffer with `bytes` of `data`, or filled with 0xAA bytes when NULL; lives until the next
 * clear. */
const struct vulkan_buffer *vulkan_trial_buffer(struct vulkan_trial *trial, const void *data,
                                                uint64_t bytes);
/* struct vulkan_step_tile [*tile_count]: those of the sequences [count] with several rows, of at
 * most `tile_rows`, and two of padding behind them. */
const struct vulkan_buffer *vulkan_trial_tiles(struct vulkan_trial *trial,
                                               const struct vulkan_step_sequence *sequences,
                                               uint32_t count, uint32_t tile_rows,
                                               uint32_t *tile_count);
void vulkan_trial_run(struct vulkan_trial *trial, const char *shader,
                      const struct vulkan_specialization *specialization, const void *push,
                      uint32_t push_bytes, struct vulkan_grid grid);

#endif
