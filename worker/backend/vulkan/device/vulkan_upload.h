/*
 * Copies bytes from the host to device memory through two staging buffers: one is filled while the
 * transfer queue copies the other.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_UPLOAD_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_UPLOAD_H

#include "worker/backend/vulkan/device/vulkan_commands.h"

struct vulkan_upload; /* opaque; one thread */

/* Staging buffers of `staging_bytes` each. */
enum result vulkan_upload_create(const struct vulkan_device *device, uint64_t staging_bytes,
                                 struct vulkan_upload **upload,
                                 struct error_text *error) RESULT_CHECKED;
/* Waits for what is in flight. */
void vulkan_upload_destroy(struct vulkan_upload *upload);

/* The next staging buffer, [staging_bytes], free to be filled. */
enum result vulkan_upload_claim(struct vulkan_upload *upload, void **staging,
                                struct error_text *error) RESULT_CHECKED;
/* Adds a copy of these bytes of the claimed buffer to `target`. Any number of times. */
void vulkan_upload_copy(struct vulkan_upload *upload, uint64_t staging_offset,
                        const struct vulkan_buffer *target, uint64_t target_offset, uint64_t bytes);
/* Starts the copies of the claimed buffer. */
enum result vulkan_upload_commit(struct vulkan_upload *upload,
                                 struct error_text *error) RESULT_CHECKED;
/* Waits until everything committed has arrived. */
enum result vulkan_upload_finish(struct vulkan_upload *upload,
                                 struct error_text *error) RESULT_CHECKED;
/* Claims, fills, copies and commits as often as `bytes` needs. */
enum result vulkan_upload_bytes(struct vulkan_upload *upload, const void *bytes,
                                uint64_t byte_count, const struct vulkan_buffer *target,
                                uint64_t target_offset, struct error_text *error) RESULT_CHECKED;

#endif
