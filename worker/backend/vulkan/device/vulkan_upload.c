/*
 * Double buffering: the fence of a staging buffer is waited for when the buffer is used again, so
 * the host fills one buffer while the device copies the other.
 */
#include "worker/backend/vulkan/device/vulkan_upload.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define TURNS           2u
#define COPY_TIMEOUT_MS 60000u

struct turn {
    struct vulkan_buffer staging;
    struct vulkan_commands *commands;
    bool in_flight;
};

struct vulkan_upload {
    const struct vulkan_device *device;
    struct turn turns[TURNS];
    uint32_t claimed; /* index of the turn */
    bool is_claimed;
};

enum result vulkan_upload_create(const struct vulkan_device *device, uint64_t staging_bytes,
                                 struct vulkan_upload **created, struct error_text *error)
{
    struct vulkan_upload *upload = must_alloc(1, sizeof *upload);
    upload->device = device;
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < TURNS && result == RESULT_OK; i++) {
        struct turn *turn = &upload->turns[i];
        result = vulkan_buffer_create(device, VULKAN_READBACK, staging_bytes, "staging",
                                      &turn->staging, error);
        if (result == RESULT_OK)
            result =
                vulkan_commands_create(device, VULKAN_QUEUE_TRANSFER, 0, &turn->commands, error);
    }
    if (result != RESULT_OK) {
        vulkan_upload_destroy(upload);
        return result;
    }
    *created = upload;
    return RESULT_OK;
}

void vulkan_upload_destroy(struct vulkan_upload *upload)
{
    if (!upload)
        return;
    for (uint32_t i = 0; i < TURNS; i++) {
        vulkan_commands_destroy(upload->turns[i].commands);
        vulkan_buffer_destroy(upload->device, &upload->turns[i].staging);
    }
    free(upload);
}

static enum result land(const struct vulkan_upload *upload, struct turn *turn,
                        struct error_text *error)
{
    if (!turn->in_flight)
        return RESULT_OK;
    uint32_t limit_ms = COPY_TIMEOUT_MS * vulkan_device_time_factor(upload->device);
    enum result result = vulkan_commands_wait(turn->commands, limit_ms, error);
    turn->in_flight = result != RESULT_OK;
    return result;
}

enum result vulkan_upload_claim(struct vulkan_upload *upload, void **staging,
                                struct error_text *error)
{
    must(!upload->is_claimed);
    struct turn *turn = &upload->turns[upload->claimed];
    enum result result = land(upload, turn, error);
    if (result == RESULT_OK)
        result = vulkan_commands_begin(turn->commands, error);
    if (result != RESULT_OK)
        return result;
    upload->is_claimed = true;
    *staging = turn->staging.mapped;
    return RESULT_OK;
}

void vulkan_upload_copy(struct vulkan_upload *upload, uint64_t staging_offset,
                        const struct vulkan_buffer *target, uint64_t target_offset, uint64_t bytes)
{
    must(upload->is_claimed);
    struct turn *turn = &upload->turns[upload->claimed];
    if (bytes > 0)
        vulkan_commands_copy(turn->commands, &turn->staging, staging_offset, target, target_offset,
                             bytes);
}

enum result vulkan_upload_commit(struct vulkan_upload *upload, struct error_text *error)
{
    must(upload->is_claimed);
    struct turn *turn = &upload->turns[upload->claimed];
    upload->is_claimed = false;
    upload->claimed = (upload->claimed + 1) % TURNS;
    enum result result = vulkan_commands_end(turn->commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_submit(turn->commands, error);
    turn->in_flight = result == RESULT_OK;
    return result;
}

enum result vulkan_upload_finish(struct vulkan_upload *upload, struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < TURNS && result == RESULT_OK; i++)
        result = land(upload, &upload->turns[i], error);
    return result;
}

enum result vulkan_upload_bytes(struct vulkan_upload *upload, const void *bytes,
                                uint64_t byte_count, const struct vulkan_buffer *target,
                                uint64_t target_offset, struct error_text *error)
{
    enum result result = RESULT_OK;
    uint64_t staging_bytes = upload->turns[0].staging.bytes;
    for (uint64_t done = 0; done < byte_count && result == RESULT_OK;) {
        uint64_t left = byte_count - done;
        uint64_t part = left < staging_bytes ? left : staging_bytes;
        void *staging;
        result = vulkan_upload_claim(upload, &staging, error);
        if (result != RESULT_OK)
            break;
        memcpy(staging, (const uint8_t *)bytes + done, part);
        vulkan_upload_copy(upload, 0, target, target_offset + done, part);
        result = vulkan_upload_commit(upload, error);
        done += part;
    }
    return result;
}
