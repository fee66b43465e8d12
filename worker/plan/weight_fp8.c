/*
 * 8-bit floats with their scales: blocks of F8_128 or F8_32, whose codes are the checkpoint's. If no
 * block of 32 columns has one scale, the products become BF16, rounded to nearest, ties to even, as
 * DeepSeek's conversion script and Hugging Face transformers do when they dequantize such
 * checkpoints; scales that are powers of two lose nothing.
 */
#include "worker/plan/weight_fp8.h"

#include <math.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"

uint16_t weight_fp8_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Whether a row is whole blocks of `block` columns, each inside the columns of one scale. */
static bool divides(const struct weight_source *source, uint64_t columns, uint32_t block)
{
    return columns % block == 0 &&
           (source->block_columns >= columns || source->block_columns % block == 0);
}

enum ggml_type weight_fp8_type(const struct weight_source *source, uint64_t rows, uint64_t columns)
{
    (void)rows;
    if (divides(source, columns, ggml_type_block(GGML_F8_128).elements))
        return GGML_F8_128;
    if (divides(source, columns, ggml_type_block(GGML_F8_32).elements))
        return GGML_F8_32;
    return GGML_BF16;
}

/* The scale of column `column` of the row whose scales begin at number `first`. */
static float scale_of(const struct weight_source *source, uint64_t first, uint32_t column)
{
    return weight_layout_float(source, source->scales, first + column / source->block_columns);
}

static void read_bf16(const struct weight_source *source, uint64_t scales, const uint8_t *row,
                      struct weight_span span, uint8_t *out)
{
    float values[256];
    for (uint32_t byte = 0; byte < 256; byte++)
        values[byte] = ggml_e4m3_to_f32((uint8_t)byte);
    for (uint32_t c = span.first; c < span.first + span.count; c++, out += 2) {
        uint16_t half = weight_fp8_round(values[row[c]] * scale_of(source, scales, c));
        memcpy(out, &half, sizeof half);
    }
}

void weight_fp8_read(const struct weight_source *source, uint32_t columns, struct weight_span span,
                     uint8_t *out)
{
    uint64_t block_columns = (columns + source->block_columns - 1) / source->block_columns;
    uint64_t scales = span.row / source->block_rows * block_columns;
    const uint8_t *row = source->data + span.row * source->row_bytes;
    if (source->type == GGML_BF16) {
        read_bf16(source, scales, row, span, out);
        return;
    }
    const struct ggml_block block = ggml_type_block(source->type);
    must(span.first % block.elements == 0 && span.count % block.elements == 0);
    for (uint32_t c = span.first; c < span.first + span.count; c += block.elements) {
        float scale = scale_of(source, scales, c);
        memcpy(out, &scale, sizeof scale);
        memcpy(out + sizeof scale, row + c, block.elements);
        out += block.bytes;
    }
}
