/*
 * The row kernels in vectors of eight floats (simd_floats.h): quantizing activations, normalization, gated activations, soft caps.
 *
 * Columns that do not fill a register go through the same vector code on a padded copy, so that a
 * value's result does not depend on where in a row it stands.
 */
#include "worker/backend/cpu/kernels/row_simd.h"

#include <math.h>
#include <string.h>

#include "worker/backend/cpu/kernels/simd_math.h"

/* v: the block's 32 values; left: the remainder after this term. */
static void quantize_term(const simd_floats v[4], float scale, float inverse,
                          struct quantized_term *out, simd_floats left[4])
{
    simd_ints q[4];
    int32_t sums[2];
    for (int i = 0; i < 4; i++) {
        q[i] = simd_to_ints(simd_mul(v[i], simd_all(inverse)));
        left[i] = simd_fnma(simd_all(scale), simd_to_floats(q[i]), v[i]);
    }
    simd_store_bytes(out->quants, q, sums);
    out->scale = scale;
    out->sum = scale * (float)(sums[0] + sums[1]);
    out->pair_sums[0][0] = out->pair_sums[0][1] = (int16_t)sums[0];
    out->pair_sums[1][0] = out->pair_sums[1][1] = (int16_t)sums[1];
}

static void quantize_block(const float *x, float outlier_square, struct quantized_block *out)
{
    simd_floats v[4];
    simd_floats left[4];
    simd_floats magnitude = simd_zero();
    for (int i = 0; i < 4; i++) {
        v[i] = simd_load(x + 8 * i);
        /* drops a NaN: max_ps then returns its second operand */
        magnitude = simd_max(simd_magnitude(v[i]), magnitude);
    }
    float largest = simd_largest_lane(magnitude);
    float scale = largest / 127.0f;
    float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    quantize_term(v, scale, inverse, &out->term[0], left);
    if (largest * largest > outlier_square)
        quantize_term(left, scale / QUANTIZE_FINER_STEPS, inverse * QUANTIZE_FINER_STEPS,
                      &out->term[1], v);
    else
        out->term[1] = (struct quantized_term){0};
}

void row_simd_quantize(const float *x, uint32_t columns, float outlier, struct quantized_block *out)
{
    simd_floats squares = simd_zero();
    for (uint32_t c = 0; c < columns; c += 8) {
        simd_floats v = simd_load(x + c);
        squares = simd_fma(v, v, squares);
    }
    float outlier_square = outlier * outlier * simd_sum_lanes(squares) / (float)columns;
    for (uint32_t first = 0; first < columns; first += 32)
        quantize_block(x + first, outlier_square, out++);
}

static simd_floats load_tail(const float *x, uint32_t count)
{
    float padded[8] = {0};
    memcpy(padded, x, count * sizeof *x);
    return simd_load(padded);
}

static void store_tail(simd_floats values, float *out, uint32_t count)
{
    float padded[8];
    simd_store(padded, values);
    memcpy(out, padded, count * sizeof *out);
}

static simd_floats norm_values(simd_floats x, simd_floats factor, simd_floats weight,
                               simd_floats offset)
{
    return simd_mul(simd_mul(x, factor), simd_add(weight, offset));
}

void row_simd_rms_norm(const float *x, const float *weight, float offset, float epsilon,
                       const float *add, uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    simd_floats sums = simd_zero();
    for (uint32_t c = 0; c < whole; c += 8) {
        simd_floats v = simd_load(x + c);
        sums = simd_fma(v, v, sums);
    }
    if (tail > 0) {
        simd_floats v = load_tail(x + whole, tail);
        sums = simd_fma(v, v, sums);
    }
    simd_floats factor = simd_all(1.0f / sqrtf(simd_sum_lanes(sums) / (float)columns + epsilon));
    simd_floats offsets = simd_all(offset);
    for (uint32_t c = 0; c < whole; c += 8) {
        simd_floats v = norm_values(simd_load(x + c), factor, simd_load(weight + c), offsets);
        simd_store(out + c, add ? simd_add(simd_load(add + c), v) : v);
    }
    if (tail > 0) {
        simd_floats v = norm_values(load_tail(x + whole, tail), factor,
                                    load_tail(weight + whole, tail), offsets);
        store_tail(add ? simd_add(load_tail(add + whole, tail), v) : v, out + whole, tail);
    }
}

