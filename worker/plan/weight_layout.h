/*
 * How a checkpoint stores a matrix that kernels cannot read directly. weight_source.h converts its
 * rows to rows of a GGUF type.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_LAYOUT_H
#define SHOAL_WORKER_PLAN_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gguf_file.h"

#define WEIGHT_SOURCE_BLOCK 32u /* columns of a block of every quantized type that rows become */

enum weight_layout {
    WEIGHT_IN_PLACE, /* stored as rows of `type`; no other field is set */
#define WEIGHT_LAYOUT_ENUM(name, number, columns, bytes) WEIGHT_##name,
    GGML_CONVERTED_LIST(WEIGHT_LAYOUT_ENUM) /* GGUF's blocks */
#undef WEIGHT_LAYOUT_ENUM
    WEIGHT_MXFP4,  /* GGUF's blocks */
    WEIGHT_FP4,    /* nibbles in column order; a separate array of exponents, one per 32 columns */
    WEIGHT_AFFINE, /* codes of `bits` bits in column order; separate scales and biases */
    WEIGHT_FP8,    /* E4M3; separate scales */
    WEIGHT_PACKED, /* integers with zero points, in three orders: weight_integers.h */
    WEIGHT_AWQ,
    WEIGHT_GPTQ,
    WEIGHT_NVFP4, /* 4-bit floats and numbers from a table: weight_nibbles.h */
    WEIGHT_TABLE4,
    WEIGHT_TRANSPOSED,  /* floats of `type`, [columns][rows] */
    WEIGHT_INTERLEAVED, /* floats of `type`: column part * group + c is stored as c * parts + part */
    WEIGHT_SLICE,       /* some columns of rows of `type`; data is where those of row 0 begin */
    WEIGHT_TURNED       /* as F32, some rows of another matrix, transposed: `turned` */
};

struct weight_source;
/* The matrix whose rows from `row` on are the columns of a TURNED one. */
struct weight_turned {
    const struct weight_source *source; /* NULL: `rows` are rows of `type` */
    const uint8_t *rows;
    enum ggml_type type; /* of its rows, as stored or as `source` converts them */
    uint32_t columns;
    uint64_t row;
};

/* TABLE4: scale number i is map[scales[i]] * outer[i / block] + offset; no map: floats. */
struct weight_nested_scales {
    const uint8_t *map;   /* [256] F32 */
    const uint8_t *outer; /* F32 */
    float offset;
    uint32_t block;
};

struct weight_source {
    enum weight_layout layout;
    enum ggml_type type; /* of the converted rows */
    const uint8_t *data; /* [rows][row_bytes]; data, scales and biases have any alignment */
    uint64_t row_bytes;
    uint64_t first_row;    /* row of data and scales that is the matrix's row 0 */
    const uint8_t *scales; /* FP4: [rows][columns / 32] exponents; AFFINE: [rows][columns / group]
                              floats; FP8: [rows / block_rows][columns / block_columns], both
                              rounded up */
    const uint8_t *biases; /* AFFINE: the same shape */
    const uint8_t *zeros;  /* integers: zero points in words; NULL: 2^(bits - 1) */
    const uint8_t *groups; /* integers: I32 [columns], each column's group; NULL: column / group */
    enum ggml_type
        scale_type; /* of scales and biases: F32, F16 or BF16; TABLE4: of the values as stated */
    uint32_t bits;  /* AFFINE: 2 to 6 or 8; integers: 2 to 8 */
    uint32_t
        group; /* columns of a scale, or of a part; AFFINE: a multiple of WEIGHT_SOURCE_BLOCK */
    uint32_t zero_step;  /* GPTQ: what is added to a stored zero point */
    uint64_t block_rows; /* FP8: rows that share a scale; TRANSPOSED, integers: of the matrix */
    uint64_t block_columns;
    float factor;        /* NVFP4: of the whole matrix */
    bool factor_divides; /* NVFP4 */
    const uint8_t
        *table; /* TABLE4: [16] F32; NVFP4_64: F32 factors, of block_rows rows each, or NULL */
    struct weight_nested_scales nested;
    struct weight_turned
        turned; /* row_bytes are a share of the matrix' bytes, for progress alone */
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
