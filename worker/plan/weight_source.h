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
#include "worker/plan/weight_layout.h"

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
void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

#endif
