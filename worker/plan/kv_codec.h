/*
 * Keys and values in few bits. A codec belongs to a head size and a quantization
 * (proto/kv_quantization.h); a *row* is one head's key or value at one position.
 *
 * A block of KV_BLOCK_TOKENS (T) positions of one KV head, little-endian:
 *
 *   keys    codes   u8  [T][code_bytes]
 *           scales  f16 [scales][T]
 *           biases  f16 [scales][T]         uniform only
 *   values  the same with the values' numbers
 *
 * A row's codes are a bit string, lowest bits first, dimension after dimension; each segment has
 * its own number of bits. Eight codes of b bits fill b bytes and a segment has a multiple of eight
 * codes, so no two rows share a byte and every eighth code begins at a byte.
 *
 * The value of a code:
 *   uniform      bias[g] + scale[g] * code, g being the group of the dimension
 *   turboquant   norm * levels[code] in the rotated space; the row is the inverse rotation of that
 *                (kv_rotation.h); norm is the only scale
 *
 * Bytes of a row: uniform dim * bits / 8 + 4 * dim / group; turboquant dim * bits / 8 + 2.
 */
#ifndef SHOAL_WORKER_PLAN_KV_CODEC_H
#define SHOAL_WORKER_PLAN_KV_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/kv_quantization.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "worker/plan/kv_codebook.h"
#include "worker/plan/kv_rotation.h"

#define KV_CODEC_ALIGNMENT 16u /* head sizes are multiples of it */
#define KV_SEGMENTS_MAX    (LIMIT_HEAD_DIM / KV_CODEC_ALIGNMENT)

/* Neighbouring dimensions whose codes have the same bits, scale and levels. */
struct kv_segment {
    uint16_t first;       /* dimension */
    uint16_t count;       /* of dimensions, a multiple of 8 */
    uint16_t code_offset; /* bytes, in a row's codes */
    uint8_t bits;
    uint8_t scale;    /* which of the row's scales */
    uint8_t codebook; /* which of the side's, when it is rotated */
};

struct kv_side {
    uint32_t head_dim;
    bool rotated; /* turboquant: codes are levels, not numbers */
    bool biased;  /* uniform */
    uint32_t segment_count;
    struct kv_segment segments[KV_SEGMENTS_MAX];
    uint32_t scales;       /* of a row */
    uint32_t code_bytes;   /* of a row */
    uint32_t scale_offset; /* of the first scale, from the side's first byte */
    uint32_t bias_offset;
    uint32_t bytes; /* of the side, T positions of a head */
    struct kv_codebook codebooks[2];
    struct kv_rotation rotation; /* when rotated */
};

struct kv_codec {
    struct kv_side key;
    struct kv_side value;
};

/* RESULT_UNSUPPORTED or RESULT_INVALID, with the reason, if heads of this size cannot be quantized
 * this way. */
enum result kv_codec_check(const struct kv_quantization *quantization, uint32_t head_dim,
                           struct error_text *error) RESULT_CHECKED;
/* Bytes of a head in a block: keys, values, both. They need no codec, because memory is budgeted
 * before codecs exist. */
uint32_t kv_codec_key_bytes(const struct kv_quantization *quantization, uint32_t head_dim);
uint32_t kv_codec_value_bytes(const struct kv_quantization *quantization, uint32_t head_dim);
uint32_t kv_codec_head_bytes(const struct kv_quantization *quantization, uint32_t head_dim);
/* Elements that share a scale. */
uint32_t kv_codec_group_size(const struct kv_quantization *quantization, uint32_t head_dim);

/* must(): kv_codec_check() accepts the quantization. Makes the tables, once per load. */
void kv_codec_init(struct kv_codec *codec, const struct kv_quantization *quantization,
                   uint32_t head_dim);
void kv_codec_fini(struct kv_codec *codec);

/* Quantizes row x [head_dim] (NaN and infinities become the nearest finite numbers) into position
 * `slot` of a block; `side_memory` is the side's first byte. Other positions' bytes stay untouched,
 * so threads may write different slots of a block. */
void kv_codec_encode(const struct kv_side *side, const float *x, uint32_t slot,
                     uint8_t *side_memory);
/* out [head_dim]: the values of the codes of `slot`, of a rotated side in the rotated space. */
void kv_codec_decode(const struct kv_side *side, const uint8_t *side_memory, uint32_t slot,
                     float *out);

#endif
