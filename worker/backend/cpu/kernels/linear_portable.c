/*
 * The linear kernels in plain C: the definition of every packed kind. They run on any CPU, and the
 * vector tiers are tested against them.
 *
 * For each block of 32 columns and each term of its quantized activations (a second one only in
 * blocks with an outlier, kernel_types.h) the sixteen rows' values are extracted from their planes,
 * multiplied with the activations in integers, and added to the running f32 sums:
 *
 *   plain kinds: sum += isum * (weight scale * x scale);
 *                sum += (m or -center * scale) * x.sum
 *   A8, A8_64 (bytes stored minus 128): sum += (m + 128 * scale) * x.sum in the second step
 *   with a zero point z: m is -z * scale
 *   MXFP4, NVFP4: the first step with the scale's number, NVFP4 for each 16 columns; at the end the
 *            sum times the row's factor
 *   K kinds, inside a unit: s += isum * x scale, n += imin * x scale;
 *            at its end: sum += s * d, then sum -= n * dmin,
 *            where isum and imin already include the integer sub-scales
 *
 * Float kinds: a partial sum per 32 columns, added to the running sum; types with f32 scales: times the scale.
 */
#include "worker/backend/cpu/kernels/linear_portable.h"

#include <math.h>
#include <string.h>

#include "worker/backend/host/ggml_dequantize.h"

enum { ROWS = PACKED_ROWS, COLUMNS = PACKED_COLUMNS };

/* values [16][32] of one block's planes, center not subtracted */
static void unpack_block(uint32_t bits, uint32_t table, const uint8_t *planes,
                         int8_t values[ROWS][COLUMNS])
{
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            uint32_t quad = column / 4;
            uint32_t lane = 4 * row + column % 4;
            const uint8_t *plane = planes;
            uint32_t value = 0;
            uint32_t shift = 0;
            if (bits == 8)
                value = plane[64 * quad + lane];
            if (bits < 8 && bits & 4) {
                value = plane[64 * (quad % 4) + lane] >> (quad / 4 * 4) & 15;
                plane += 256;
                shift = 4;
            }
            if (bits < 8 && bits & 2) {
                value |= (uint32_t)(plane[64 * (quad / 4) + lane] >> (quad % 4 * 2) & 3) << shift;
                plane += 128;
                shift += 2;
            }
            if (bits < 8 && bits & 1)
                value |= (uint32_t)(plane[lane] >> quad & 1) << shift;
            values[row][column] = table ? ggml_table_number(table, value) : (int8_t)value;
        }
    }
}

static float load_f16(const uint8_t *halves, uint32_t index)
{
    return ggml_f16_to_f32(ggml_load_u16(halves + 2 * index));
}

/* Sum of value * quant over `count` columns. */
static int32_t dot(const int8_t *values, const int8_t *quants, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[i] * quants[i];
    return sum;
}

static uint32_t count_terms(const struct quantized_block *x)
{
    return x->term[1].scale != 0.0f ? 2 : 1;
}

/* Scales that are bytes, of 16 or 32 columns. */
static void byte_scale_block(const struct packed_shape *shape, const uint8_t *block,
                             const struct quantized_term *x, float *sums)
{
    int8_t values[ROWS][COLUMNS];
    unpack_block(shape->bits, shape->table, block, values);
    const uint8_t *scales = block + PACKED_PLANE_BYTES(shape->bits);
    for (uint32_t first = 0; first < COLUMNS; first += shape->span, scales += ROWS)
        for (uint32_t row = 0; row < ROWS; row++) {
            float scale = shape->scales == GGML_SCALES_E8M0 ? ldexpf(1.0f, scales[row] - 128)
                                                            : ggml_e4m3_to_f32(scales[row]);
            sums[row] += (float)dot(values[row] + first, x->quants + first, shape->span) *
                         (scale * x->scale);
        }
}

static void plain_block(const struct packed_shape *shape, const uint8_t *block,
                        const uint8_t *scales, const struct quantized_term *x, float *sums)
{
    int8_t values[ROWS][COLUMNS];
    unpack_block(shape->bits, shape->table, block, values);
    for (uint32_t row = 0; row < ROWS; row++) {
        float scale = load_f16(scales, row);
        sums[row] += (float)dot(values[row], x->quants, COLUMNS) * (scale * x->scale);
        if (shape->minimum) {
            float minimum = load_f16(scales + 32, row);
            minimum = shape->zero ? -minimum * scale : minimum;
            if (shape->center && !shape->zero)
                minimum += (float)shape->center * scale;
            sums[row] += minimum * x->sum;
        } else if (shape->center) {
            sums[row] -= (float)shape->center * scale * x->sum;
        }
    }
}

