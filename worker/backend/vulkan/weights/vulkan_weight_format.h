/*
 * The layout of a weight matrix in device memory: made from a checkpoint's rows once, at load, and
 * read by every Vulkan kernel (shaders/weight_blocks.glsl). The constants of each type are in
 * proto/ggml_type_list.h.
 *
 * A matrix [rows, columns] is three arrays, each starting at a multiple of 16 bytes. Weight = scale
 * * code + minimum, or scale * (code - zero), or scale * (code - center) for kinds with neither, or
 * scale * table[code].
 *
 *   codes, quantized: blocks of 32 columns, block (row, b) at index row * (columns / 32) + b
 *     4 bits: 16 bytes; column e < 16 in the low nibble of byte e, else the high one of e - 16
 *     2 bits: 2 words; column e in word e / 16 at bit 8 * (e % 4) + 2 * (e % 16 / 4)
 *     8 bits: 32 signed bytes in order; of A8, whose codes are unsigned, each less 128
 *   codes, float: rows in order, each padded with zeros to a multiple of 16 bytes; of F8 types E4M3 bytes
 *   high: upper bits of codes that have more than 4 (or 2) of them, by the same block index
 *     1 bit: 1 word; column e at bit 8 * (e % 4) + e / 4
 *     2 bits: as the 2-bit codes
 *   scales, F8 types: per block of 128 or 32 columns one f32; NaN if the block has a NaN, as each
 *     product with the row is then, so that kernels need not look for NaNs
 *   scales, quantized: per span of 16 to 128 columns one f16, or two {scale, minimum or zero point}; K types' products are
 *     rounded to f16 here, and so is A8's minimum with 128 scales added. Those of other forms:
 *     IQ4_XS, N4_…: per 256 columns one f16, to be multiplied with high: per 32 or 16 columns one signed byte
 *     MXFP4: per 32 columns one E8M0 byte, from GGML_E8M0_MIN to GGML_E8M0_MAX
 *     NVFP4: per 16 columns one E4M3 byte, to be multiplied with high: per 2^s blocks one f32, the
 *       row's factor, NaN if the row has a scale that is NaN; 2^s divides a row's blocks. The four low
 *       bits of the address of `high` that kernels are given are s (vulkan_weight_format_high())
 *
 * The codes of four neighbouring columns are always the four bytes of one word after a shift and a
 * mask, as packed dot products and conversions to f16 need them.
 *
 * Matrices of one kind and width may be packed consecutively (q | k | v).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_FORMAT_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/gguf_file.h"

/* A vault's manifest must match it. */
#define VULKAN_WEIGHT_LAYOUT_VERSION 7u
#define VULKAN_WEIGHT_BLOCK_COLUMNS  32u
#define VULKAN_WEIGHT_ALIGN_BYTES    16u

/* The specialization constant WEIGHT_KIND of shaders. */
enum vulkan_weight_kind {
#define VULKAN_WEIGHT_ENUM(kind, name, ...) VULKAN_WEIGHT_##name = kind,
    GGML_QUANT_LIST(VULKAN_WEIGHT_ENUM) GGML_FLOAT_LIST(VULKAN_WEIGHT_ENUM)
#undef VULKAN_WEIGHT_ENUM
        VULKAN_WEIGHT_KIND_COUNT
};

/* The form of scales: as the header's list says. */
enum vulkan_weight_scales {
    VULKAN_SCALES_HALF,
    VULKAN_SCALES_E8M0,
    VULKAN_SCALES_E4M3,
    VULKAN_SCALES_BYTES /* IQ4_XS, N4_… */
};

struct vulkan_weight_facts {
    enum ggml_type type;
    bool quantized;
    bool minimum;       /* or a zero point */
    bool zero;          /* what the minimum is */
    uint32_t code_bits; /* float kinds: of an element */
    uint32_t high_bits;
    uint32_t span; /* columns per scale; 0: no scales */
    uint32_t center;
    enum vulkan_weight_scales scales;
};

/* must() a type of GGML_QUANT_LIST or GGML_FLOAT_LIST. */
enum vulkan_weight_kind vulkan_weight_format_kind(enum ggml_type type);
struct vulkan_weight_facts vulkan_weight_format_facts(enum vulkan_weight_kind kind);

/* Bytes of the three arrays, of one row or of a matrix. */
struct vulkan_weight_bytes {
    uint64_t codes;
    uint64_t high;
    uint64_t scales;
};

/* Of one row: row r of an array starts at r times this. must() whole blocks of the type. */
struct vulkan_weight_bytes vulkan_weight_format_row_bytes(enum vulkan_weight_kind kind,
                                                          uint32_t columns);
/* Of a matrix, each rounded up to a multiple of VULKAN_WEIGHT_ALIGN_BYTES; 0 if the kind has no
 * such array. */
struct vulkan_weight_bytes vulkan_weight_format_bytes(enum vulkan_weight_kind kind, uint32_t rows,
                                                      uint32_t columns);

/* The address of `high` as kernels are given it, of rows of so many columns, from where it lies. */
uint64_t vulkan_weight_format_high(enum vulkan_weight_kind kind, uint32_t columns,
                                   uint64_t address);

/* Destination of packed rows: the first row's place in each array. `high` and `scales` may be NULL
 * if the kind has none. No alignment is required. */
struct vulkan_weight_arrays {
    uint8_t *codes;
    uint8_t *high;
    uint8_t *scales;
};

/* Packs `row_count` rows of a checkpoint ([row_count] times ggml_row_bytes(), any alignment), which
 * may be a slice of a matrix. Rows are independent: slices may be packed in any order and by
 * several threads. */
void vulkan_weight_format_pack(enum vulkan_weight_kind kind, const void *source, uint32_t row_count,
                               uint32_t columns, const struct vulkan_weight_arrays *out);

#endif
