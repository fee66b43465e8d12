/*
 * Weight matrices in the order that the kernels read them: sixteen output rows side by side, so
 * that one vector register holds the same columns of many outputs and no sum across lanes is
 * needed. The layout does not depend on the instruction set; it may be handed to another process
 * (PACKED_LAYOUT_VERSION).
 *
 * A matrix is a run of groups of PACKED_ROWS rows (the last one padded with zeros). A quantized
 * group is a run of units, each a run of blocks of 32 columns; NVFP4's begins with f32 factor[16],
 * which are NaN for a row with a NaN among its scales, as each of its products is.
 *
 *   unit   blocks, then for the K types f16 d[16] (and, with a minimum, f16 dmin[16])
 *   block  planes, then scales:
 *            one block    f16 d[16] (and f16 m[16])
 *            two or four  none: f16 d[16] and f16 m[16], of zero points z[16], follow the blocks
 *            Q4_K, Q5_K   u8 scale[16], u8 minimum[16]
 *            Q2_K         per 16 columns: u8 (scale | minimum << 4)[16]
 *            Q3_K, Q6_K   per 16 columns: s8 scale[16]
 *            IQ4_XS       s8 scale[16]
 *            N4_…         per 16 columns: s8 scale[16]
 *            MXFP4        E8M0 scale[16]
 *            NVFP4        per 16 columns: E4M3 scale[16]
 *
 * A quad is four consecutive columns; quad q (0..7) of row r, column c (0..3) has lane byte 4r + c
 * in 64 bytes. Each bit set in `bits` is one plane of the values, highest first:
 *
 *   8  eight quads of 64 bytes, signed                                        512 bytes
 *   4  low nibble: quads 0..3, high nibble: quads 4..7; value bits 0..3       256 bytes
 *   2  64 bytes for quads 0..3, 64 for 4..7, bit pair q % 4; next value bits  128 bytes
 *   1  64 bytes, bit q; the value's top bit                                   64 bytes
 *
 * A float group keeps its element width: [columns][16]. A group of types with f32 scales is a run of units:
 *
 *   unit   f32 scale[16], then of NF4_64 and FP4_64 [columns / 2][16] bytes, the even column's nibble low;
 *          of F8 types [columns / 2][16][2] E4M3 bytes: both columns of a pair side by side.
 *          The scale of a row with a NaN in the unit is NaN, as each of its products is, so that
 *          kernels need not look for NaNs.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_PACKED_WEIGHT_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_PACKED_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_file.h"

#define PACKED_LAYOUT_VERSION 7u
#define PACKED_ROWS           16u
#define PACKED_COLUMNS        32u /* of a block */

enum packed_kind {
#define PACKED_ENUM(kind, name, ...) PACKED_##name = kind,
    GGML_QUANT_LIST(PACKED_ENUM) GGML_FLOAT_LIST(PACKED_ENUM)
#undef PACKED_ENUM
        PACKED_KIND_COUNT
};

/* What follows from a type's line of GGML_QUANT_LIST (proto/ggml_type_list.h): blocks per unit, the
 * number subtracted from packed codes, byte sizes. */
#define PACKED_BLOCKS(columns)               ((columns) / PACKED_COLUMNS)
#define PACKED_CENTER(bits, minimum, center) ((center) + GGML_SIGN_OFFSET(bits, minimum))
#define PACKED_PLANE_BYTES(bits)             (64u * (bits))
/* A byte for 16 or 32 columns, and of Q4_K and Q5_K a second one. */
#define PACKED_BYTE_SCALES(span, minimum) ((span) == 16 || (minimum) ? 32u : 16u)
#define PACKED_SCALE_BYTES(blocks, span, minimum, table)                                           \
    ((blocks) == 8 || GGML_SCALES(table, span) != GGML_SCALES_HALF                                 \
         ? PACKED_BYTE_SCALES(span, minimum)                                                       \
     : (blocks) == 1 ? 32u + 32u * ((minimum) != 0)                                                \
                     : 0u)
#define PACKED_BLOCK_BYTES(bits, blocks, span, minimum, table)                                     \
    (PACKED_PLANE_BYTES(bits) + PACKED_SCALE_BYTES(blocks, span, minimum, table))
#define PACKED_UNIT_BYTES(bits, blocks, span, minimum, table)                                      \
    ((blocks)*PACKED_BLOCK_BYTES(bits, blocks, span, minimum, table) +                             \
     ((blocks) > 1 ? 32u + 32u * ((minimum) != 0) : 0u))
#define PACKED_FACTOR_BYTES(span, table)                                                           \
    (GGML_SCALES(table, span) == GGML_SCALES_E4M3 ? 4u * PACKED_ROWS : 0u)

/* Types with f32 scales: bytes of a unit, and of a pair of its columns. */
#define PACKED_F8_SCALE_BYTES         (4u * PACKED_ROWS)
#define PACKED_F8_PAIR_BYTES          (2u * PACKED_ROWS)
#define PACKED_F8_UNIT_BYTES(columns) (PACKED_F8_SCALE_BYTES + PACKED_ROWS * (columns))
#define PACKED_F4_PAIR_BYTES          PACKED_ROWS
#define PACKED_F4_UNIT_BYTES(columns) (PACKED_F8_SCALE_BYTES + PACKED_ROWS * (columns) / 2u)

struct packed_shape {
    enum packed_kind kind;
    bool quantized;        /* false: floats */
    bool minimum;          /* or a zero point */
    bool zero;             /* what the minimum is */
    uint32_t bits;         /* quantized, or with f32 scales */
    uint32_t span;         /* columns per scale */
    uint32_t table;        /* of ggml_type_list.h */
    uint32_t scales;       /* GGML_SCALES_… */
    uint32_t blocks;       /* per unit */
    uint32_t factor_bytes; /* at the beginning of a group */
    uint32_t block_bytes;
    uint32_t center; /* subtracted from a value, of A8 while packing: its bytes are signed then */
    uint32_t scaled; /* types with f32 scales: columns of a unit, else 0 */
    uint32_t unit_bytes; /* float kinds without scales: of one column */
    uint32_t unit_columns;
};
/* must() a type of the lists. */
struct packed_shape packed_weight_shape(enum ggml_type type);

struct packed_weight {
    enum packed_kind kind;
    bool quantized;
    uint32_t matrices; /* of a stack of experts, consecutive, each of whole groups */
    uint32_t rows;     /* of one matrix, as the fields below */
    uint32_t columns;
    uint32_t groups;
    size_t group_bytes;
    uint8_t *data; /* [matrices][groups][group_bytes], starts 64-byte aligned */
};

/* Shape of one or more [rows, columns] matrices; data is NULL. */
struct packed_weight packed_weight_describe(enum ggml_type type, uint32_t matrices, uint32_t rows,
                                            uint32_t columns);
uint64_t packed_weight_bytes(const struct packed_weight *weight);

/* Fills group `group`, counted through all matrices, from the checkpoint's rows (`source`: all rows
 * of the group's matrix). */
void packed_weight_fill_group(const struct packed_weight *weight, enum ggml_type type,
                              const void *source, uint32_t group);
/* Rows of a group that exist: PACKED_ROWS, or fewer in the last one. */
uint32_t packed_weight_group_rows(const struct packed_weight *weight, uint32_t group);
/* The same from the group's own rows alone. */
void packed_weight_fill_rows(const struct packed_weight *weight, enum ggml_type type,
                             const void *rows, uint32_t group);

#endif
