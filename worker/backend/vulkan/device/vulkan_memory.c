/*
 * Buffers and arenas.
 *
 * Every buffer has a dedicated allocation (drivers allow some thousands, Shoal makes dozens):
 * measured on one H200, a dedicated allocation costs 0.9 ms a GB, and one that buffers might share
 * 17 ms, the same again when its process dies, and writing to it is slower (2.1 instead of 3.4
 * TB/s). An arena cuts pieces from chunks, so that a model's hundreds of matrices take a handful of
 * allocations; the chunks of a shared one are exportable besides.
 *
 * Pieces are not freed one by one: all contents of an arena live as long as the model.
 */
#include "worker/backend/vulkan/device/vulkan_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/must.h"

#define BUFFER_USAGE                                                                               \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |                       \
     VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)
#define HANDLE_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define NO_TYPE     UINT32_MAX
#define CHUNK_BYTES (2ull << 30) /* a 400 GB model takes 200 descriptors */

#define WHOLE_PIECES 16u /* of a chunk, at most: more waste less than a sixteenth */

enum sharing { PRIVATE, EXPORTED, IMPORTED };

static uint32_t find_type(const struct vulkan_device *device, uint32_t allowed,
                          VkMemoryPropertyFlags wanted)
{
    for (uint32_t i = 0; i < device->memory.memoryTypeCount; i++)
        if ((allowed >> i & 1u) && (device->memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    return NO_TYPE;
}

/* The best memory type for a place among those allowed; the last choice of each list always exists.
 *   */
static uint32_t choose_type(const struct vulkan_device *device, enum vulkan_place place,
                            uint32_t allowed)
{
    static const VkMemoryPropertyFlags mapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryPropertyFlags choices[3][2] = {
        [VULKAN_DEVICE] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                           VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
        [VULKAN_UPLOAD] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | mapped, mapped},
        [VULKAN_READBACK] = {VK_MEMORY_PROPERTY_HOST_CACHED_BIT | mapped, mapped},
    };
    uint32_t type = find_type(device, allowed, choices[place][0]);
    return type != NO_TYPE ? type : find_type(device, allowed, choices[place][1]);
}

static enum result create_handle(const struct vulkan_device *device, uint64_t bytes, bool external,
                                 struct vulkan_buffer *buffer, struct error_text *error)
{
    const VkExternalMemoryBufferCreateInfo shared = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = HANDLE_TYPE};
    /* Concurrent: written by the transfer queue and read by the compute queue without ownership
     * transfer. */
    const uint32_t families[2] = {device->queue_family, device->transfer_family};
    bool concurrent = families[0] != families[1];
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .pNext = external ? &shared : NULL,
                                     .size = bytes,
                                     .usage = BUFFER_USAGE,
                                     .sharingMode = concurrent ? VK_SHARING_MODE_CONCURRENT
                                                               : VK_SHARING_MODE_EXCLUSIVE,
                                     .queueFamilyIndexCount = concurrent ? 2 : 0,
                                     .pQueueFamilyIndices = concurrent ? families : NULL};
    return vulkan_device_check(vkCreateBuffer(device->handle, &info, NULL, &buffer->handle),
                               "buffer", error);
}

static enum result allocate(const struct vulkan_device *device, enum vulkan_place place,
                            enum sharing sharing, int fd, struct vulkan_buffer *buffer,
                            struct error_text *error)
{
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device->handle, buffer->handle, &needs);
    const VkMemoryDedicatedAllocateInfo dedicated = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, .buffer = buffer->handle};
    const VkExportMemoryAllocateInfo exported = {.sType =
                                                     VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                                 .pNext = &dedicated,
                                                 .handleTypes = HANDLE_TYPE};
    const VkImportMemoryFdInfoKHR imported = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                              .pNext = &dedicated,
                                              .handleType = HANDLE_TYPE,
                                              .fd = fd};
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .pNext = sharing == EXPORTED ? (const void *)&exported
                                                      : sharing == IMPORTED
                                                          ? (const void *)&imported
                                                          : (const void *)&dedicated,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex =
                                           choose_type(device, place, needs.memoryTypeBits)};
    if (info.memoryTypeIndex == NO_TYPE)
        return error_set(error, RESULT_UNSUPPORTED, "%s has no memory of that kind",
                         device->facts.name);
    enum result result = vulkan_device_check(
        vkAllocateMemory(device->handle, &info, NULL, &buffer->memory), "memory", error);
    if (result == RESULT_OK)
        result = vulkan_device_check(
            vkBindBufferMemory(device->handle, buffer->handle, buffer->memory, 0), "binding",
            error);
    if (result == RESULT_OK && place != VULKAN_DEVICE)
        result = vulkan_device_check(
            vkMapMemory(device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped),
            "mapping", error);
    return result;
}

