/*
 * Reads rows of GGUF element types and of those made at load: to f32, or taken apart into codes and
 * scales for the packers.
 * This is the definition of quantized weights: the CPU backend reads embedding rows with it, both
 * backends pack with it, and tests compare packed kernels with it.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_GGML_DEQUANTIZE_H
#define SHOAL_WORKER_BACKEND_HOST_GGML_DEQUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ggml_half.h"
#include "proto/gguf_file.h"

/* Bytes of one row of `columns` elements; must() a known type and whole blocks. */
uint64_t ggml_row_bytes(enum ggml_type type, uint32_t columns);

/* out [columns]; `row` has ggml_row_bytes() bytes, of any alignment. */
void ggml_dequantize_row(enum ggml_type type, const void *row, uint32_t columns, float *out);

/* A quantized type's line of GGML_QUANT_LIST (proto/ggml_type_list.h). */
struct ggml_layout {
    uint32_t columns; /* of a block */
    uint32_t bytes;   /* of a block */
    uint32_t bits;    /* of a code */
    uint32_t span;    /* columns per scale */
    bool minimum;     /* or a zero point */
    bool zero;        /* what the minimum is */
    uint32_t center;
    uint32_t offset; /* byte of the block's f16 scale */
    uint32_t table;  /* of ggml_type_list.h */
    bool sub_scales; /* K types: the block's scale times an integer per span */
    bool group;      /* GGML_IS_GROUP() */
};
/* must() a quantized type. */
struct ggml_layout ggml_type_layout(enum ggml_type type);

#define GGML_BLOCK_COLUMNS_MAX 256u
#define GGML_BLOCK_SPANS_MAX   16u

/* The scales of one block as stored. Types without sub-scales: weight = scale * (code - center) +
 * minimum, or scale * (code - zero). K types: weight = scale * scales[s] * (code - center) - minimum * minimums[s] for the
 * columns of span s. */
struct ggml_scales {
    uint16_t scale;   /* f16 bits */
    uint16_t minimum; /* f16 bits, or a zero point's; 0 if the type has neither */
    int8_t scales[GGML_BLOCK_SPANS_MAX]; /* MXFP4: an E8M0 byte, NVFP4: E4M3 bytes */
    uint8_t minimums[GGML_BLOCK_SPANS_MAX];
    float factor; /* NVFP4: the row's */
};
void ggml_unpack_scales(enum ggml_type type, const uint8_t *block, struct ggml_scales *out);

/* The sixteen numbers of a table of ggml_type_list.h, and number `code`. */
const int8_t *ggml_table(uint32_t table);
int8_t ggml_table_number(uint32_t table, uint32_t code);

/* NVFP4: a factor as it is stored says by its sign whether scales are multiplied with it or divided by
 * it, as the publishers' code does. The number of an E4M3 scale under it: */
float ggml_nvfp4_scale(uint8_t scale, float factor);
/* What kernels multiply with, for numbers in units of half. */
float ggml_nvfp4_multiplier(float factor);

/* [16], of NF4_64 or FP4_64. */
const float *ggml_float_numbers(enum ggml_type type);

/* F8 types: the scale of a block with `columns` codes; NaN if a code is NaN. */
float ggml_f8_scale(const uint8_t *block, uint32_t columns);

/* The codes of one block, in column order: quants [columns of the block]. */
void ggml_unpack_quants(enum ggml_type type, const uint8_t *block, int16_t *quants);

#endif
