/*
 * Time of a step by kernel: a barrier and a timestamp after every dispatch, so that dispatches do
 * not overlap, added up and printed as a table. Steps are slower with it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PROFILE_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PROFILE_H

#include "worker/backend/vulkan/device/vulkan_commands.h"

#define VULKAN_PROFILE_MARKS 8192u /* of one step */

struct vulkan_profile; /* opaque */

/* Measures the memory's bandwidth, with a buffer of 1 GiB. */
enum result vulkan_profile_create(const struct vulkan_device *device,
                                  struct vulkan_kernels *kernels, struct vulkan_profile **profile,
                                  struct error_text *error) RESULT_CHECKED;
/* NULL is fine. */
void vulkan_profile_destroy(struct vulkan_profile *profile);

/* Before the first dispatch of a recording. */
void vulkan_profile_begin(struct vulkan_profile *profile, struct vulkan_commands *commands);
/* After a dispatch. `name`: a literal; dispatches of one name are told apart by the bytes of
 * weights that they read. other_bytes: further bytes that they must move. */
void vulkan_profile_mark(struct vulkan_profile *profile, struct vulkan_commands *commands,
                         const char *name, uint64_t weight_bytes, uint64_t other_bytes);
/* When the recording has run: adds its times. */
void vulkan_profile_add(struct vulkan_profile *profile, const struct vulkan_commands *commands);
/* The table, a log line per kernel: dispatches, time, bytes, share of the bandwidth; and resets it.
 * `count` and `what` ("step") name the recordings that were added. */
void vulkan_profile_print(struct vulkan_profile *profile, const char *what, uint32_t count);
/* Recordings that were added. */
uint32_t vulkan_profile_steps(const struct vulkan_profile *profile);

#endif
