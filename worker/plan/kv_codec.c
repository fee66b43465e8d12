/*
 * Rows to codes and back. This file is the specification; attention kernels unpack the same bytes
 * in their own ways.
 *
 * Uniform: a group's smallest element is its bias, its range divided by the largest code its scale.
 * Both are rounded to f16 before codes are chosen, so codes minimize the error with the rounded
 * numbers.
 *
 * Turboquant: the coordinates of a rotated unit vector have the same distribution for any row, so
 * one table of levels serves all (kv_codebook.h). With a fractional number of bits, the first part
 * of the rotated coordinates has codes with one bit more than the rest. After a random rotation all
 * coordinates matter equally, so this choice needs no data, and a row's codes depend on the row
 * alone.
 */
#include "worker/plan/kv_codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/kv_block.h"

#define LARGEST_HALF 65504.0f
#define LEAST_NORM   1e-6
#define PACK         8u /* codes that fill whole bytes */

/* --- layout ----------------------------------------------------------------------------------- */

uint32_t kv_codec_group_size(const struct kv_quantization *quantization, uint32_t head_dim)
{
    if (quantization->scheme == KV_QUANT_TURBOQUANT)
        return head_dim;
    if (quantization->group_size > 0)
        return quantization->group_size;
    uint32_t size = 64;
    while (head_dim % size != 0)
        size /= 2;
    return size;
}

enum result kv_codec_check(const struct kv_quantization *quantization, uint32_t head_dim,
                           struct error_text *error)
{
    if (head_dim % KV_CODEC_ALIGNMENT != 0 || head_dim > LIMIT_HEAD_DIM || head_dim == 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "a KV cache of heads of %u elements cannot be quantized: only multiples "
                         "of %u can",
                         head_dim, KV_CODEC_ALIGNMENT);
    if (quantization->group_size > 0 && head_dim % quantization->group_size != 0)
        return error_set(error, RESULT_INVALID,
                         "--kv-group-size %u does not divide the model's heads of %u elements",
                         quantization->group_size, head_dim);
    return RESULT_OK;
}

static void add_segment(struct kv_side *side, uint32_t count, uint32_t bits, uint32_t scale,
                        uint32_t codebook)
{
    uint32_t first = 0;
    if (count == 0)
        return;
    must(side->segment_count < KV_SEGMENTS_MAX && count % PACK == 0);
    for (uint32_t i = 0; i < side->segment_count; i++)
        first += side->segments[i].count;
    side->segments[side->segment_count++] =
        (struct kv_segment){.first = (uint16_t)first,
                            .count = (uint16_t)count,
                            .code_offset = (uint16_t)side->code_bytes,
                            .bits = (uint8_t)bits,
                            .scale = (uint8_t)scale,
                            .codebook = (uint8_t)codebook};
    side->code_bytes += count / PACK * bits;
}

/* Everything but tables. */
static void lay_out_side(struct kv_side *side, const struct kv_quantization *quantization,
                         uint32_t half_bits, uint32_t head_dim)
{
    *side = (struct kv_side){.head_dim = head_dim};
    side->rotated = quantization->scheme == KV_QUANT_TURBOQUANT;
    side->biased = quantization->scheme == KV_QUANT_UNIFORM;
    if (side->rotated) {
        uint32_t finer = half_bits % 2 != 0 ? head_dim / 2 : 0;
        add_segment(side, finer, half_bits / 2 + 1, 0, 0);
        add_segment(side, head_dim - finer, half_bits / 2, 0, finer > 0);
        side->scales = 1;
    } else {
        uint32_t size = kv_codec_group_size(quantization, head_dim);
        for (uint32_t first = 0; first < head_dim; first += size)
            add_segment(side, size, half_bits / 2, side->scales++, 0);
    }
    uint32_t scales_bytes = side->scales * KV_BLOCK_TOKENS * (uint32_t)sizeof(uint16_t);
    side->scale_offset = side->code_bytes * KV_BLOCK_TOKENS;
    side->bias_offset = side->scale_offset + scales_bytes;
    side->bytes = side->bias_offset + (side->biased ? scales_bytes : 0);
}

