/*
 * Repacks checkpoint rows into groups of sixteen (packed_weight.h has the layout).
 *
 * It runs once per weight at load, split by group over the threads. Blocks are unpacked to plain
 * integers first (ggml_unpack_quants()), so that one loop serves every quantized type; that costs
 * 0.3 to 3 nanoseconds per weight, once. Values are moved, never requantized.
 */
#include "worker/backend/cpu/weights/packed_weight.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

struct packed_shape packed_weight_shape(enum ggml_type type)
{
    switch (type) {
#define QUANT_SHAPE(kind_, name, number, columns, bytes, bits_, span_, minimum_, center_, offset,  \
                    table_)                                                                        \
    case GGML_##name:                                                                              \
        return (struct packed_shape){.kind = PACKED_##name,                                        \
                                     .quantized = true,                                            \
                                     .minimum = (minimum_) != 0,                                   \
                                     .zero = (minimum_) == 2,                                      \
                                     .bits = bits_,                                                \
                                     .span = span_,                                                \
                                     .table = table_,                                              \
                                     .scales = GGML_SCALES(table_, span_),                         \
                                     .blocks = PACKED_BLOCKS(columns),                             \
                                     .factor_bytes = PACKED_FACTOR_BYTES(span_, table_),           \
                                     .block_bytes = PACKED_BLOCK_BYTES(                            \
                                         bits_, PACKED_BLOCKS(columns), span_, minimum_, table_),  \
                                     .center = PACKED_CENTER(bits_, minimum_, center_),            \
                                     .unit_bytes = PACKED_UNIT_BYTES(                              \
                                         bits_, PACKED_BLOCKS(columns), span_, minimum_, table_),  \
                                     .unit_columns = columns};
#define FLOAT_SHAPE(kind_, name, number, bits_, scaled_, table_)                                   \
    case GGML_##name:                                                                              \
        return (struct packed_shape){.kind = PACKED_##name,                                        \
                                     .bits = bits_,                                                \
                                     .scaled = scaled_,                                            \
                                     .unit_bytes = (table_) != 0   ? PACKED_F4_UNIT_BYTES(scaled_) \
                                                   : (scaled_) > 0 ? PACKED_F8_UNIT_BYTES(scaled_) \
                                                                   : PACKED_ROWS * (bits_) / 8,    \
                                     .unit_columns = (scaled_) > 0 ? (scaled_) : 1};
        GGML_QUANT_LIST(QUANT_SHAPE)
        GGML_FLOAT_LIST(FLOAT_SHAPE)
#undef QUANT_SHAPE
#undef FLOAT_SHAPE
    default: must_fail("a packed type", __FILE__, __LINE__);
    }
}

struct packed_weight packed_weight_describe(enum ggml_type type, uint32_t matrices, uint32_t rows,
                                            uint32_t columns)
{
    struct packed_shape shape = packed_weight_shape(type);
    must(matrices > 0 && rows > 0 && columns > 0 && columns % shape.unit_columns == 0);
    size_t units = columns / shape.unit_columns;
    return (struct packed_weight){.kind = shape.kind,
                                  .quantized = shape.quantized,
                                  .matrices = matrices,
                                  .rows = rows,
                                  .columns = columns,
                                  .groups = (rows + PACKED_ROWS - 1) / PACKED_ROWS,
                                  .group_bytes = shape.factor_bytes + units * shape.unit_bytes};
}

uint64_t packed_weight_bytes(const struct packed_weight *weight)
{
    return (uint64_t)weight->matrices * weight->groups * weight->group_bytes;
}

/* Copies one row's `quads` quads to their places in a plane. */
static void place_quads(const uint8_t *lanes, uint32_t quads, uint32_t row, uint8_t *plane)
{
    for (uint32_t quad = 0; quad < quads; quad++)
        memcpy(plane + 64 * quad + 4 * row, lanes + 4 * quad, 4);
}

static void shift_out(uint8_t *values, uint32_t bits)
{
    for (uint32_t i = 0; i < PACKED_COLUMNS; i++)
        values[i] = (uint8_t)(values[i] >> bits);
}

/* Writes the 32 values of one row's block to the block's planes, one plane at a time: loops over
 * bytes without branches, which compile to a few vector instructions. */
