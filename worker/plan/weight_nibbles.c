/*
 * NVFP4 keeps its codes and scales; only their order changes. So does bitsandbytes' NF4 and FP4, with
 * scales in f32, which are computed from two factors and an offset where they are quantized. Products of a
 * table's number and a scale need up to 48 bits; bitsandbytes computes them in f32 and rounds them to the
 * model's type, nearest and ties to even. Blocks that cannot be kept are converted so.
 *
 * Sources: the gguf Python package, quants.py (NVFP4); compressed-tensors, nvfp4 (decompress); ModelOpt, NVFP4QTensor.dequantize; bitsandbytes,
 * functional.dequantize_4bit.
 */
#include "worker/plan/weight_nibbles.h"

#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/weight_fp8.h"

#define NVFP4_GROUP 16u
#define GGUF_BLOCK  64u /* columns */
#define GGUF_BYTES  36u
#define GGUF_SCALES 4u

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
    if (source->layout == WEIGHT_NVFP4)
        return GGML_NVFP4;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t b = 0; b < columns / GGUF_BLOCK; b++)
            for (uint32_t s = 0; s < GGUF_SCALES; s++)
                if (source->data[row * source->row_bytes + b * GGUF_BYTES + s] & 0x80)
                    return GGML_F32;
    return GGML_NVFP4;
}

/* 32 columns of a row of either layout. */
struct nvfp4_block {
    float factor; /* negative if it divides */
    uint8_t scales[2];
    uint8_t codes[WEIGHT_SOURCE_BLOCK];
};

static struct nvfp4_block load_folder(const struct weight_source *source, uint64_t row,
                                      uint32_t columns, uint32_t column)
{
    struct nvfp4_block block = {.factor =
                                    source->factor_divides ? -source->factor : source->factor};
    const uint8_t *at = source->data + row * source->row_bytes;
    memcpy(block.scales, source->scales + row * (columns / NVFP4_GROUP) + column / NVFP4_GROUP, 2);
    for (uint32_t i = 0; i < WEIGHT_SOURCE_BLOCK; i++)
        block.codes[i] = at[(column + i) / 2] >> (i % 2 * 4) & 15;
    return block;
}

/* The scale byte 0x7f means 0. */
static struct nvfp4_block load_gguf(const struct weight_source *source, uint64_t row,
                                    uint32_t column)
{
    struct nvfp4_block block = {.factor = 1.0f};
    const uint8_t *at =
        source->data + row * source->row_bytes + (uint64_t)(column / GGUF_BLOCK) * GGUF_BYTES;
    const uint32_t first = column % GGUF_BLOCK / NVFP4_GROUP; /* of the block's scales */
    if (source->table)
        block.factor = load_f32(source->table, row / source->block_rows);
    for (uint32_t s = 0; s < 2; s++)
        block.scales[s] = at[first + s] == 0x7f ? 0 : at[first + s];
    for (uint32_t i = 0; i < WEIGHT_SOURCE_BLOCK; i++)
        block.codes[i] =
            at[GGUF_SCALES + 8 * (first + i / NVFP4_GROUP) + i % 8] >> (i % NVFP4_GROUP / 8 * 4) &
            15;
    return block;
}

static uint8_t *write_nvfp4(const struct nvfp4_block *block, uint8_t *out)
{
    memcpy(out, &block->factor, sizeof block->factor);
    memcpy(out + 4, block->scales, 2);
    for (uint32_t i = 0; i < 16; i++)
        out[6 + i] = (uint8_t)(block->codes[i] | block->codes[16 + i] << 4);
    return out + 22;
}

/* Of GGUF, whose scales have no sign. */
static uint8_t *write_floats(const struct nvfp4_block *block, uint8_t *out)
{
    static const int8_t numbers[16] = {GGML_E2M1_NUMBERS};
    for (uint32_t i = 0; i < WEIGHT_SOURCE_BLOCK; i++, out += sizeof(float)) {
        uint8_t byte = block->scales[i / NVFP4_GROUP];
        float size = byte == 0xff ? 480.0f : ggml_e4m3_to_f32(byte & 0x7f);
        float value = 0.5f * size * (float)numbers[block->codes[i]] * block->factor;
        memcpy(out, &value, sizeof value);
    }
    return out;
}

static void read_nvfp4(const struct weight_source *source, uint32_t columns,
                       struct weight_span span, uint8_t *out)
{
    for (uint32_t c = span.first; c < span.first + span.count; c += WEIGHT_SOURCE_BLOCK) {
        struct nvfp4_block block = source->layout == WEIGHT_NVFP4
                                       ? load_folder(source, span.row, columns, c)
                                       : load_gguf(source, span.row, c);
        out = source->type == GGML_NVFP4 ? write_nvfp4(&block, out) : write_floats(&block, out);
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

enum ggml_type weight_table4_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns)
{
    static const float nf4[16] = {GGML_NF4_NUMBERS}, fp4[16] = {GGML_FP4_NUMBERS};
    const uint32_t block = ggml_type_block(GGML_NF4_64).elements;
    (void)rows;
    if (columns % block != 0 || source->group % block != 0)
        return source->scale_type;
    if (memcmp(source->table, nf4, sizeof nf4) == 0)
        return GGML_NF4_64;
    return memcmp(source->table, fp4, sizeof fp4) == 0 ? GGML_FP4_64 : source->scale_type;
}

/* A block's scale, then its nibbles, the low ones first. */
static void read_table4_blocks(const struct weight_source *source, uint32_t columns,
                               struct weight_span span, uint8_t *out)
{
    const struct ggml_block block = ggml_type_block(source->type);
    must(span.first % block.elements == 0 && span.count % block.elements == 0);
    uint64_t at = span.row * columns + span.first, end = at + span.count;
    for (; at < end; at += block.elements, out += block.bytes) {
        float scale = table4_scale(source, at / source->group);
        memcpy(out, &scale, sizeof scale);
        for (uint32_t i = 0; i < block.elements / 2; i++) {
            uint8_t byte = source->data[at / 2 + i];
            out[sizeof scale + i] = (uint8_t)(byte >> 4 | byte << 4);
        }
    }
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
    if (source->layout == WEIGHT_TABLE4 && source->type != source->scale_type)
        read_table4_blocks(source, columns, span, out);
    else if (source->layout == WEIGHT_TABLE4)
        read_table4(source, columns, span, out);
    else
        read_nvfp4(source, columns, span, out);
}
