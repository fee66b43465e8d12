/*
 * How a matrix that no kernel reads as it is stored lies in the checkpoint. weight_source.h turns
 * its rows into rows of a GGUF type.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_LAYOUT_H
#define SHOAL_WORKER_PLAN_WEIGHT_LAYOUT_H

#include <stdint.h>

#include "proto/gguf_file.h"

#define WEIGHT_SOURCE_BLOCK 32u /* columns of a block of every quantized type handed out */

enum weight_layout {
    WEIGHT_IN_PLACE, /* rows of `type` as they are; nothing else is filled */
#define WEIGHT_LAYOUT_ENUM(name, number, columns, bytes) WEIGHT_##name,
    GGML_CONVERTED_LIST(WEIGHT_LAYOUT_ENUM) /* GGUF's blocks */
#undef WEIGHT_LAYOUT_ENUM
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

/* Columns [first, first + count) of a row. */
struct weight_span {
    uint64_t row;
    uint32_t first;
    uint32_t count;
};

/* Number `index` of scales or biases, of the source's scale_type. */
float weight_layout_float(const struct weight_source *source, const uint8_t *floats,
                          uint64_t index);

#endif