static void fill_planes(uint32_t bits, const int16_t *quants, uint32_t row, uint8_t *planes)
{
    uint8_t values[PACKED_COLUMNS];
    uint8_t lanes[16] = {0};
    for (uint32_t i = 0; i < PACKED_COLUMNS; i++)
        values[i] = (uint8_t)quants[i];
    if (bits == 8) {
        place_quads(values, 8, row, planes);
        return;
    }
    if (bits & 4) {
        for (uint32_t i = 0; i < 16; i++)
            lanes[i] = (uint8_t)((values[i] & 15) | values[16 + i] << 4);
        place_quads(lanes, 4, row, planes);
        shift_out(values, 4);
        planes += 256;
    }
    if (bits & 2) {
        for (uint32_t i = 0; i < 8; i++) {
            const uint8_t *value = values + 16 * (i / 4) + i % 4;
            lanes[i] = (uint8_t)((value[0] & 3) | (value[4] & 3) << 2 | (value[8] & 3) << 4 |
                                 (value[12] & 3) << 6);
        }
        place_quads(lanes, 2, row, planes);
        shift_out(values, 2);
        planes += 128;
    }
    if (bits & 1) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t lane = 0;
            for (uint32_t quad = 0; quad < 8; quad++)
                lane |= (values[4 * quad + i] & 1u) << quad;
            lanes[i] = (uint8_t)lane;
        }
        place_quads(lanes, 1, row, planes);
    }
}

/* The scale bytes of block `block` of a unit, for one row. */
static void fill_sub_scales(const struct packed_shape *shape, const struct ggml_scales *scales,
                            uint32_t block, uint32_t row, uint8_t *out)
{
    if (shape->span == PACKED_COLUMNS) {
        out[row] = (uint8_t)scales->scales[block];
        if (shape->minimum)
            out[16 + row] = scales->minimums[block];
        return;
    }
    for (uint32_t half = 0; half < 2; half++)
        out[16 * half + row] =
            (uint8_t)(scales->scales[2 * block + half] | scales->minimums[2 * block + half] << 4);
}

/* The f16 scale of a block, or of a K type's unit, and the minimum after it, for one row. */
static void fill_scales(const struct packed_shape *shape, const struct ggml_scales *scales,
                        uint32_t row, uint8_t *out)
{
    memcpy(out + 2 * row, &scales->scale, 2);
    if (shape->minimum)
        memcpy(out + 32 + 2 * row, &scales->minimum, 2);
}

/* NVFP4: the row's factor, for one row; NaN from a block with a scale that is NaN on. */
static void fill_factor(const struct ggml_scales *scales, uint32_t row, bool first, uint8_t *group)
{
    float factor = ggml_nvfp4_multiplier(scales->factor);
    for (uint32_t i = 0; i < 2; i++)
        if ((scales->scales[i] & 0x7f) == 0x7f) {
            factor = NAN;
            first = true;
        }
    if (first)
        memcpy(group + sizeof factor * row, &factor, sizeof factor);
}

static void fill_quantized_row(const struct packed_weight *weight, enum ggml_type type,
                               const uint8_t *source, uint32_t row, uint8_t *group)
{
    struct packed_shape shape = packed_weight_shape(type);
    uint32_t source_bytes = ggml_type_block(type).bytes;
    uint32_t plane_bytes = PACKED_PLANE_BYTES(shape.bits);
    int16_t sign_offset = GGML_SIGN_OFFSET(shape.bits, shape.minimum);
    int16_t quants[GGML_BLOCK_COLUMNS_MAX];
    struct ggml_scales scales;
    bool bytes = shape.blocks == 8 || shape.scales != GGML_SCALES_HALF;
    uint8_t *factors = group;
    group += shape.factor_bytes;
    for (uint32_t unit = 0; unit < weight->columns / shape.unit_columns; unit++) {
        ggml_unpack_quants(type, source, quants);
        ggml_unpack_scales(type, source, &scales);
        if (shape.factor_bytes > 0)
            fill_factor(&scales, row, unit == 0, factors);
        for (uint32_t i = 0; sign_offset != 0 && i < shape.unit_columns; i++)
            quants[i] = (int16_t)(quants[i] - sign_offset);
        if (sign_offset != 0 && shape.zero) /* an integer */
            scales.minimum = ggml_f32_to_f16(ggml_f16_to_f32(scales.minimum) - sign_offset);
        for (uint32_t block = 0; block < shape.blocks; block++) {
            uint8_t *planes = group + block * shape.block_bytes;
            fill_planes(shape.bits, quants + PACKED_COLUMNS * block, row, planes);
            if (bytes)
                fill_sub_scales(&shape, &scales, block, row, planes + plane_bytes);
        }
        if (shape.scales == GGML_SCALES_HALF)
            fill_scales(&shape, &scales, row,
                        group +
                            (shape.blocks > 1 ? shape.blocks * shape.block_bytes : plane_bytes));
        group += shape.unit_bytes;
        source += source_bytes;
    }
}

