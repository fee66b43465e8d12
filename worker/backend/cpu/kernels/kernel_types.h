/*
 * Arguments of the kernels: quantized activations, tiles of products and of attention.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_KERNEL_TYPES_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_KERNEL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "worker/backend/cpu/weights/packed_weight.h"
#include "worker/backend/host/backend_options.h"
#include "worker/plan/kv_codec.h"

/*
 * 32 activations of one row as bytes, in one term or two:
 *
 *   x ~ term[0].scale * term[0].quants + term[1].scale * term[1].quants
 *
 * The first scale is max |x| / 127. In a block with an outlier (above QUANTIZE_OUTLIER times the
 * root mean square of the columns quantized together) that scale leaves few steps for the other
 * values, so the block gets a second term: the remainder of the first, in steps 254 times finer.
 * The second term of all other blocks is zeros, which kernels skip. Quants are rounded to nearest
 * even. sum is scale * (sum of quants); pair_sums[h] repeats the sum of quants of columns
 * 16h..16h+15 twice, ready for pairwise multiply-add.
 *
 * About a fifth of all blocks have a second term, which more than halves the error of logits
 * (../README.md). With activations of 16 bits (backend_options) all blocks have one (QUANTIZE_ALL).
 */
struct quantized_term {
    int8_t quants[32];
    float scale;
    float sum;
    int16_t pair_sums[2][2];
};
struct quantized_block {
    struct quantized_term term[2];
};
_Static_assert(sizeof(struct quantized_block) == 96, "kernels step through rows of these");
#define QUANTIZE_OUTLIER     4.0f
#define QUANTIZE_ALL         0.0f   /* every block that is not all zeros gets a second term */
#define QUANTIZE_FINER_STEPS 254.0f /* a rounding error of half a step becomes at most 127 */

/*
 * Memory of a thread for kernels that arrange activations anew (the AMX tier), which they keep from one
 * group to the next. The caller sets x to NULL when the activations that it points at may have changed.
 */
struct linear_scratch {
    const void *x; /* what `memory` holds: the activations of such a tile, or NULL */
    uint32_t rows;
    uint32_t columns;
    size_t bytes;
    void *memory; /* 64-byte aligned */
};
/* Of 16 rows by 32 columns. */
#define LINEAR_ARRANGED_BYTES 1728u

/* Sixteen outputs for `rows` rows: out[r, 0..15] = add[r, 0..15] + x[r, :] . group^T. */
struct linear_tile {
    const uint8_t *group; /* one group of a packed_weight */
    uint32_t columns;
    uint32_t rows;
    const void *x; /* quantized kinds: struct quantized_block [rows][columns / 32]; float kinds: f32
                      [rows][columns] */
    size_t x_stride_bytes; /* between rows */
    const float *add;      /* NULL: zeros; may be out; same stride */
    float *out;
    size_t out_stride;              /* floats between rows */
    struct linear_scratch *scratch; /* of the calling thread, or NULL: kernels must do without */
};

/*
 * Attention of a few queries (`rows` consecutive positions times `heads` query heads) over one KV
 * head of one sequence. Keys are visited in tiles of ATTENTION_TILE positions aligned to position
 * 0. A block holds keys [head_dim][KV_BLOCK_TOKENS] and then values [KV_BLOCK_TOKENS][head_dim], as
 * f16 or f32; or, with a codec, rows of codes (worker/plan/kv_codec.h): then queries are rotated
 * once, and sums of values are rotated back once.
 */
#define ATTENTION_TILE    64u
#define ATTENTION_QUERIES 16u /* rows * heads at most */

struct attention_tile {
    const float *queries; /* [rows, heads, head_dim], rows query_stride apart */
    size_t query_stride;
    float *out; /* [rows, heads, head_dim], rows out_stride apart */
    size_t out_stride;
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t first_position; /* of the first row */
    const uint32_t *ends;    /* [rows] end of the positions that a row sees; NULL: its own + 1 */
    uint32_t window;         /* 0: all */
    float scale;
    float soft_cap; /* of scores; 0: none */
    const float *
        biases; /* [rows * heads, bias_stride] that are added to the scores of positions, or NULL; may be read up to the
                            end of the last block */
    size_t bias_stride;
    const float *sinks; /* [heads], or NULL: a score of each softmax, of a value of zeros */
    enum kv_cache_type cache_type;
    const struct kv_codec *codec; /* NULL: elements of cache_type */
    bool latent;                  /* values are the keys; not with a codec */
    const uint8_t *cache;         /* keys of this layer and head in physical block 0 */
    size_t block_bytes;           /* between physical blocks */
    const uint32_t *block_table;
    float *scratch; /* attention_scratch_floats(head_dim, latent), 64-byte aligned */
};

#endif