/* One block of a K kind: integer sums with their sub-scales; minimum terms where the kind has them.
 */
static void k_block(const struct packed_shape *shape, const uint8_t *block,
                    const struct quantized_term *x, float *sums, float *minimums)
{
    int8_t values[ROWS][COLUMNS];
    unpack_block(shape->bits, shape->table, block, values);
    const uint8_t *scales = block + PACKED_PLANE_BYTES(shape->bits);
    for (uint32_t row = 0; row < ROWS; row++) {
        int32_t isum = 0;
        int32_t imin = 0;
        for (uint32_t h = 0; h < COLUMNS / shape->span; h++) {
            uint8_t byte = scales[16 * h + row];
            int32_t part = dot(values[row] + 16 * h, x->quants + 16 * h, shape->span);
            int32_t x_sum = x->pair_sums[h][0];
            if (shape->span == 32 && !shape->minimum) {
                isum = part * (int8_t)byte;
            } else if (shape->span == 32) {
                x_sum += x->pair_sums[1][0];
                isum = part * byte;
                imin = x_sum * scales[16 + row];
            } else if (shape->minimum) {
                isum += part * (byte & 15);
                imin += x_sum * (byte >> 4);
            } else {
                isum += (part - (int32_t)shape->center * x_sum) * (int8_t)byte;
            }
        }
        sums[row] += (float)isum * x->scale;
        minimums[row] += (float)imin * x->scale;
    }
}

static void k_unit(const struct packed_shape *shape, const uint8_t *unit,
                   const struct quantized_block *x, float *sums)
{
    float unit_sums[ROWS] = {0};
    float unit_minimums[ROWS] = {0};
    for (uint32_t b = 0; b < shape->blocks; b++)
        for (uint32_t t = 0; t < count_terms(x + b); t++)
            k_block(shape, unit + b * shape->block_bytes, &x[b].term[t], unit_sums, unit_minimums);
    const uint8_t *super = unit + shape->blocks * shape->block_bytes;
    for (uint32_t row = 0; row < ROWS; row++) {
        sums[row] += unit_sums[row] * load_f16(super, row);
        if (shape->minimum)
            sums[row] -= unit_minimums[row] * load_f16(super + 32, row);
    }
}

static void plain_unit(const struct packed_shape *shape, const uint8_t *unit,
                       const struct quantized_block *x, float *sums)
{
    const uint32_t plane_bytes = PACKED_PLANE_BYTES(shape->bits);
    for (uint32_t b = 0; b < shape->blocks; b++)
        for (uint32_t t = 0; t < count_terms(x + b); t++)
            if (shape->scales == GGML_SCALES_HALF)
                plain_block(shape, unit + b * plane_bytes, unit + shape->blocks * plane_bytes,
                            &x[b].term[t], sums);
            else
                byte_scale_block(shape, unit, &x[b].term[t], sums);
}

static void quantized_tile(enum ggml_type type, const struct linear_tile *tile)
{
    struct packed_shape shape = packed_weight_shape(type);
    for (uint32_t r = 0; r < tile->rows; r++) {
        const struct quantized_block *x =
            (const void *)((const char *)tile->x + r * tile->x_stride_bytes);
        const uint8_t *unit = tile->group + shape.factor_bytes;
        float sums[ROWS] = {0}, factor;
        for (uint32_t u = 0; u < tile->columns / shape.unit_columns; u++) {
            if (shape.blocks == 8)
                k_unit(&shape, unit, x, sums);
            else
                plain_unit(&shape, unit, x, sums);
            unit += shape.unit_bytes;
            x += shape.blocks;
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            size_t at = r * tile->out_stride + row;
            if (shape.factor_bytes > 0) {
                memcpy(&factor, tile->group + sizeof factor * row, sizeof factor);
                sums[row] *= factor;
            }
            tile->out[at] = tile->add ? tile->add[at] + sums[row] : sums[row];
        }
    }
}

