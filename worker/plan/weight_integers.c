/*
 * Integers with zero points as blocks with one scale.
 *
 * Codes of up to four bits in groups of 64 n or 128 n columns keep their zero points: Z4_64, Z4_128.
 * So do those in groups of 32 n columns whose zero points differ: Z4. Others become blocks of 32 columns
 * with one scale.
 *
 * The difference of code and zero point is an integer of one bit more than the code. It becomes the
 * code of the smallest type that holds it, and the scale stays what it is, so no value is rounded:
 *
 *   zero point 2^(bits - 1) everywhere     Q4_0 to 4 bits, Q5_0 for 5, Q8_0 for 6 to 8
 *   any zero points                        Q4_0 to 3 bits, Z4 for 4, Q8_0 for 5 to 7; for 8 Q8_0
 *                                          if every difference fits, otherwise Z8
 *
 * F32 holds scales that f16 cannot hold. A block of equal numbers whose scale does not fit gets its number
 * as the scale and codes of 1. If columns are in another order than their groups (act-order), so that the
 * 32 columns of a block have different scales, values are floats of the scales' type, rounded as the
 * publisher's product of such scales rounds them.
 *
 * Sources: AutoAWQ, awq/utils/packing_utils.py; AutoGPTQ, qlinear_cuda_old.py (the zero point of
 * format "gptq" is stored less 1 and wraps at the code's range); compressed-tensors,
 * pack_quantized.
 */
#include "worker/plan/weight_integers.h"

#include <stdbool.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/weight_fp8.h"

#define BLOCK WEIGHT_SOURCE_BLOCK

#define COLUMNS_MOST 128u /* of a block */

struct block {
    float scale;
    uint32_t zero;
    uint32_t columns;
    int16_t numbers[COLUMNS_MOST]; /* code - zero */
};

/* --- reading ---------------------------------------------------------------------------------- */