static enum result create(const struct vulkan_device *device, enum vulkan_place place,
                          enum sharing sharing, int fd, uint64_t bytes, const char *what,
                          struct vulkan_buffer *buffer, struct error_text *error)
{
    struct error_text why = {""};
    *buffer = (struct vulkan_buffer){.bytes = bytes};
    if (bytes == 0 || bytes > device->facts.max_allocation_bytes)
        return error_set(error, RESULT_TOO_LARGE, "%s: %llu bytes; one buffer holds 1 to %llu",
                         what, (unsigned long long)bytes,
                         (unsigned long long)device->facts.max_allocation_bytes);
    enum result result = create_handle(device, bytes, sharing != PRIVATE, buffer, &why);
    if (result == RESULT_OK)
        result = allocate(device, place, sharing, fd, buffer, &why);
    if (result != RESULT_OK) {
        vulkan_buffer_destroy(device, buffer);
        return error_set(error, result, "%s: %llu bytes: %s", what, (unsigned long long)bytes,
                         why.text);
    }
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = buffer->handle};
    buffer->address = vkGetBufferDeviceAddress(device->handle, &info);
    return RESULT_OK;
}

enum result vulkan_buffer_create(const struct vulkan_device *device, enum vulkan_place place,
                                 uint64_t bytes, const char *what, struct vulkan_buffer *buffer,
                                 struct error_text *error)
{
    return create(device, place, PRIVATE, -1, bytes, what, buffer, error);
}

/* A device-local buffer whose memory another process can import. */
static enum result create_shared(const struct vulkan_device *device, uint64_t bytes,
                                 const char *what, struct vulkan_buffer *buffer,
                                 struct error_text *error)
{
    if (!device->facts.external_memory)
        return error_set(error, RESULT_UNSUPPORTED, "%s cannot share memory between processes",
                         device->facts.name);
    return create(device, VULKAN_DEVICE, EXPORTED, -1, bytes, what, buffer, error);
}

enum result vulkan_buffer_export(const struct vulkan_device *device,
                                 const struct vulkan_buffer *buffer, int *fd,
                                 struct error_text *error)
{
    PFN_vkGetMemoryFdKHR get =
        (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(device->handle, "vkGetMemoryFdKHR");
    const VkMemoryGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                       .memory = buffer->memory,
                                       .handleType = HANDLE_TYPE};
    VkResult outcome = get ? get(device->handle, &info, fd) : VK_ERROR_EXTENSION_NOT_PRESENT;
    return vulkan_device_check(outcome, "exporting memory", error);
}

/* The same memory as the exporter's buffer of `bytes`; takes over `fd` only on success. */
static enum result import(const struct vulkan_device *device, int fd, uint64_t bytes,
                          struct vulkan_buffer *buffer, struct error_text *error)
{
    if (!device->facts.external_memory)
        return error_set(error, RESULT_UNSUPPORTED, "%s cannot share memory between processes",
                         device->facts.name);
    return create(device, VULKAN_DEVICE, IMPORTED, fd, bytes, "imported memory", buffer, error);
}

void vulkan_buffer_destroy(const struct vulkan_device *device, struct vulkan_buffer *buffer)
{
    if (buffer->handle)
        vkDestroyBuffer(device->handle, buffer->handle, NULL);
    if (buffer->memory)
        vkFreeMemory(device->handle, buffer->memory, NULL); /* also unmaps */
    *buffer = (struct vulkan_buffer){0};
}

struct vulkan_arena {
    const struct vulkan_device *device;
    uint64_t chunk_bytes;
    uint64_t expected_bytes; /* still to be taken */
    bool shared;
    const int *fds; /* [fd_count], of an imported arena; else NULL */
    uint32_t fd_count;
    struct vulkan_buffer *chunks[VULKAN_ARENA_CHUNKS_MAX];
    uint32_t chunk_count;
    uint64_t used_bytes; /* of the last chunk */
};

struct vulkan_arena *vulkan_arena_create(const struct vulkan_device *device,
                                         uint64_t expected_bytes, bool shared)
{
    struct vulkan_arena *arena = must_alloc(1, sizeof *arena);
    arena->device = device;
    arena->shared = shared;
    arena->expected_bytes = expected_bytes;
    arena->chunk_bytes = CHUNK_BYTES < device->facts.max_allocation_bytes
                             ? CHUNK_BYTES
                             : device->facts.max_allocation_bytes;
    return arena;
}

