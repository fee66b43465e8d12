/*
 * Buffers, each with an address that kernels use. Three kinds of place:
 *
 *   DEVICE  device-local
 *   UPLOAD  written by the host, read by the device: device-local and mapped where the device has
 *           such memory, else host memory
 *   READBACK  host memory, cached: what the host reads, or packs before it is copied
 *
 * One buffer is at most facts.max_allocation_bytes; vulkan_arena hands out pieces of as many
 * buffers as it takes.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_MEMORY_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_MEMORY_H

#include "worker/backend/vulkan/device/vulkan_device.h"

#define VULKAN_ALIGNMENT        256u  /* of every piece and buffer */
#define VULKAN_ARENA_CHUNKS_MAX 1024u /* 4 TB in chunks of 4 GiB */

enum vulkan_place { VULKAN_DEVICE, VULKAN_UPLOAD, VULKAN_READBACK };

struct vulkan_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint64_t address;
    uint64_t bytes;
    void *mapped; /* UPLOAD, READBACK: coherent host memory; else NULL */
};

/* Contents are undefined. RESULT_TOO_LARGE, RESULT_OUT_OF_MEMORY naming `what`. */
enum result vulkan_buffer_create(const struct vulkan_device *device, enum vulkan_place place,
                                 uint64_t bytes, const char *what, struct vulkan_buffer *buffer,
                                 struct error_text *error) RESULT_CHECKED;
/* A descriptor of the memory of a chunk of a shared arena. */
enum result vulkan_buffer_export(const struct vulkan_device *device,
                                 const struct vulkan_buffer *buffer, int *fd,
                                 struct error_text *error) RESULT_CHECKED;
/* A zeroed struct is allowed. */
void vulkan_buffer_destroy(const struct vulkan_device *device, struct vulkan_buffer *buffer);

/* A piece of a buffer. */
struct vulkan_piece {
    const struct vulkan_buffer *buffer;
    uint64_t offset;
    uint64_t bytes;
    uint64_t address;
};

/* Pieces placed one after the other in chunks; all are freed together. `expected_bytes`: the sum of
 * all pieces to come, each piece rounded up to VULKAN_ALIGNMENT, so that the last chunk is no
 * larger than needed. The same sequence of takes gives the same chunks and offsets. */
struct vulkan_arena;
struct vulkan_arena *vulkan_arena_create(const struct vulkan_device *device,
                                         uint64_t expected_bytes, bool shared);
/* One whose chunks are not allocated: the first that is needed is imported from fds[0], and so on,
 * as an arena with `shared` exported them. The caller keeps the descriptors and closes them after
 * the last piece is taken. */
struct vulkan_arena *vulkan_arena_create_imported(const struct vulkan_device *device,
                                                  uint64_t expected_bytes, const int *fds,
                                                  uint32_t fd_count);
void vulkan_arena_destroy(struct vulkan_arena *arena);
/* RESULT_STALE: all descriptors of an imported arena are used up. */
enum result vulkan_arena_take(struct vulkan_arena *arena, uint64_t bytes, const char *what,
                              struct vulkan_piece *piece, struct error_text *error) RESULT_CHECKED;
uint32_t vulkan_arena_chunk_count(const struct vulkan_arena *arena);
const struct vulkan_buffer *vulkan_arena_chunk(const struct vulkan_arena *arena, uint32_t index);

#endif
