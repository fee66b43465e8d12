/*
 * The row kernels for AVX2: quantizing activations, normalization, gated activations, soft caps.
 *
 * Columns that do not fill a register go through the same vector code on a padded copy, so that a
 * value's result does not depend on where in a row it stands.
 */
#include "worker/backend/cpu/kernels/row_avx2.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/kernels/simd_lanes_avx2.h"
#include "worker/backend/cpu/kernels/simd_tanh_avx2.h"

/* Sum of sixteen signed bytes. */
static int32_t sum_bytes(__m128i bytes)
{
    __m128i biased = _mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)); /* + 128 each */
    __m128i sums = _mm_sad_epu8(biased, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

/* v: the block's 32 values; left: the remainder after this term. */
static void quantize_term(const __m256 v[4], float scale, float inverse, struct quantized_term *out,
                          __m256 left[4])
{
    __m256i q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
        left[i] = _mm256_fnmadd_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(q[i]), v[i]);
    }
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127)); /* only a NaN gives -128 */
    _mm256_storeu_si256((void *)out->quants, bytes);
    int32_t low = sum_bytes(_mm256_castsi256_si128(bytes));
    int32_t high = sum_bytes(_mm256_extracti128_si256(bytes, 1));
    out->scale = scale;
    out->sum = scale * (float)(low + high);
    out->pair_sums[0][0] = out->pair_sums[0][1] = (int16_t)low;
    out->pair_sums[1][0] = out->pair_sums[1][1] = (int16_t)high;
}

static void quantize_block(const float *x, float outlier_square, struct quantized_block *out)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v[4];
    __m256 left[4];
    __m256 magnitude = _mm256_setzero_ps();
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        /* drops a NaN: max_ps then returns its second operand */
        magnitude = _mm256_max_ps(_mm256_andnot_ps(sign, v[i]), magnitude);
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

void row_avx2_quantize(const float *x, uint32_t columns, float outlier, struct quantized_block *out)
{
    __m256 squares = _mm256_setzero_ps();
    for (uint32_t c = 0; c < columns; c += 8) {
        __m256 v = _mm256_loadu_ps(x + c);
        squares = _mm256_fmadd_ps(v, v, squares);
    }
    float outlier_square = outlier * outlier * simd_sum_lanes(squares) / (float)columns;
    for (uint32_t first = 0; first < columns; first += 32)
        quantize_block(x + first, outlier_square, out++);
}

static __m256 load_tail(const float *x, uint32_t count)
{
    float padded[8] = {0};
    memcpy(padded, x, count * sizeof *x);
    return _mm256_loadu_ps(padded);
}

static void store_tail(__m256 values, float *out, uint32_t count)
{
    float padded[8];
    _mm256_storeu_ps(padded, values);
    memcpy(out, padded, count * sizeof *out);
}

static __m256 norm_values(__m256 x, __m256 factor, __m256 weight, __m256 offset)
{
    return _mm256_mul_ps(_mm256_mul_ps(x, factor), _mm256_add_ps(weight, offset));
}

void row_avx2_rms_norm(const float *x, const float *weight, float offset, float epsilon,
                       const float *add, uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    __m256 sums = _mm256_setzero_ps();
    for (uint32_t c = 0; c < whole; c += 8) {
        __m256 v = _mm256_loadu_ps(x + c);
        sums = _mm256_fmadd_ps(v, v, sums);
    }
    if (tail > 0) {
        __m256 v = load_tail(x + whole, tail);
        sums = _mm256_fmadd_ps(v, v, sums);
    }
    __m256 factor = _mm256_set1_ps(1.0f / sqrtf(simd_sum_lanes(sums) / (float)columns + epsilon));
    __m256 offsets = _mm256_set1_ps(offset);
    for (uint32_t c = 0; c < whole; c += 8) {
        __m256 v =
            norm_values(_mm256_loadu_ps(x + c), factor, _mm256_loadu_ps(weight + c), offsets);
        _mm256_storeu_ps(out + c, add ? _mm256_add_ps(_mm256_loadu_ps(add + c), v) : v);
    }
    if (tail > 0) {
        __m256 v = norm_values(load_tail(x + whole, tail), factor, load_tail(weight + whole, tail),
                               offsets);
        store_tail(add ? _mm256_add_ps(load_tail(add + whole, tail), v) : v, out + whole, tail);
    }
}