struct vulkan_arena *vulkan_arena_create_imported(const struct vulkan_device *device,
                                                  uint64_t expected_bytes, const int *fds,
                                                  uint32_t fd_count)
{
    struct vulkan_arena *arena = vulkan_arena_create(device, expected_bytes, true);
    arena->fds = fds;
    arena->fd_count = fd_count;
    return arena;
}

void vulkan_arena_destroy(struct vulkan_arena *arena)
{
    if (!arena)
        return;
    for (uint32_t i = 0; i < arena->chunk_count; i++) {
        vulkan_buffer_destroy(arena->device, arena->chunks[i]);
        free(arena->chunks[i]);
    }
    free(arena);
}

/* Such a file no driver exports, and reading from it could block for ever. */
static bool is_stream(int fd)
{
    struct stat status;
    return fstat(fd, &status) != 0 || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
           S_ISDIR(status.st_mode);
}

/* The driver takes ownership of an imported descriptor, so it gets a duplicate. */
static enum result import_chunk(const struct vulkan_arena *arena, uint64_t bytes,
                                struct vulkan_buffer *chunk, struct error_text *error)
{
    if (arena->chunk_count == arena->fd_count)
        return error_set(error, RESULT_STALE, "more than %u allocations are needed",
                         arena->fd_count);
    if (is_stream(arena->fds[arena->chunk_count]))
        return error_set(error, RESULT_CORRUPT, "a descriptor is not one of memory");
    int fd = fcntl(arena->fds[arena->chunk_count], F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return error_set(error, RESULT_IO, "a descriptor cannot be used: %s", strerror(errno));
    enum result result = import(arena->device, fd, bytes, chunk, error);
    if (result != RESULT_OK)
        close(fd);
    return result;
}

/* Bytes of a chunk that begins with a piece of `bytes`, where `expected` would suit. Pieces of a KV
 * cache are large and of one size, so the chunk holds as many whole ones as fit: of 2 GiB, a piece
 * of 1.2 would waste 0.8. */
static uint64_t chunk_of(uint64_t bytes, uint64_t expected)
{
    uint64_t aligned = (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    uint64_t count = expected / aligned;
    if (count == 0)
        return bytes;
    return count < WHOLE_PIECES ? count * aligned : expected;
}

static enum result add_chunk(struct vulkan_arena *arena, uint64_t bytes, const char *what,
                             struct error_text *error)
{
    if (arena->chunk_count == VULKAN_ARENA_CHUNKS_MAX)
        return error_set(error, RESULT_TOO_LARGE, "%s: over %u allocations", what,
                         VULKAN_ARENA_CHUNKS_MAX);
    struct vulkan_buffer *chunk = must_alloc(1, sizeof *chunk);
    uint64_t expected =
        arena->expected_bytes < arena->chunk_bytes ? arena->expected_bytes : arena->chunk_bytes;
    bytes = chunk_of(bytes, expected);
    enum result result = arena->fds      ? import_chunk(arena, bytes, chunk, error)
                         : arena->shared ? create_shared(arena->device, bytes, what, chunk, error)
                                         : vulkan_buffer_create(arena->device, VULKAN_DEVICE, bytes,
                                                                what, chunk, error);
    if (result != RESULT_OK) {
        free(chunk);
        return result;
    }
    arena->chunks[arena->chunk_count++] = chunk;
    arena->used_bytes = 0;
    return RESULT_OK;
}

enum result vulkan_arena_take(struct vulkan_arena *arena, uint64_t bytes, const char *what,
                              struct vulkan_piece *piece, struct error_text *error)
{
    uint64_t start =
        (arena->used_bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    bool fits = arena->chunk_count > 0 && start <= arena->chunks[arena->chunk_count - 1]->bytes &&
                bytes <= arena->chunks[arena->chunk_count - 1]->bytes - start;
    if (!fits) {
        enum result result = add_chunk(arena, bytes, what, error);
        if (result != RESULT_OK)
            return result;
        start = 0;
    }
    const struct vulkan_buffer *chunk = arena->chunks[arena->chunk_count - 1];
    *piece = (struct vulkan_piece){chunk, start, bytes, chunk->address + start};
    uint64_t taken_bytes = start + bytes - arena->used_bytes;
    arena->expected_bytes -=
        taken_bytes < arena->expected_bytes ? taken_bytes : arena->expected_bytes;
    arena->used_bytes = start + bytes;
    return RESULT_OK;
}

uint32_t vulkan_arena_chunk_count(const struct vulkan_arena *arena)
{
    return arena->chunk_count;
}

const struct vulkan_buffer *vulkan_arena_chunk(const struct vulkan_arena *arena, uint32_t index)
{
    must(index < arena->chunk_count);
    return arena->chunks[index];
}
