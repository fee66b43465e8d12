/*
 * NVFP4 keeps its codes and scales; only their order changes. Products of a table's number and a
 * scale need up to 48 bits; bitsandbytes computes them in f32 and rounds them to the model's type,
 * nearest and ties to even. The same is done here, so the values are the publisher's bit for bit.
 *
 * Sources: compressed-tensors, nvfp4 (decompress); ModelOpt, NVFP4QTensor.dequantize; bitsandbytes,
 * functional.dequantize_4bit.
 */
#include "worker/plan/weight_nibbles.h"

#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/weight_fp8.h"

#define NVFP4_GROUP 16u

static float load_f32(const uint8_t *floats, uint64_t index)
{
    float value;
    memcpy(&value, floats + 4 * index, sizeof value);
    return value;
}

static uint8_t *store(enum ggml_type type, float value, uint8_t *out)
{
    if (type == GGML_F32) {
        memcpy(out, &value, sizeof value);
        return out + sizeof value;
    }
    must(type == GGML_BF16 || type == GGML_F16);
    uint16_t half = type == GGML_F16 ? ggml_f32_to_f16(value) : weight_fp8_round(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
    return out + 2;
}

enum ggml_type weight_nvfp4_type(const struct weight_source *source, uint64_t rows,
                                 uint64_t columns)
{
    (void)source;
    (void)rows;
    (void)columns;
    return GGML_NVFP4;
}

/* Blocks of 32 columns: the factor, negative if it divides; two scales; the low nibbles are the first
 * half. */
static void read_nvfp4(const struct weight_source *source, uint32_t columns,
                       struct weight_span span, uint8_t *out)
{
    const uint8_t *row = source->data + span.row * source->row_bytes;
    const uint8_t *scales = source->scales + span.row * (columns / NVFP4_GROUP);
    float factor = source->factor_divides ? -source->factor : source->factor;
    for (uint32_t c = span.first; c < span.first + span.count; c += WEIGHT_SOURCE_BLOCK) {
        memcpy(out, &factor, sizeof factor);
        memcpy(out + 4, scales + c / NVFP4_GROUP, 2);
        out += 6;
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t low = row[(c + i) / 2] >> (i % 2 * 4) & 15;
            uint32_t high = row[(c + 16 + i) / 2] >> (i % 2 * 4) & 15;
            *out++ = (uint8_t)(low | high << 4);
        }
    }
}

static float table4_scale(const struct weight_source *source, uint64_t index)
{
    const struct weight_nested_scales *nested = &source->nested;
    if (!nested->map)
        return load_f32(source->scales, index);
    float inner = load_f32(nested->map, source->scales[index]) *
                  load_f32(nested->outer, index / nested->block);
    return inner + nested->offset;
}

static void read_table4(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out)
{
    uint64_t first = span.row * columns + span.first, scaled = UINT64_MAX;
    float scale = 0.0f;
    for (uint64_t i = first; i < first + span.count; i++) {
        if (i / source->group != scaled) {
            scaled = i / source->group;
            scale = table4_scale(source, scaled);
        }
        uint32_t nibble = source->data[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
        out = store(source->type, load_f32(source->table, nibble) * scale, out);
    }
}

void weight_nibbles_read(const struct weight_source *source, uint32_t columns,
                         struct weight_span span, uint8_t *out)
{
    if (source->layout == WEIGHT_NVFP4)
        read_nvfp4(source, columns, span, out);
    else
        read_table4(source, columns, span, out);
}
