/*
 * One row of a checkpoint tensor, in any element type that Shoal reads, to f32: the definition of
 * what quantized weights mean. Used to fetch embedding rows and as the reference that packed
 * kernels are tested against.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_GGML_DEQUANTIZE_H
#define SHOAL_WORKER_BACKEND_HOST_GGML_DEQUANTIZE_H

#include <stdint.h>

#include "proto/ggml_half.h"
#include "proto/gguf_file.h"

/* Bytes of one row of `columns` elements; must() a known type and whole blocks. */
uint64_t ggml_row_bytes(enum ggml_type type, uint32_t columns);

/* out [columns]; `row` has ggml_row_bytes() bytes, of any alignment. */
void ggml_dequantize_row(enum ggml_type type, const void *row, uint32_t columns, float *out);

/* The 6-bit scale and minimum of 32-element sub-block `index` (0..7) of a Q4_K or Q5_K block;
 * `packed` [12]. */
void ggml_k4_scale_min(const uint8_t *packed, uint32_t index, uint8_t *scale, uint8_t *minimum);
/* The sixteen 6-bit scales of a Q3_K block, as -32..31; `packed` [12], scales [16]. */
void ggml_q3_k_scales(const uint8_t *packed, int8_t *scales);

/*
 * The integer part of one block: quants [elements of the block] as stored, before scale, offset or
 * minimum (unsigned; Q8_0: the signed byte). `type` is a quantized one.
 */
void ggml_unpack_quants(enum ggml_type type, const uint8_t *block, int16_t *quants);

#endif
