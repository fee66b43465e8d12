/*
 * Reads single scales and biases, which are stored apart from quantized codes.
 */
#include "worker/plan/weight_layout.h"

#include <string.h>

#include "proto/ggml_half.h"

float weight_layout_float(const struct weight_source *source, const uint8_t *floats, uint64_t index)
{
    uint32_t bits;
    float value;
    if (source->scale_type == GGML_F16)
        return ggml_f16_to_f32(ggml_load_u16(floats + 2 * index));
    if (source->scale_type == GGML_BF16)
        bits = (uint32_t)ggml_load_u16(floats + 2 * index) << 16;
    else
        memcpy(&bits, floats + 4 * index, sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}