/* Keeps the first `count` lanes; the others become 0. */
static __m256 centred_tail(const float *x, uint32_t count, __m256 mean)
{
    float padded[8];
    store_tail(_mm256_sub_ps(load_tail(x, count), mean), padded, count);
    return load_tail(padded, count);
}

void row_avx2_layer_norm(const float *x, const float *weight, float offset, float epsilon,
                         uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    __m256 sums = _mm256_setzero_ps();
    __m256 squares = _mm256_setzero_ps();
    for (uint32_t c = 0; c < whole; c += 8)
        sums = _mm256_add_ps(_mm256_loadu_ps(x + c), sums);
    if (tail > 0)
        sums = _mm256_add_ps(load_tail(x + whole, tail), sums);
    __m256 mean = _mm256_set1_ps(simd_sum_lanes(sums) / (float)columns);
    for (uint32_t c = 0; c < whole; c += 8) {
        __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x + c), mean);
        squares = _mm256_fmadd_ps(v, v, squares);
    }
    if (tail > 0) {
        __m256 v = centred_tail(x + whole, tail, mean);
        squares = _mm256_fmadd_ps(v, v, squares);
    }
    __m256 factor =
        _mm256_set1_ps(1.0f / sqrtf(simd_sum_lanes(squares) / (float)columns + epsilon));
    __m256 offsets = _mm256_set1_ps(offset);
    for (uint32_t c = 0; c < whole; c += 8)
        _mm256_storeu_ps(out + c, norm_values(_mm256_sub_ps(_mm256_loadu_ps(x + c), mean), factor,
                                              _mm256_loadu_ps(weight + c), offsets));
    if (tail > 0)
        store_tail(norm_values(centred_tail(x + whole, tail, mean), factor,
                               load_tail(weight + whole, tail), offsets),
                   out + whole, tail);
}

static __m256 gate_values(enum gate_activation activation, __m256 x, __m256 up)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 inner = x;
    /* gelu_tanh(v) = v * sigmoid(2 sqrt(2/pi) (v + 0.044715 v^3)) */
    if (activation == GATE_GELU_TANH) {
        __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f), one);
        inner = _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.5957691216057308f)), cubic);
    }
    __m256 below = simd_exp_avx2(_mm256_xor_ps(inner, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(one, below)), up);
}

void row_avx2_gate(enum gate_activation activation, const float *x, const float *up,
                   uint32_t columns, float *out)
{
    uint32_t whole = columns / 8 * 8;
    uint32_t tail = columns - whole;
    for (uint32_t c = 0; c < whole; c += 8)
        _mm256_storeu_ps(out + c,
                         gate_values(activation, _mm256_loadu_ps(x + c), _mm256_loadu_ps(up + c)));
    if (tail > 0)
        store_tail(gate_values(activation, load_tail(x + whole, tail), load_tail(up + whole, tail)),
                   out + whole, tail);
}

void row_avx2_soft_cap(const float *x, float scale, float cap, uint32_t columns, float *out)
{
    const __m256 scales = _mm256_set1_ps(scale);
    const __m256 caps = _mm256_set1_ps(cap);
    uint32_t whole = columns / 8 * 8;
    for (uint32_t c = 0; c < columns; c += 8) {
        __m256 v = c < whole ? _mm256_loadu_ps(x + c) : load_tail(x + c, columns - c);
        v = _mm256_mul_ps(scales, v);
        if (cap > 0.0f)
            v = simd_cap_avx2(v, caps);
        if (c < whole)
            _mm256_storeu_ps(out + c, v);
        else
            store_tail(v, out + c, columns - c);
    }
}

void row_avx2_to_f16(const float *x, uint32_t count, uint16_t *out)
{
    /* min_ps and max_ps return their second operand if the first is a NaN */
    const __m256 most = _mm256_set1_ps(65504.0f);
    const __m256 least = _mm256_set1_ps(-65504.0f);
    uint32_t whole = count / 8 * 8;
    for (uint32_t i = 0; i < count; i += 8) {
        __m256 v = i < whole ? _mm256_loadu_ps(x + i) : load_tail(x + i, count - i);
        v = _mm256_max_ps(_mm256_min_ps(v, most), least);
        __m128i halves = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        if (i < whole)
            _mm_storeu_si128((void *)(out + i), halves);
        else
            memcpy(out + i, &halves, (count - i) * sizeof *out);
    }
}
