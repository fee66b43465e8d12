/*
 * Products of a table's number and a scale need up to 48 bits; the publishers' code computes them
 * in f32 and rounds them to the model's type, nearest and ties to even. The same is done here, so
 * the values are theirs bit for bit.
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

static void read_nvfp4(const struct weight_source *source, uint32_t columns,
                       struct weight_span span, uint8_t *out)
{
    static const float numbers[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const uint8_t *row = source->data + span.row * source->row_bytes;
    const uint8_t *scales = source->scales + span.row * (columns / NVFP4_GROUP);
    for (uint32_t c = span.first; c < span.first + span.count; c++) {
        float scale = ggml_e4m3_to_f32(scales[c / NVFP4_GROUP]);
        scale = source->factor_divides ? scale / source->factor : scale * source->factor;
        out = store(source->type, numbers[row[c / 2] >> (c % 2 * 4) & 15] * scale, out);
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