static uint32_t load_word(const uint8_t *words, uint64_t index)
{
    const uint8_t *at = words + 4 * index;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Number `index` of `bits` bits in a stream whose words are `stride` words apart. */
static uint32_t load_bits(const uint8_t *words, uint64_t stride, uint64_t index, uint32_t bits)
{
    uint64_t bit = index * bits, word = bit / 32 * stride;
    uint32_t shift = bit % 32;
    uint32_t value = load_word(words, word) >> shift;
    if (shift + bits > 32)
        value |= load_word(words, word + stride) << (32 - shift);
    return value & ((1u << bits) - 1);
}

/* The nibble of row i, of eight. */
static uint32_t load_awq(const uint8_t *words, uint64_t first_word, uint64_t row)
{
    static const uint8_t awq_places[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return load_word(words, first_word + row / 8) >> (4 * awq_places[row % 8]) & 15;
}

static uint64_t count_groups(const struct weight_source *source, uint64_t columns)
{
    return (columns + source->group - 1) / source->group;
}

static uint64_t group_of(const struct weight_source *source, uint64_t columns, uint64_t column)
{
    if (!source->groups)
        return column / source->group;
    uint32_t group = load_word(source->groups, column);
    return group < count_groups(source, columns) ? group : 0;
}

static uint32_t load_code(const struct weight_source *source, uint64_t row, uint64_t column)
{
    uint64_t rows = source->block_rows;
    switch (source->layout) {
    case WEIGHT_PACKED:
        return load_bits(source->data + row * source->row_bytes, 1, column, source->bits);
    case WEIGHT_AWQ: return load_awq(source->data, column * (rows / 8), row);
    default: return load_bits(source->data + 4 * row, rows, column, source->bits);
    }
}

static uint32_t load_zero(const struct weight_source *source, uint64_t groups, uint64_t row,
                          uint64_t group)
{
    uint64_t rows = source->block_rows;
    if (!source->zeros)
        return 1u << (source->bits - 1);
    switch (source->layout) {
    case WEIGHT_PACKED: return load_bits(source->zeros + 4 * group, groups, row, source->bits);
    case WEIGHT_AWQ: return load_awq(source->zeros, group * (rows / 8), row);
    default: break;
    }
    uint64_t words = rows * source->bits / 32;
    uint32_t stored = load_bits(source->zeros + 4 * group * words, 1, row, source->bits);
    return (stored + source->zero_step) & ((1u << source->bits) - 1);
}

static float load_scale(const struct weight_source *source, uint64_t groups, uint64_t row,
                        uint64_t group)
{
    uint64_t index =
        source->layout == WEIGHT_PACKED ? row * groups + group : group * source->block_rows + row;
    return weight_layout_float(source, source->scales, index);
}

/* block->columns columns of one group. */
static void load_block(const struct weight_source *source, uint64_t columns, uint64_t row,
                       uint64_t column, struct block *block)
{
    uint64_t groups = count_groups(source, columns), group = group_of(source, columns, column);
    uint32_t zero = load_zero(source, groups, row, group);
    block->scale = load_scale(source, groups, row, group);
    block->zero = zero;
    for (uint32_t i = 0; i < block->columns; i++)
        block->numbers[i] = (int16_t)(load_code(source, row, column + i) - zero);
}

/* --- the type --------------------------------------------------------------------------------- */

static bool blocks_have_one_group(const struct weight_source *source, uint64_t columns,
                                  uint32_t block_columns)
{
    if (columns % block_columns != 0)
        return false;
    if (!source->groups)
        return source->group % block_columns == 0 || source->group >= columns;
    for (uint64_t c = 0; c < columns; c++)
        if (group_of(source, columns, c) !=
            group_of(source, columns, c / block_columns * block_columns))
            return false;
    return true;
}

static bool holds_one_number(const struct block *block)
{
    for (uint32_t i = 1; i < block->columns; i++)
        if (block->numbers[i] != block->numbers[0])
            return false;
    return true;
}

/* Makes the scale of a block of equal numbers the number. */
static void settle(struct block *block)
{
    if (ggml_half_holds(block->scale) || !holds_one_number(block))
        return;
    block->scale *= (float)block->numbers[0];
    block->zero = 0;
    for (uint32_t i = 0; i < block->columns; i++)
        block->numbers[i] = 1;
}

static bool row_fits(const struct weight_source *source, uint64_t columns, uint64_t row,
                     uint32_t block_columns, bool wide)
{
    uint64_t groups = count_groups(source, columns);
    for (uint64_t c = 0; c < columns; c += block_columns) {
        float scale = load_scale(source, groups, row, group_of(source, columns, c));
        if (!wide && ggml_half_holds(scale))
            continue;
        struct block block = {.columns = block_columns};
        load_block(source, columns, row, c, &block);
        settle(&block);
        if (!ggml_half_holds(block.scale))
            return false;
        for (uint32_t i = 0; wide && i < block_columns; i++)
            if (block.numbers[i] < -128 || block.numbers[i] > 127)
                return false;
    }
    return true;
}

static bool zeros_are_half(const struct weight_source *source, uint64_t rows, uint64_t columns)
{
    uint64_t groups = count_groups(source, columns);
    for (uint64_t row = 0; source->zeros && row < rows; row++)
        for (uint64_t group = 0; group < groups; group++)
            if (load_zero(source, groups, row, group) != 1u << (source->bits - 1))
                return false;
    return true;
}

static bool blocks_fit(const struct weight_source *source, uint64_t rows, uint64_t columns,
                       uint32_t block_columns, bool wide)
{
    bool fit = blocks_have_one_group(source, columns, block_columns);
    for (uint64_t row = 0; fit && row < rows; row++)
        fit = row_fits(source, columns, row, block_columns, wide);
    return fit;
}

enum ggml_type weight_integers_type(const struct weight_source *source, uint64_t rows,
                                    uint64_t columns)
{
    if (source->bits <= 4 && blocks_fit(source, rows, columns, 128, false))
        return GGML_Z4_128;
    if (source->bits <= 4 && blocks_fit(source, rows, columns, 64, false))
        return GGML_Z4_64;
    bool half = zeros_are_half(source, rows, columns);
    uint32_t bits = source->bits + !half; /* of a difference */
    if (source->groups && !blocks_have_one_group(source, columns, BLOCK))
        return source->scale_type;
    if (bits > 8 && !blocks_fit(source, rows, columns, BLOCK, true))
        return blocks_fit(source, rows, columns, BLOCK, false) ? GGML_Z8 : GGML_F32;
    if (!blocks_fit(source, rows, columns, BLOCK, false))
        return GGML_F32;
    if (source->bits == 4)
        return half ? GGML_Q4_0 : GGML_Z4;
    return bits <= 4 ? GGML_Q4_0 : bits == 5 ? GGML_Q5_0 : GGML_Q8_0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static uint8_t *store_half(float value, uint8_t *out)
{
    uint16_t half = ggml_f32_to_f16(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
    return out + 2;
}

/* Z4, Z4_64, Z4_128, Z8. */
static uint8_t *write_group(enum ggml_type type, const struct block *block, uint8_t *out)
{
    out = store_half(block->scale, out);
    out = store_half((float)block->zero, out);
    for (uint32_t i = 0; type == GGML_Z8 && i < block->columns; i++)
        *out++ = (uint8_t)(block->numbers[i] + (int32_t)block->zero);
    for (uint32_t i = 0; type != GGML_Z8 && i < block->columns; i += 2)
        *out++ = (uint8_t)((uint32_t)(block->numbers[i] + (int32_t)block->zero) |
                           (uint32_t)(block->numbers[i + 1] + (int32_t)block->zero) << 4);
    return out;
}

static uint8_t *write_block(enum ggml_type type, const struct block *block, uint8_t *out)
{
    uint32_t center = type == GGML_Q4_0 ? 8 : 16;
    if (block->columns > BLOCK || type == GGML_Z4 || type == GGML_Z8)
        return write_group(type, block, out);
    out = store_half(block->scale, out);
    if (type == GGML_Q8_0) {
        for (uint32_t i = 0; i < BLOCK; i++)
            out[i] = (uint8_t)block->numbers[i];
        return out + BLOCK;
    }
    uint8_t *high = out;
    if (type == GGML_Q5_0) {
        memset(out, 0, 4);
        out += 4;
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t code = (uint32_t)block->numbers[i] + center;
        if (type == GGML_Q5_0)
            high[i / 8] = (uint8_t)(high[i / 8] | (code >> 4 & 1) << (i % 8));
        out[i % 16] = (uint8_t)(i < 16 ? code & 15 : out[i % 16] | (code & 15) << 4);
    }
    return out + 16;
}

static uint8_t *write_float(enum ggml_type type, float value, uint8_t *out)
{
    if (type == GGML_F32) {
        memcpy(out, &value, sizeof value);
        return out + sizeof value;
    }
    uint16_t half = type == GGML_F16 ? ggml_f32_to_f16(value) : weight_fp8_round(value);
    memcpy(out, &half, sizeof half);
    return out + sizeof half;
}

static void read_floats(const struct weight_source *source, uint64_t columns,
                        struct weight_span span, uint8_t *out)
{
    uint64_t groups = count_groups(source, columns);
    for (uint64_t c = span.first; c < (uint64_t)span.first + span.count; c++) {
        uint64_t group = group_of(source, columns, c);
        int32_t number = (int32_t)load_code(source, span.row, c) -
                         (int32_t)load_zero(source, groups, span.row, group);
        float value = load_scale(source, groups, span.row, group) * (float)number;
        out = write_float(source->type, value, out);
    }
}

void weight_integers_read(const struct weight_source *source, uint32_t columns,
                          struct weight_span span, uint8_t *out)
{
    if (source->type == GGML_F32 || source->type == GGML_F16 || source->type == GGML_BF16) {
        read_floats(source, columns, span, out);
        return;
    }
    struct block block = {.columns = ggml_type_block(source->type).elements};
    must(span.first % block.columns == 0 && span.count % block.columns == 0);
    for (uint32_t c = span.first; c < span.first + span.count; c += block.columns) {
        load_block(source, columns, span.row, c, &block);
        settle(&block);
        out = write_block(source->type, &block, out);
    }
}
