/*
 * Where a step's time goes: a timestamp behind every dispatch, with a barrier so that dispatches do
 * not overlap, added up by kernel and printed as a table. Steps are slower with it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_VULKAN_PROFILE_H
#define SHOAL_WORKER_BACKEND_VULKAN_VULKAN_PROFILE_H

#include "worker/backend/vulkan/vulkan_commands.h"

#define VULKAN_PROFILE_MARKS 8192u /* of one step */

struct vulkan_profile; /* opaque */

struct vulkan_profile *vulkan_profile_create(void);
void vulkan_profile_destroy(struct vulkan_profile *profile);

/* Before the first dispatch of a recording. */
void vulkan_profile_begin(struct vulkan_profile *profile, struct vulkan_commands *commands);
/* Behind a dispatch. `name`: a literal; dispatches of one name are told apart by the bytes of
 * weights that they read; other_bytes: what they must move besides. */
void vulkan_profile_mark(struct vulkan_profile *profile, struct vulkan_commands *commands,
                         const char *name, uint64_t weight_bytes, uint64_t other_bytes);
/* When the recording has run: adds its times. */
void vulkan_profile_add(struct vulkan_profile *profile, const struct vulkan_commands *commands);
/* The table, a log line per kernel: dispatches, time, bytes, share of `peak_bytes_per_s`; and
 * begins anew. */
void vulkan_profile_print(struct vulkan_profile *profile, double peak_bytes_per_s);
/* Bytes per second at which a kernel reads `bytes` of device memory. */
enum result vulkan_profile_measure_peak(const struct vulkan_device *device,
                                        struct vulkan_kernels *kernels, uint64_t bytes,
                                        double *bytes_per_s,
                                        struct error_text *error) RESULT_CHECKED;
uint32_t vulkan_profile_steps(const struct vulkan_profile *profile);

#endif