/* Column by column, so that the output is written once and in order; `width` is a constant at each
 * call. */
static inline void fill_float_group(const uint8_t *source, uint64_t row_bytes, uint32_t rows,
                                    uint32_t columns, size_t width, uint8_t *group)
{
    for (uint32_t column = 0; column < columns; column++)
        for (uint32_t row = 0; row < rows; row++)
            memcpy(group + (PACKED_ROWS * (size_t)column + row) * width,
                   source + row * row_bytes + column * width, width);
}

/* One row of a group of an F8 type. */
static void fill_f8_row(const struct packed_weight *weight, enum ggml_type type,
                        const uint8_t *source, uint32_t row, uint8_t *group)
{
    struct packed_shape shape = packed_weight_shape(type);
    for (uint32_t unit = 0; unit < weight->columns / shape.scaled; unit++) {
        float scale = ggml_f8_scale(source, shape.scaled);
        const uint8_t *codes = source + sizeof scale;
        uint8_t *out = group + PACKED_F8_SCALE_BYTES + 2 * row;
        memcpy(group + sizeof scale * row, &scale, sizeof scale);
        for (uint32_t c = 0; c < shape.scaled; c += 2, out += PACKED_F8_PAIR_BYTES)
            memcpy(out, codes + c, 2);
        group += shape.unit_bytes;
        source += sizeof scale + shape.scaled;
    }
}

/* One row of a group of NF4_64 or FP4_64, whose blocks have their nibbles in the same order. */
static void fill_f4_row(const struct packed_weight *weight, enum ggml_type type,
                        const uint8_t *source, uint32_t row, uint8_t *group)
{
    struct packed_shape shape = packed_weight_shape(type);
    for (uint32_t unit = 0; unit < weight->columns / shape.scaled; unit++) {
        memcpy(group + sizeof(float) * row, source, sizeof(float));
        source += sizeof(float);
        uint8_t *out = group + PACKED_F8_SCALE_BYTES + row;
        for (uint32_t c = 0; c < shape.scaled; c += 2, out += PACKED_F4_PAIR_BYTES)
            *out = *source++;
        group += shape.unit_bytes;
    }
}

uint32_t packed_weight_group_rows(const struct packed_weight *weight, uint32_t group)
{
    uint32_t left = weight->rows - group % weight->groups * PACKED_ROWS;
    return left < PACKED_ROWS ? left : PACKED_ROWS;
}

void packed_weight_fill_rows(const struct packed_weight *weight, enum ggml_type type,
                             const void *source, uint32_t group)
{
    must(group / weight->groups < weight->matrices &&
         packed_weight_shape(type).kind == weight->kind);
    uint64_t row_bytes = ggml_row_bytes(type, weight->columns);
    uint8_t *out = weight->data + group * weight->group_bytes;
    uint32_t count = packed_weight_group_rows(weight, group);
    const uint8_t *rows = source;
    if (count < PACKED_ROWS)
        memset(out, 0, weight->group_bytes);
    bool scaled = packed_weight_shape(type).scaled > 0;
    bool nibbles = packed_weight_shape(type).bits == 4;
    if (weight->kind == PACKED_F32)
        fill_float_group(rows, row_bytes, count, weight->columns, 4, out);
    else if (!weight->quantized && !scaled)
        fill_float_group(rows, row_bytes, count, weight->columns, 2, out);
    for (uint32_t row = 0; row < count && scaled; row++)
        (nibbles ? fill_f4_row : fill_f8_row)(weight, type, rows + row * row_bytes, row, out);
    for (uint32_t row = 0; row < count && weight->quantized; row++)
        fill_quantized_row(weight, type, rows + row * row_bytes, row, out);
}

void packed_weight_fill_group(const struct packed_weight *weight, enum ggml_type type,
                              const void *source, uint32_t group)
{
    uint64_t first = (uint64_t)(group % weight->groups) * PACKED_ROWS;
    packed_weight_fill_rows(weight, type,
                            (const uint8_t *)source + first * ggml_row_bytes(type, weight->columns),
                            group);
}
