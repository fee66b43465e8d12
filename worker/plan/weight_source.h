/*
 * Weights that no kernel reads as they are stored: how they lie in the checkpoint, and their rows
 * in a GGUF element type that holds every value exactly. Backends pack the latter like any other
 * row of that type, so a new way of storing weights needs no kernel.
 *
 *   IQ4_NL (GGUF)                                   Q8_0
 *
 *   MXFP4 (GGUF); FP4 with an exponent per 32       Q5_0, or BF16
 *
 *   groups with scale and bias (MLX), 2 3 4 bits    Q4_1, or F32
 *
 *   the same, 5 bits                                Q5_1, or F32
 *
 *   the same, 6 8 bits                              A8, or F32
 *
 *   E4M3 with scales                                BF16, rounded (weight_fp8.c)
 *
 *   floats, columns before rows                     the same floats
 *
 * The smaller type is exact where its scales fit in halves. Whether they do is seen by reading all
 * of them when the checkpoint is opened (weight_source_choose_type()).
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_SOURCE_H
#define SHOAL_WORKER_PLAN_WEIGHT_SOURCE_H

#include <stdint.h>

#include "proto/gguf_file.h"

#define WEIGHT_SOURCE_BLOCK 32u /* columns of a block of every quantized type handed out */

enum weight_layout {
    WEIGHT_IN_PLACE,  /* rows of `type` as they are; nothing else is filled */
    WEIGHT_IQ4_NL,    /* GGUF's blocks: a half, 16 bytes of nibbles */
    WEIGHT_MXFP4,     /* GGUF's blocks: an exponent, 16 bytes of nibbles */
    WEIGHT_FP4,       /* nibbles in column order; exponents apart, one per 32 columns */
    WEIGHT_AFFINE,    /* codes of `bits` bits in column order; scales and biases apart */
    WEIGHT_FP8,       /* E4M3; scales apart */
    WEIGHT_TRANSPOSED /* floats of `type`, [columns][rows] */
};

struct weight_source {
    enum weight_layout layout;
    enum ggml_type type; /* of the rows handed out */
    const uint8_t *data; /* [rows][row_bytes], of any alignment, as all that follows */
    uint64_t row_bytes;
    uint64_t first_row;    /* of data and scales, which row 0 of the matrix is */
    const uint8_t *scales; /* FP4: [rows][columns / 32] exponents; AFFINE: [rows][columns / group]
                              floats; FP8: [rows / block_rows][columns / block_columns], both
                              rounded up */
    const uint8_t *biases; /* AFFINE: the same shape */
    enum ggml_type scale_type; /* of scales and biases: F32, F16 or BF16 */
    uint32_t bits;             /* AFFINE: 2 to 6 or 8 */
    uint32_t group;            /* AFFINE: columns of a scale, a multiple of WEIGHT_SOURCE_BLOCK */
    uint64_t block_rows;       /* FP8: that share a scale; TRANSPOSED: all of the matrix */
    uint64_t block_columns;
};

/* The source of a GGUF tensor; WEIGHT_IN_PLACE where kernels read its type. */
struct weight_source weight_source_of_gguf(const struct gguf_tensor *tensor);

/* Chooses `type`: the smallest that is exact. Reads every scale of the [rows, columns] matrix. */
void weight_source_choose_type(struct weight_source *source, uint64_t rows, uint64_t columns);

/* The type that holds whatever the layout stores: what matrices of one layout, whose smallest types
 * differ, can be handed out as together. */
enum ggml_type weight_source_wide_type(const struct weight_source *source);

/*
 * Columns [first, first + count) of a row as `type` lays them out, to `out`; both are multiples of
 * WEIGHT_SOURCE_BLOCK, but for FP8 and TRANSPOSED. `columns` is the matrix's. must() a source that
 * is not in place.
 */
struct weight_span {
    uint64_t row;
    uint32_t first;
    uint32_t count;
};
void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

/* Number `index` of scales or biases, of the source's scale_type. */
float weight_source_float(const struct weight_source *source, const uint8_t *floats,
                          uint64_t index);

#endif
