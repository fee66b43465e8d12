/*
 * One group of layers at a time: its rows are made once on the host and copied repeatedly, because
 * only their addresses matter to a device's caches.
 */
#include "tests/support/vulkan_kv_noise.h"

#include "proto/must.h"
#include "tests/support/kv_noise.h"
#include "worker/backend/vulkan/device/vulkan_upload.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

#define SIDES 4096u /* of a head, keys or values, that differ */

/* A group's keys or values. */
struct noise_side {
    uint64_t bytes;  /* of a head in a block */
    uint64_t offset; /* of those that differ, in the staging buffer */
    uint64_t count;  /* in a layer's region */
};

struct noise_group {
    const struct vulkan_program *program;
    uint32_t group;
    struct noise_side keys, values;
};

static struct noise_group measure_group(const struct vulkan_program *program, uint32_t g,
                                        uint32_t blocks)
{
    const struct kv_layout *layout = &program->plan->kv;
    const struct kv_group *group = &layout->groups[g];
    uint64_t full = (uint64_t)KV_BLOCK_TOKENS * group->head_dim * sizeof(uint16_t);
    struct noise_group noise = {.program = program, .group = g};
    noise.keys.bytes = noise.values.bytes = full;
    if (group->quantized) {
        noise.keys.bytes = kv_codec_key_bytes(&layout->quantization, group->head_dim);
        noise.values.bytes = kv_codec_value_bytes(&layout->quantization, group->head_dim);
    }
    noise.keys.count = noise.values.count = (uint64_t)blocks * group->kv_heads;
    noise.values.offset = SIDES * noise.keys.bytes;
    return noise;
}

static void make_rows(const struct noise_group *noise, uint8_t *staging)
{
    const struct kv_layout *layout = &noise->program->plan->kv;
    const struct kv_group *group = &layout->groups[noise->group];
    uint8_t *values = staging + noise->values.offset;
    if (!group->quantized) {
        kv_noise_halves(group->head_dim, KV_NOISE_KEYS, SIDES, (uint16_t *)(void *)staging);
        kv_noise_halves(group->head_dim, KV_NOISE_VALUES, SIDES, (uint16_t *)(void *)values);
        return;
    }
    struct kv_codec codec;
    kv_codec_init(&codec, &layout->quantization, group->head_dim);
    kv_noise_codes(&codec.key, KV_NOISE_KEYS, SIDES, staging);
    kv_noise_codes(&codec.value, KV_NOISE_VALUES, SIDES, values);
    kv_codec_fini(&codec);
}

/* The region at `address`, which is inside one buffer of the cache. */
static void copy_region(const struct noise_group *noise, const struct noise_side *side,
                        uint64_t address, struct vulkan_upload *upload)
{
    const struct vulkan_arena *arena = noise->program->kv_memory;
    for (uint32_t i = 0; i < vulkan_arena_chunk_count(arena); i++) {
        const struct vulkan_buffer *buffer = vulkan_arena_chunk(arena, i);
        if (address < buffer->address || address >= buffer->address + buffer->bytes)
            continue;
        for (uint64_t done = 0; done < side->count; done += SIDES) {
            uint64_t left = side->count - done;
            vulkan_upload_copy(upload, side->offset, buffer,
                               address - buffer->address + done * side->bytes,
                               (left < SIDES ? left : SIDES) * side->bytes);
        }
        return;
    }
    must(false);
}

static void copy_layers(const struct noise_group *noise, struct vulkan_upload *upload)
{
    const struct vulkan_program *program = noise->program;
    const struct kv_layout *layout = &program->plan->kv;
    for (uint32_t l = 0; l < layout->layer_count; l++) {
        uint32_t group = layout->layer_group[l];
        if (group == KV_GROUP_NONE || program->kv[l].keys == 0)
            continue; /* no cache, or shared with an earlier layer */
        const struct vulkan_kv_layer *layer = NULL;
        if (group == noise->group)
            layer = &program->kv[l];
        else if (kv_layout_opening(layout, group) == noise->group)
            layer = &program->openings[l];
        if (!layer)
            continue;
        copy_region(noise, &noise->keys, layer->keys, upload);
        copy_region(noise, &noise->values, layer->values, upload);
    }
}

static enum result fill_group(const struct noise_group *noise, struct error_text *error)
{
    struct vulkan_upload *upload = NULL;
    void *staging;
    enum result result = vulkan_upload_create(
        noise->program->device, SIDES * (noise->keys.bytes + noise->values.bytes), &upload, error);
    if (result == RESULT_OK)
        result = vulkan_upload_claim(upload, &staging, error);
    if (result == RESULT_OK) {
        make_rows(noise, staging);
        copy_layers(noise, upload);
        result = vulkan_upload_commit(upload, error);
    }
    if (result == RESULT_OK)
        result = vulkan_upload_finish(upload, error);
    vulkan_upload_destroy(upload);
    return result;
}

enum result vulkan_kv_noise_fill(const struct vulkan_program *program, const uint32_t *kv_blocks,
                                 struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t g = 0; g < program->plan->kv.group_count && result == RESULT_OK; g++) {
        const struct noise_group noise = measure_group(program, g, kv_blocks[g]);
        result = fill_group(&noise, error);
    }
    return result;
}
