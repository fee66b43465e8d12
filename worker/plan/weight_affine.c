/*
 * Groups with scale and bias as blocks with scale and minimum.
 *
 * A group is 32, 64 or 128 columns. Its codes keep their bits: A2_64 to A8_64, A4_128, and in blocks of
 * 32 columns A2, A3, Q4_1, Q5_1, A6 and A8.
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

#define BLOCK        WEIGHT_SOURCE_BLOCK
#define COLUMNS_MOST 128u /* of a block */

/* Columns with one scale and bias in the type. */
struct block {
    float scale;
    float bias;
    uint32_t columns;
    uint8_t codes[COLUMNS_MOST];
};

static void load_terms(const struct weight_source *source, uint64_t group, struct block *block)
{
    block->scale = weight_layout_float(source, source->scales, group);
    block->bias = weight_layout_float(source, source->biases, group);
}

/* 32 codes are `bits` words, so a block begins at a byte. */
static const uint8_t *stored_codes(const struct weight_source *source, uint64_t row,
                                   uint64_t column)
{
    return source->data + row * source->row_bytes + column / 8 * source->bits;
}

static void load_codes(const struct weight_source *source, uint64_t row, uint64_t column,
                       struct block *block)
{
    const uint8_t *at = stored_codes(source, row, column);
    uint32_t mask = (1u << source->bits) - 1;
    for (uint32_t i = 0; i < block->columns; i++) {
        uint32_t bit = i * source->bits;
        uint32_t code = (uint32_t)at[bit / 8] >> (bit % 8);
        if (bit % 8 + source->bits > 8)
            code |= (uint32_t)at[bit / 8 + 1] << (8 - bit % 8);
        block->codes[i] = (uint8_t)(code & mask);
    }
}

static bool holds_one_number(const struct block *block)
{
    for (uint32_t i = 1; i < block->columns; i++)
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
    for (uint64_t c = column; c < column + source->group; c += block->columns) {
        load_codes(source, row, c, block);
        settle(block);
        if (!has_half_terms(block))
            return false;
        *block = terms;
    }
    return true;
}

/* Whether every block of so many columns has terms that f16 holds. */
static bool blocks_fit(const struct weight_source *source, uint64_t rows, uint64_t columns,
                       uint32_t block_columns)
{
    uint64_t groups = columns / source->group;
    struct block block = {.columns = block_columns};
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t g = 0; g < groups; g++) {
            load_terms(source, row * groups + g, &block);
            if (!group_fits(source, row, g * source->group, &block))
                return false;
        }
    }
    return true;
}

/* The type whose blocks are the largest that divide a group. */
static enum ggml_type group_type(const struct weight_source *source)
{
    if (source->group % 64 != 0)
        return GGML_TYPE_END;
    switch (source->bits) {
    case 2: return GGML_A2_64;
    case 3: return GGML_A3_64;
    case 4: return source->group % 128 == 0 ? GGML_A4_128 : GGML_A4_64;
    case 5: return GGML_A5_64;
    case 6: return GGML_A6_64;
    case 8: return GGML_A8_64;
    default: return GGML_TYPE_END;
    }
}

static enum ggml_type block_type(uint32_t bits)
{
    switch (bits) {
    case 2: return GGML_A2;
    case 3: return GGML_A3;
    case 4: return GGML_Q4_1;
    case 5: return GGML_Q5_1;
    case 6: return GGML_A6;
    default: return GGML_A8;
    }
}

enum ggml_type weight_affine_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns)
{
    enum ggml_type type = group_type(source);
    if (type != GGML_TYPE_END && blocks_fit(source, rows, columns, ggml_type_block(type).elements))
        return type;
    if (!blocks_fit(source, rows, columns, BLOCK))
        return GGML_F32;
    return block_type(source->bits);
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
    for (uint32_t i = 0; i < block->columns; i++, out += sizeof(float)) {
        float value = number(block, i);
        memcpy(out, &value, sizeof value);
    }
    return out;
}

/* Whether a block's codes are those of the checkpoint, byte for byte (GGML_IS_GROUP()). */
static bool keeps_stream(enum ggml_type type)
{
    return type != GGML_Q4_1 && type != GGML_Q5_1 && type != GGML_A8;
}

/* Q4_1, Q5_1, A8. */
static uint8_t *write_codes(enum ggml_type type, const struct block *block, uint8_t *out)
{
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
    struct block block = {.columns = BLOCK};
    if (source->type != GGML_F32)
        block.columns = ggml_type_block(source->type).elements;
    must(span.first % block.columns == 0 && span.count % block.columns == 0);
    for (uint32_t c = span.first; c < span.first + span.count; c += block.columns) {
        load_terms(source, span.row * groups + c / source->group, &block);
        load_codes(source, span.row, c, &block);
        if (source->type == GGML_F32) {
            out = write_f32(&block, out);
            continue;
        }
        uint32_t code_bytes = block.columns / 8 * source->bits;
        bool constant = !has_half_terms(&block);
        settle(&block);
        store_half(out, block.scale);
        store_half(out + 2, block.bias);
        out += 4;
        if (!keeps_stream(source->type)) {
            out = write_codes(source->type, &block, out);
            continue;
        }
        if (constant)
            memset(out, 0, code_bytes);
        else
            memcpy(out, stored_codes(source, span.row, c), code_bytes);
        out += code_bytes;
    }
}
