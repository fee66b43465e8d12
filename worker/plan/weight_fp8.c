/*
 * 8-bit floats times their scale, as BF16.
 *
 * This is the only layout that is rounded: the product of the float and its scale is rounded to the
 * nearest BF16, ties to even, as DeepSeek's conversion script and Hugging Face transformers do when
 * they dequantize such checkpoints. Scales that are powers of two lose nothing. Exact products
 * would need 32 bits a weight.
 *
 * Source: the OCP 8-bit floating point specification: E4M3 has a bias of 7, no infinities, and NaN
 * where all bits after the sign are set.
 */
#include "worker/plan/weight_fp8.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

float weight_fp8_number(uint8_t byte)
{
    uint32_t exponent = byte >> 3 & 15, mantissa = byte & 7;
    float value;
    if ((byte & 0x7f) == 0x7f)
        value = NAN;
    else if (exponent == 0)
        value = ldexpf((float)mantissa, -9);
    else
        value = ldexpf((float)(8 + mantissa), (int)exponent - 10);
    return byte & 0x80 ? -value : value;
}

uint16_t weight_fp8_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void weight_fp8_read(const struct weight_source *source, uint32_t columns, struct weight_span span,
                     uint8_t *out)
{
    float values[256];
    for (uint32_t byte = 0; byte < 256; byte++)
        values[byte] = weight_fp8_number((uint8_t)byte);
    uint64_t block_columns = (columns + source->block_columns - 1) / source->block_columns;
    uint64_t scales = span.row / source->block_rows * block_columns;
    const uint8_t *row = source->data + span.row * source->row_bytes;
    for (uint32_t c = span.first; c < span.first + span.count; c++, out += 2) {
        float scale =
            weight_layout_float(source, source->scales, scales + c / source->block_columns);
        uint16_t half = weight_fp8_round(values[row[c]] * scale);
        memcpy(out, &half, sizeof half);
    }
}
