/*
 * Levels depend on head size and bits alone, so keys and values share them. Matrices are stored so
 * that invocations for neighbouring elements of a rotated row read neighbouring numbers: a matrix
 * that applies a rotation is stored transposed, the one that inverts it as the rotation itself.
 */
#include "worker/backend/vulkan/weights/vulkan_kv_tables.h"

#include <string.h>

#include "proto/must.h"

static uint32_t rotation_numbers(uint32_t head_dim)
{
    bool hadamard = (head_dim & (head_dim - 1)) == 0;
    return hadamard ? 2 * head_dim : VULKAN_KV_TURNS * head_dim * head_dim;
}

uint64_t vulkan_kv_tables_bytes(uint32_t head_dim)
{
    return sizeof(struct vulkan_kv_tables) + rotation_numbers(head_dim) * sizeof(float);
}

static void fill_levels(struct vulkan_kv_tables *tables, const struct kv_side *side)
{
    for (uint32_t i = 0; i < side->segment_count; i++) {
        const struct kv_codebook *codebook = &side->codebooks[side->segments[i].codebook];
        memcpy(tables->levels[codebook->bits - 1], codebook->levels, sizeof codebook->levels);
        memcpy(tables->bounds[codebook->bits - 1], codebook->bounds, sizeof codebook->bounds);
    }
}

static void transpose(const float *matrix, uint32_t dim, float *out)
{
    for (uint32_t r = 0; r < dim; r++)
        for (uint32_t d = 0; d < dim; d++)
            out[(size_t)d * dim + r] = matrix[(size_t)r * dim + d];
}

void vulkan_kv_tables_fill(struct vulkan_kv_tables *tables, const struct kv_codec *codec)
{
    const struct kv_rotation *keys = &codec->key.rotation, *values = &codec->value.rotation;
    const uint32_t dim = codec->key.head_dim;
    must(codec->key.rotated && codec->value.rotated);
    memset(tables, 0, sizeof *tables);
    fill_levels(tables, &codec->key);
    fill_levels(tables, &codec->value);
    if (keys->signs) {
        memcpy(tables->rotations, keys->signs, dim * sizeof(float));
        memcpy(tables->rotations + dim, values->signs, dim * sizeof(float));
        return;
    }
    const size_t size = (size_t)dim * dim;
    transpose(keys->matrix, dim, tables->rotations + VULKAN_KV_TURN_KEYS * size);
    transpose(values->matrix, dim, tables->rotations + VULKAN_KV_TURN_VALUES * size);
    memcpy(tables->rotations + VULKAN_KV_TURN_BACK * size, values->matrix, size * sizeof(float));
}
