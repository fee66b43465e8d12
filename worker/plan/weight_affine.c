/*
 * Groups with scale and bias as blocks with scale and minimum.
 *
 * A group is 32, 64 or 128 columns: one, two or four blocks with the same scale and bias. Codes of
 * up to four bits become Q4_1, five Q5_1, six and eight A8; smaller codes are small numbers there.
 * Scales are BF16 in nearly every such checkpoint, in blocks they are f16. f16 holds a BF16 number
 * exactly from 2^-17 up, which covers scales and biases of real weights, except in groups of equal
 * numbers (rows of a vocabulary that were never trained), whose scale has no effect: such a block
 * gets its number as the minimum and a scale of 0. A matrix with any other block that does not fit
 * becomes F32.
 *
 * Source: MLX, its documentation of quantize() and dequantize(): codes lie from the lowest bit up,
 * in one stream of bits a row.
 */
#include "worker/plan/weight_affine.h"

#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"

#define BLOCK WEIGHT_SOURCE_BLOCK

struct block {
    float scale;
    float bias;
    uint8_t codes[BLOCK];
};

static void load_terms(const struct weight_source *source, uint64_t group, struct block *block)
{
    block->scale = weight_layout_float(source, source->scales, group);
    block->bias = weight_layout_float(source, source->biases, group);
}

/* 32 codes are `bits` words, so a block begins at a byte. */
static void load_codes(const struct weight_source *source, uint64_t row, uint64_t column,
                       struct block *block)
{
    const uint8_t *at = source->data + row * source->row_bytes + column / 8 * source->bits;
    uint32_t mask = (1u << source->bits) - 1;
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t bit = i * source->bits;
        uint32_t code = (uint32_t)at[bit / 8] >> (bit % 8);
        if (bit % 8 + source->bits > 8)
            code |= (uint32_t)at[bit / 8 + 1] << (8 - bit % 8);
        block->codes[i] = (uint8_t)(code & mask);
    }
}

static bool holds_one_number(const struct block *block)
{
    for (uint32_t i = 1; i < BLOCK; i++)
        if (block->codes[i] != block->codes[0])
            return false;
    return true;
}

static float number(const struct block *block, uint32_t i)
{
    return block->scale * (float)block->codes[i] + block->bias;
}

static bool has_half_terms(const struct block *block)
{
    return ggml_half_holds(block->scale) && ggml_half_holds(block->bias);
}

/* The block's number, when it is one, becomes its bias. */
static void settle(struct block *block)
{
    if (has_half_terms(block) || !holds_one_number(block))
        return;
    block->bias = number(block, 0);
    block->scale = 0.0f;
    memset(block->codes, 0, sizeof block->codes);
}

static bool group_fits(const struct weight_source *source, uint64_t row, uint64_t column,
                       struct block *block)
{
    if (has_half_terms(block))
        return true;
    struct block terms = *block;
    for (uint64_t c = column; c < column + source->group; c += BLOCK) {
        load_codes(source, row, c, block);
        settle(block);
        if (!has_half_terms(block))
            return false;
        *block = terms;
    }
    return true;
}

enum ggml_type weight_affine_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns)
{
    uint64_t groups = columns / source->group;
    struct block block = {.codes = {0}};
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t g = 0; g < groups; g++) {
            load_terms(source, row * groups + g, &block);
            if (!group_fits(source, row, g * source->group, &block))
                return GGML_F32;
        }
    }
    return source->bits <= 4 ? GGML_Q4_1 : source->bits == 5 ? GGML_Q5_1 : GGML_A8;
}

/* --- blocks of the types handed out ----------------------------------------------------------- */

static void store_half(uint8_t *out, float value)
{
    uint16_t half = ggml_f32_to_f16(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

static uint8_t *write_f32(const struct block *block, uint8_t *out)
{
    for (uint32_t i = 0; i < BLOCK; i++, out += sizeof(float)) {
        float value = number(block, i);
        memcpy(out, &value, sizeof value);
    }
    return out;
}

static uint8_t *write_quantized(enum ggml_type type, struct block *block, uint8_t *out)
{
    settle(block);
    store_half(out, block->scale);
    out += 2;
    store_half(out, block->bias);
    out += 2;
    if (type == GGML_A8) {
        memcpy(out, block->codes, BLOCK);
        return out + BLOCK;
    }
    if (type == GGML_Q5_1) {
        memset(out, 0, 4);
        for (uint32_t i = 0; i < BLOCK; i++)
            out[i / 8] = (uint8_t)(out[i / 8] | (block->codes[i] >> 4) << (i % 8));
        out += 4;
    }
    for (uint32_t i = 0; i < 16; i++)
        out[i] = (uint8_t)((block->codes[i] & 15) | (block->codes[16 + i] & 15) << 4);
    return out + 16;
}

void weight_affine_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out)
{
    uint64_t groups = columns / source->group;
    struct block block;
    for (uint32_t c = span.first; c < span.first + span.count; c += BLOCK) {
        load_terms(source, span.row * groups + c / source->group, &block);
        load_codes(source, span.row, c, &block);
        if (source->type == GGML_F32)
            out = write_f32(&block, out);
        else
            out = write_quantized(source->type, &block, out);
    }
}
