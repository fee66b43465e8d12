/*
 * The kernels over one row in plain C: quantizing activations, normalization, gated activations,
 * soft caps.
 */
#include "worker/backend/cpu/kernels/row_portable.h"

#include <math.h>

#include "worker/backend/host/ggml_dequantize.h"

static void quantize_term(const float *x, float scale, float inverse, struct quantized_term *out)
{
    int32_t sums[2] = {0, 0};
    out->scale = scale;
    for (uint32_t i = 0; i < 32; i++) {
        float quant = rintf(x[i] * inverse);
        /* the comparison also turns a NaN into a number in range */
        out->quants[i] = (int8_t)(quant > -127.0f ? (quant < 127.0f ? quant : 127.0f) : -127.0f);
        sums[i / 16] += out->quants[i];
    }
    out->sum = scale * (float)(sums[0] + sums[1]);
    for (uint32_t h = 0; h < 2; h++)
        out->pair_sums[h][0] = out->pair_sums[h][1] = (int16_t)sums[h];
}

static void quantize_block(const float *x, float outlier_square, struct quantized_block *out)
{
    float largest = 0.0f;
    for (uint32_t i = 0; i < 32; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float scale = largest / 127.0f;
    float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    quantize_term(x, scale, inverse, &out->term[0]);
    if (!(largest * largest > outlier_square)) {
        out->term[1] = (struct quantized_term){0};
        return;
    }
    float left[32];
    for (uint32_t i = 0; i < 32; i++)
        left[i] = fmaf(-scale, out->term[0].quants[i], x[i]);
    quantize_term(left, scale / QUANTIZE_FINER_STEPS, inverse * QUANTIZE_FINER_STEPS,
                  &out->term[1]);
}

void row_portable_quantize(const float *x, uint32_t columns, float outlier,
                           struct quantized_block *out)
{
    float squares = 0.0f;
    for (uint32_t c = 0; c < columns; c++)
        squares += x[c] * x[c];
    float outlier_square = outlier * outlier * squares / (float)columns;
    for (uint32_t first = 0; first < columns; first += 32)
        quantize_block(x + first, outlier_square, out++);
}

void row_portable_rms_norm(const float *x, const float *weight, float offset, float epsilon,
                           const float *add, uint32_t columns, float *out)
{
    float sum = 0.0f;
    for (uint32_t c = 0; c < columns; c++)
        sum += x[c] * x[c];
    float factor = 1.0f / sqrtf(sum / (float)columns + epsilon);
    for (uint32_t c = 0; c < columns; c++) {
        float value = x[c] * factor * (weight[c] + offset);
        out[c] = add ? add[c] + value : value;
    }
}

void row_portable_layer_norm(const float *x, const float *weight, float offset, float epsilon,
                             uint32_t columns, float *out)
{
    float sum = 0.0f;
    float squares = 0.0f;
    for (uint32_t c = 0; c < columns; c++)
        sum += x[c];
    float mean = sum / (float)columns;
    for (uint32_t c = 0; c < columns; c++)
        squares += (x[c] - mean) * (x[c] - mean);
    float factor = 1.0f / sqrtf(squares / (float)columns + epsilon);
    for (uint32_t c = 0; c < columns; c++)
        out[c] = (x[c] - mean) * factor * (weight[c] + offset);
}

void row_portable_gate(enum gate_activation activation, const float *x, const float *up,
                       uint32_t columns, float *out)
{
    for (uint32_t c = 0; c < columns; c++) {
        float v = x[c];
        float inner = v;
        /* gelu_tanh(v) = v * sigmoid(2 sqrt(2/pi) (v + 0.044715 v^3)) */
        if (activation == GATE_GELU_TANH)
            inner = 1.5957691216057308f * v * (1.0f + 0.044715f * v * v);
        float whole = activation == GATE_SIGMOID ? 1.0f : v;
        out[c] = whole / (1.0f + expf(-inner)) * up[c];
    }
}

void row_portable_soft_cap(const float *x, float scale, float cap, uint32_t columns, float *out)
{
    for (uint32_t c = 0; c < columns; c++)
        out[c] = cap > 0.0f ? cap * tanhf(scale * x[c] / cap) : scale * x[c];
}

void row_portable_to_f16(const float *x, uint32_t count, uint16_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        /* the comparison also turns a NaN into a number in range */
        float value = x[i] < 65504.0f ? x[i] : 65504.0f;
        out[i] = ggml_f32_to_f16(value > -65504.0f ? value : -65504.0f);
    }
}