uint32_t kv_codec_key_bytes(const struct kv_quantization *quantization, uint32_t head_dim)
{
    struct kv_side side;
    lay_out_side(&side, quantization, quantization->key_half_bits, head_dim);
    return side.bytes;
}

uint32_t kv_codec_value_bytes(const struct kv_quantization *quantization, uint32_t head_dim)
{
    struct kv_side side;
    lay_out_side(&side, quantization, quantization->value_half_bits, head_dim);
    return side.bytes;
}

uint32_t kv_codec_head_bytes(const struct kv_quantization *quantization, uint32_t head_dim)
{
    return kv_codec_key_bytes(quantization, head_dim) +
           kv_codec_value_bytes(quantization, head_dim);
}

static void init_side(struct kv_side *side, const struct kv_quantization *quantization,
                      uint32_t half_bits, uint32_t head_dim, uint32_t which)
{
    lay_out_side(side, quantization, half_bits, head_dim);
    if (!side->rotated)
        return;
    kv_rotation_init(&side->rotation, head_dim, which);
    for (uint32_t i = 0; i < side->segment_count; i++)
        kv_codebook_init(&side->codebooks[side->segments[i].codebook], head_dim,
                         side->segments[i].bits);
}

void kv_codec_init(struct kv_codec *codec, const struct kv_quantization *quantization,
                   uint32_t head_dim)
{
    must(kv_codec_check(quantization, head_dim, NULL) == RESULT_OK);
    init_side(&codec->key, quantization, quantization->key_half_bits, head_dim, 0);
    init_side(&codec->value, quantization, quantization->value_half_bits, head_dim, 1);
}

void kv_codec_fini(struct kv_codec *codec)
{
    kv_rotation_fini(&codec->key.rotation);
    kv_rotation_fini(&codec->value.rotation);
}

/* --- rows ------------------------------------------------------------------------------------- */

static float held(float x, float largest)
{
    float value = x < largest ? x : largest; /* so that a NaN becomes a number, too */
    return value > -largest ? value : -largest;
}

static uint16_t half_of(float x)
{
    return ggml_f32_to_f16(held(x, LARGEST_HALF));
}

static uint16_t load_half(const uint8_t *side_memory, uint32_t offset, uint32_t scale,
                          uint32_t slot)
{
    return ggml_load_u16(side_memory + offset + 2 * ((size_t)scale * KV_BLOCK_TOKENS + slot));
}