static float load_float(enum packed_kind kind, const uint8_t *group, size_t index)
{
    float value;
    uint32_t bits;
    switch (kind) {
    case PACKED_F16: return ggml_f16_to_f32(ggml_load_u16(group + 2 * index));
    case PACKED_BF16: bits = (uint32_t)ggml_load_u16(group + 2 * index) << 16; break;
    default: memcpy(&bits, group + 4 * index, sizeof bits); break;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void float_tile(enum packed_kind kind, const struct linear_tile *tile)
{
    for (uint32_t r = 0; r < tile->rows; r++) {
        const float *x = (const void *)((const char *)tile->x + r * tile->x_stride_bytes);
        for (uint32_t row = 0; row < ROWS; row++) {
            float sum = 0.0f;
            for (uint32_t first = 0; first < tile->columns; first += COLUMNS) {
                uint32_t end = tile->columns - first < COLUMNS ? tile->columns : first + COLUMNS;
                float part = 0.0f;
                for (uint32_t c = first; c < end; c++)
                    part += load_float(kind, tile->group, (size_t)ROWS * c + row) * x[c];
                sum += part;
            }
            size_t at = r * tile->out_stride + row;
            tile->out[at] = tile->add ? tile->add[at] + sum : sum;
        }
    }
}

/* F8 types: `scaled` columns per scale. */
static void f8_tile(uint32_t scaled, const struct linear_tile *tile)
{
    for (uint32_t r = 0; r < tile->rows; r++) {
        const float *x = (const void *)((const char *)tile->x + r * tile->x_stride_bytes);
        for (uint32_t row = 0; row < ROWS; row++) {
            float sum = 0.0f;
            for (uint32_t first = 0; first < tile->columns; first += COLUMNS) {
                const uint8_t *unit = tile->group + first / scaled * PACKED_F8_UNIT_BYTES(scaled);
                const uint8_t *codes = unit + PACKED_F8_SCALE_BYTES + ROWS * (first % scaled);
                float scale, part = 0.0f;
                memcpy(&scale, unit + sizeof scale * row, sizeof scale);
                for (uint32_t c = 0; c < COLUMNS; c++)
                    part +=
                        ggml_e4m3_to_f32(codes[PACKED_F8_PAIR_BYTES * (c / 2) + 2 * row + c % 2]) *
                        x[first + c];
                sum += part * scale;
            }
            size_t at = r * tile->out_stride + row;
            tile->out[at] = tile->add ? tile->add[at] + sum : sum;
        }
    }
}

/* NF4_64, FP4_64. */
static void f4_tile(const float numbers[16], uint32_t scaled, const struct linear_tile *tile)
{
    for (uint32_t r = 0; r < tile->rows; r++) {
        const float *x = (const void *)((const char *)tile->x + r * tile->x_stride_bytes);
        for (uint32_t row = 0; row < ROWS; row++) {
            float sum = 0.0f;
            for (uint32_t first = 0; first < tile->columns; first += COLUMNS) {
                const uint8_t *unit = tile->group + first / scaled * PACKED_F4_UNIT_BYTES(scaled);
                const uint8_t *codes = unit + PACKED_F8_SCALE_BYTES + ROWS * (first % scaled) / 2;
                float scale, part = 0.0f;
                memcpy(&scale, unit + sizeof scale * row, sizeof scale);
                for (uint32_t c = 0; c < COLUMNS; c++)
                    part +=
                        numbers[codes[PACKED_F4_PAIR_BYTES * (c / 2) + row] >> (c % 2 * 4) & 15] *
                        x[first + c];
                sum += part * scale;
            }
            size_t at = r * tile->out_stride + row;
            tile->out[at] = tile->add ? tile->add[at] + sum : sum;
        }
    }
}

#define QUANT_TILE(index, type, ...)                                                               \
    void linear_portable_##type(const struct linear_tile *tile)                                    \
    {                                                                                              \
        quantized_tile(GGML_##type, tile);                                                         \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE

#define FLOAT_TILE(index, type, number, bits, scaled, table)                                       \
    void linear_portable_##type(const struct linear_tile *tile)                                    \
    {                                                                                              \
        if ((table) != 0)                                                                          \
            f4_tile(ggml_float_numbers(GGML_##type), scaled, tile);                                \
        else if ((scaled) > 0)                                                                     \
            f8_tile(scaled, tile);                                                                 \
        else                                                                                       \
            float_tile(PACKED_##type, tile);                                                       \
    }
GGML_FLOAT_LIST(FLOAT_TILE)
#undef FLOAT_TILE