/* Keeps the first `count` lanes; the others become 0. */
static simd_floats centred_tail(const float *x, uint32_t count, simd_floats mean)
{
    float padded[8];
    store_tail(simd_sub(load_tail(x, count), mean), padded, count);
    return load_tail(padded, count);
}

void row_simd_layer_norm(const float *x, const float *weight, float offset, float epsilon,
                         uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    simd_floats sums = simd_zero();
    simd_floats squares = simd_zero();
    for (uint32_t c = 0; c < whole; c += 8)
        sums = simd_add(simd_load(x + c), sums);
    if (tail > 0)
        sums = simd_add(load_tail(x + whole, tail), sums);
    simd_floats mean = simd_all(simd_sum_lanes(sums) / (float)columns);
    for (uint32_t c = 0; c < whole; c += 8) {
        simd_floats v = simd_sub(simd_load(x + c), mean);
        squares = simd_fma(v, v, squares);
    }
    if (tail > 0) {
        simd_floats v = centred_tail(x + whole, tail, mean);
        squares = simd_fma(v, v, squares);
    }
    simd_floats factor = simd_all(1.0f / sqrtf(simd_sum_lanes(squares) / (float)columns + epsilon));
    simd_floats offsets = simd_all(offset);
    for (uint32_t c = 0; c < whole; c += 8)
        simd_store(out + c, norm_values(simd_sub(simd_load(x + c), mean), factor,
                                        simd_load(weight + c), offsets));
    if (tail > 0)
        store_tail(norm_values(centred_tail(x + whole, tail, mean), factor,
                               load_tail(weight + whole, tail), offsets),
                   out + whole, tail);
}

static simd_floats gate_values(enum gate_activation activation, simd_floats x, simd_floats up)
{
    const simd_floats one = simd_all(1.0f);
    simd_floats inner = x;
    /* gelu_tanh(v) = v * sigmoid(2 sqrt(2/pi) (v + 0.044715 v^3)) */
    if (activation == GATE_GELU_TANH) {
        simd_floats cubic = simd_fma(simd_mul(x, x), simd_all(0.044715f), one);
        inner = simd_mul(simd_mul(x, simd_all(1.5957691216057308f)), cubic);
    }
    simd_floats below = simd_exp(simd_negate(inner));
    simd_floats whole = activation == GATE_SIGMOID ? one : x;
    return simd_mul(simd_div(whole, simd_add(one, below)), up);
}

void row_simd_gate(enum gate_activation activation, const float *x, const float *up,
                   uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    for (uint32_t c = 0; c < whole; c += 8)
        simd_store(out + c, gate_values(activation, simd_load(x + c), simd_load(up + c)));
    if (tail > 0)
        store_tail(gate_values(activation, load_tail(x + whole, tail), load_tail(up + whole, tail)),
                   out + whole, tail);
}

void row_simd_soft_cap(const float *x, float scale, float cap, uint32_t columns, float *out)
{
    const simd_floats scales = simd_all(scale);
    const simd_floats caps = simd_all(cap);
    uint32_t whole = columns / 8 * 8;
    for (uint32_t c = 0; c < columns; c += 8) {
        simd_floats v = c < whole ? simd_load(x + c) : load_tail(x + c, columns - c);
        v = simd_mul(scales, v);
        if (cap > 0.0f)
            v = simd_cap(v, caps);
        if (c < whole)
            simd_store(out + c, v);
        else
            store_tail(v, out + c, columns - c);
    }
}

void row_simd_to_f16(const float *x, uint32_t count, uint16_t *out)
{
    /* min_ps and max_ps return their second operand if the first is a NaN */
    const simd_floats most = simd_all(65504.0f);
    const simd_floats least = simd_all(-65504.0f);
    uint32_t whole = count / 8 * 8;
    for (uint32_t i = 0; i < count; i += 8) {
        simd_floats v = i < whole ? simd_load(x + i) : load_tail(x + i, count - i);
        v = simd_max(simd_min(v, most), least);
        if (i < whole) {
            simd_store_halves(out + i, v);
        } else {
            uint16_t padded[8];
            simd_store_halves(padded, v);
            memcpy(out + i, padded, (count - i) * sizeof *out);
        }
    }
}
