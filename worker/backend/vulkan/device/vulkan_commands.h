/*
 * One command buffer: recorded, submitted any number of times, waited for. Only
 * vulkan_commands_barrier() orders dispatches: it makes everything before it (kernels and copies)
 * visible to everything after it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_COMMANDS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_COMMANDS_H

#include "worker/backend/vulkan/device/vulkan_kernels.h"
#include "worker/backend/vulkan/device/vulkan_memory.h"

enum vulkan_queue { VULKAN_QUEUE_COMPUTE, VULKAN_QUEUE_TRANSFER };

struct vulkan_grid {
    uint32_t x, y, z; /* workgroups */
};

struct vulkan_commands; /* opaque; one thread */

/* `timestamps`: how many vulkan_commands_timestamp() a recording may hold. */
enum result vulkan_commands_create(const struct vulkan_device *device, enum vulkan_queue queue,
                                   uint32_t timestamps, struct vulkan_commands **commands,
                                   struct error_text *error) RESULT_CHECKED;
/*
 * Recordings made in advance, on the compute queue and without timestamps, each with memory for a step: as
 * device->spare they are what vulkan_commands_create() returns first, and in the first 3 s waiting polls. While a driver takes down another
 * process, calls that ask it for memory, or even for a fence, wait for it: 1.1 to 1.4 s were measured on an
 * H200, where a submission took 0.05 ms (a dead process with 112 GB of imported memory).
 */
#define VULKAN_SPARE_COMMANDS_MAX 32u
enum result vulkan_spare_commands_create(const struct vulkan_device *device, uint32_t count,
                                         struct vulkan_spare_commands **spare,
                                         struct error_text *error) RESULT_CHECKED;
void vulkan_spare_commands_destroy(struct vulkan_spare_commands *spare);

/* Waits until the device is done with it. */
void vulkan_commands_destroy(struct vulkan_commands *commands);

/* Discards the recording; must() not be in flight. */
enum result vulkan_commands_begin(struct vulkan_commands *commands,
                                  struct error_text *error) RESULT_CHECKED;
void vulkan_commands_dispatch(struct vulkan_commands *commands, const struct vulkan_kernel *kernel,
                              const void *push, uint32_t push_bytes, struct vulkan_grid grid);
void vulkan_commands_barrier(struct vulkan_commands *commands);
void vulkan_commands_copy(struct vulkan_commands *commands, const struct vulkan_buffer *source,
                          uint64_t source_offset, const struct vulkan_buffer *target,
                          uint64_t target_offset, uint64_t bytes);
void vulkan_commands_fill(struct vulkan_commands *commands, const struct vulkan_buffer *target,
                          uint64_t offset, uint64_t bytes, uint32_t word);
/* Time when everything before it has finished. */
void vulkan_commands_timestamp(struct vulkan_commands *commands, uint32_t index);
enum result vulkan_commands_end(struct vulkan_commands *commands,
                                struct error_text *error) RESULT_CHECKED;

enum result vulkan_commands_submit(struct vulkan_commands *commands,
                                   struct error_text *error) RESULT_CHECKED;
/* RESULT_TIMED_OUT when it is still running after `timeout_ms`; then it may be waited for again. */
enum result vulkan_commands_wait(struct vulkan_commands *commands, uint32_t timeout_ms,
                                 struct error_text *error) RESULT_CHECKED;
/* submit and wait, at most five minutes. */
enum result vulkan_commands_run(struct vulkan_commands *commands,
                                struct error_text *error) RESULT_CHECKED;
/* Nanoseconds between two timestamps of the last finished run; 0 without timestamps. */
double vulkan_commands_elapsed_ns(const struct vulkan_commands *commands, uint32_t from,
                                  uint32_t to);

/* Counts of the recording. */
struct vulkan_commands_counts {
    uint32_t dispatches;
    uint32_t barriers; /* by vulkan_commands_barrier() */
};
struct vulkan_commands_counts vulkan_commands_counts(const struct vulkan_commands *commands);

#endif
