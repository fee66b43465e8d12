/*
 * Repacking of checkpoint rows into groups of sixteen (packed_weight.h has the layout).
 *
 * It runs once per weight at load, split by group over the threads. It goes through the plain
 * integers of each block (ggml_unpack_quants), so that one loop serves every quantized type; the
 * cost, 0.3 to 3 nanoseconds per weight, is paid once. Values are moved, never requantized:
 * the packed matrix means exactly what the checkpoint means.
 */
#include "worker/backend/cpu/weights/packed_weight.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

static const struct {
    enum ggml_type type;
    struct packed_shape shape;
} packed_shapes[] = {
#define QUANT_ROW(name, bits_, span_, blocks_, minimum_, center_)                                  \
    {GGML_##name,                                                                                  \
     {.kind = PACKED_##name,                                                                       \
      .quantized = true,                                                                           \
      .minimum = minimum_,                                                                         \
      .bits = bits_,                                                                               \
      .span = span_,                                                                               \
      .blocks = blocks_,                                                                           \
      .center = center_,                                                                           \
      .unit_bytes = PACKED_UNIT_BYTES(bits_, blocks_, minimum_),                                   \
      .unit_columns = PACKED_COLUMNS * (blocks_)}},
    PACKED_QUANT_LIST(QUANT_ROW)
#undef QUANT_ROW
#define FLOAT_ROW(name, width)                                                                     \
    {GGML_##name, {.kind = PACKED_##name, .unit_bytes = PACKED_ROWS * (width), .unit_columns = 1}},
        PACKED_FLOAT_LIST(FLOAT_ROW)
#undef FLOAT_ROW
};

struct packed_shape packed_weight_shape(enum ggml_type type)
{
    for (size_t i = 0; i < sizeof packed_shapes / sizeof packed_shapes[0]; i++)
        if (packed_shapes[i].type == type)
            return packed_shapes[i].shape;
    must_fail("a packed type", __FILE__, __LINE__);
    return packed_shapes[0].shape;
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
                                  .group_bytes = units * shape.unit_bytes};
}

uint64_t packed_weight_bytes(const struct packed_weight *weight)
{
    return (uint64_t)weight->matrices * weight->groups * weight->group_bytes;
}

/* One row's `quads` quads to their places in a plane. */
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

/* Lays the 32 values of one row's block into the block's planes, a plane at a time: loops over
 * bytes without branches, which become a few vector instructions. */
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

/* Types with one f16 scale (and minimum) per 32 columns: the f16 fields open the block. */
static void fill_plain_scales(const struct packed_shape *shape, const uint8_t *source, uint32_t row,
                              uint8_t *unit)
{
    uint8_t *scales = unit + PACKED_PLANE_BYTES(shape->bits);
    memcpy(scales + 2 * row, source, 2);
    if (shape->minimum)
        memcpy(scales + 32 + 2 * row, source + 2, 2);
}

/* Byte offset of the f16 super-block scale `d` in a K type's block; dmin follows it where there is
 * one. */
static size_t super_scale_offset(enum packed_kind kind)
{
    switch (kind) {
    case PACKED_Q2_K: return 80;
    case PACKED_Q3_K: return 108;
    case PACKED_Q6_K: return 208;
    default: return 0;
    }
}

/* The 32 scale bytes of block `block` (0..7), for one row. */
static void fill_sub_scales(enum packed_kind kind, const uint8_t *source, uint32_t block,
                            uint32_t row, uint8_t *scales)
{
    int8_t signed_scales[16];
    switch (kind) {
    case PACKED_Q4_K:
    case PACKED_Q5_K: ggml_k4_scale_min(source + 4, block, scales + row, scales + 16 + row); return;
    case PACKED_Q2_K:
        scales[row] = source[2 * block];
        scales[16 + row] = source[2 * block + 1];
        return;
    case PACKED_Q3_K: ggml_q3_k_scales(source + 96, signed_scales); break;
    default: memcpy(signed_scales, source + 192, sizeof signed_scales); break;
    }
    scales[row] = (uint8_t)signed_scales[2 * block];
    scales[16 + row] = (uint8_t)signed_scales[2 * block + 1];
}

static void fill_super_scales(const struct packed_shape *shape, const uint8_t *source, uint32_t row,
                              uint8_t *unit)
{
    uint32_t block_bytes = PACKED_BLOCK_BYTES(shape->bits, shape->blocks, shape->minimum);
    uint8_t *super = unit + shape->blocks * block_bytes;
    source += super_scale_offset(shape->kind);
    memcpy(super + 2 * row, source, 2);
    if (shape->minimum)
        memcpy(super + 32 + 2 * row, source + 2, 2);
}

static void fill_quantized_row(const struct packed_weight *weight, enum ggml_type type,
                               const uint8_t *source, uint32_t row, uint8_t *group)
{
    struct packed_shape shape = packed_weight_shape(type);
    uint32_t source_bytes = ggml_type_block(type).bytes;
    uint32_t block_bytes = PACKED_BLOCK_BYTES(shape.bits, shape.blocks, shape.minimum);
    int16_t quants[8 * PACKED_COLUMNS];
    for (uint32_t unit = 0; unit < weight->columns / shape.unit_columns; unit++) {
        ggml_unpack_quants(type, source, quants);
        for (uint32_t i = 0; i < PACKED_COLUMNS && shape.kind == PACKED_A8; i++)
            quants[i] = (int16_t)(quants[i] - (int16_t)shape.center);
        for (uint32_t block = 0; block < shape.blocks; block++) {
            uint8_t *planes = group + block * block_bytes;
            fill_planes(shape.bits, quants + PACKED_COLUMNS * block, row, planes);
            if (shape.blocks == 8)
                fill_sub_scales(shape.kind, source, block, row,
                                planes + PACKED_PLANE_BYTES(shape.bits));
        }
        if (shape.blocks == 8)
            fill_super_scales(&shape, source, row, group);
        else
            fill_plain_scales(&shape, source, row, group);
        group += shape.unit_bytes;
        source += source_bytes;
    }
}

/* Column by column, so that what is written is written once and in order; `width` is a constant at
 * each call. */
static inline void fill_float_group(const uint8_t *source, uint64_t row_bytes, uint32_t rows,
                                    uint32_t columns, size_t width, uint8_t *group)
{
    for (uint32_t column = 0; column < columns; column++)
        for (uint32_t row = 0; row < rows; row++)
            memcpy(group + (PACKED_ROWS * (size_t)column + row) * width,
                   source + row * row_bytes + column * width, width);
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
    if (weight->kind == PACKED_F32)
        fill_float_group(rows, row_bytes, count, weight->columns, 4, out);
    else if (!weight->quantized)
        fill_float_group(rows, row_bytes, count, weight->columns, 2, out);
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