static void store_half(uint8_t *side_memory, uint32_t offset, uint32_t scale, uint32_t slot,
                       uint16_t half)
{
    uint8_t *at = side_memory + offset + 2 * ((size_t)scale * KV_BLOCK_TOKENS + slot);
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

/* Writes codes [segment->count], each below 2^bits, to their place in a row's codes. */
static void pack(const struct kv_segment *segment, const uint8_t *codes, uint8_t *row)
{
    uint8_t *at = row + segment->code_offset;
    for (uint32_t first = 0; first < segment->count; first += PACK, at += segment->bits) {
        uint64_t string = 0;
        for (uint32_t i = 0; i < PACK; i++)
            string |= (uint64_t)codes[first + i] << (i * segment->bits);
        for (uint32_t byte = 0; byte < segment->bits; byte++)
            at[byte] = (uint8_t)(string >> (8 * byte));
    }
}

static void unpack(const struct kv_segment *segment, const uint8_t *row, uint8_t *codes)
{
    const uint8_t *at = row + segment->code_offset;
    const uint64_t mask = (1u << segment->bits) - 1;
    for (uint32_t first = 0; first < segment->count; first += PACK, at += segment->bits) {
        uint64_t string = 0;
        for (uint32_t byte = 0; byte < segment->bits; byte++)
            string |= (uint64_t)at[byte] << (8 * byte);
        for (uint32_t i = 0; i < PACK; i++)
            codes[first + i] = (uint8_t)(string >> (i * segment->bits) & mask);
    }
}

/* Converts x [segment->count] to codes; sets the group's scale and bias. */
static void quantize_group(const struct kv_side *side, const struct kv_segment *segment,
                           const float *x, uint32_t slot, uint8_t *side_memory, uint8_t *codes)
{
    const float most = (float)((1u << segment->bits) - 1);
    float low = x[0], high = x[0];
    for (uint32_t d = 1; d < segment->count; d++) {
        low = fminf(low, x[d]);
        high = fmaxf(high, x[d]);
    }
    const uint16_t bias = half_of(low);
    const uint16_t scale = half_of(high / most - low / most);
    store_half(side_memory, side->bias_offset, segment->scale, slot, bias);
    store_half(side_memory, side->scale_offset, segment->scale, slot, scale);
    const float step = ggml_f16_to_f32(scale), origin = ggml_f16_to_f32(bias);
    for (uint32_t d = 0; d < segment->count; d++) {
        float code = step > 0.0f ? rintf((x[d] - origin) / step) : 0.0f;
        codes[d] = (uint8_t)fminf(fmaxf(code, 0.0f), most);
    }
}

/* The number of bounds below each element of y [segment->count]. */
static void find_levels(const struct kv_codebook *codebook, uint32_t count, const float *y,
                        uint8_t *codes)
{
    memset(codes, 0, count);
    for (uint32_t i = 0; i + 1 < 1u << codebook->bits; i++)
        for (uint32_t d = 0; d < count; d++)
            codes[d] = (uint8_t)(codes[d] + (y[d] > codebook->bounds[i]));
}

/* y [head_dim] becomes the rotated unit vector; stores the norm, rounded to f16. */
static void rotate_row(const struct kv_side *side, float *y, uint32_t slot, uint8_t *side_memory)
{
    double squares = 0.0;
    for (uint32_t d = 0; d < side->head_dim; d++)
        squares += (double)y[d] * (double)y[d];
    double norm = sqrt(squares);
    float norm_held = norm < (double)LARGEST_HALF ? (float)norm : LARGEST_HALF;
    store_half(side_memory, side->scale_offset, 0, slot, half_of(norm_held));
    double factor = 1.0 / (norm > LEAST_NORM ? norm : LEAST_NORM);
    for (uint32_t d = 0; d < side->head_dim; d++)
        y[d] = (float)((double)y[d] * factor);
    kv_rotation_apply(&side->rotation, y);
}

void kv_codec_encode(const struct kv_side *side, const float *x, uint32_t slot,
                     uint8_t *side_memory)
{
    float y[LIMIT_HEAD_DIM];
    uint8_t codes[LIMIT_HEAD_DIM];
    uint8_t *row = side_memory + (size_t)slot * side->code_bytes;
    for (uint32_t d = 0; d < side->head_dim; d++)
        y[d] = held(x[d], FLT_MAX);
    if (side->rotated)
        rotate_row(side, y, slot, side_memory);
    for (uint32_t i = 0; i < side->segment_count; i++) {
        const struct kv_segment *segment = &side->segments[i];
        if (side->rotated)
            find_levels(&side->codebooks[segment->codebook], segment->count, y + segment->first,
                        codes);
        else
            quantize_group(side, segment, y + segment->first, slot, side_memory, codes);
        pack(segment, codes, row);
    }
}

void kv_codec_decode(const struct kv_side *side, const uint8_t *side_memory, uint32_t slot,
                     float *out)
{
    uint8_t codes[LIMIT_HEAD_DIM];
    const uint8_t *row = side_memory + (size_t)slot * side->code_bytes;
    for (uint32_t i = 0; i < side->segment_count; i++) {
        const struct kv_segment *segment = &side->segments[i];
        const float *levels = side->codebooks[segment->codebook].levels;
        float scale =
            ggml_f16_to_f32(load_half(side_memory, side->scale_offset, segment->scale, slot));
        float bias =
            side->biased
                ? ggml_f16_to_f32(load_half(side_memory, side->bias_offset, segment->scale, slot))
                : 0.0f;
        unpack(segment, row, codes);
        for (uint32_t d = 0; d < segment->count; d++)
            out[segment->first + d] =
                bias + scale * (side->rotated ? levels[codes[d]] : (float)codes[d]);
    }
}
