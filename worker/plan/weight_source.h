/*
 * Converts weights that kernels cannot read as the checkpoint stores them to rows of a GGUF element
 * type that holds every value exactly. Backends pack those rows like any other rows of the type, so
 * a new way of storing weights needs no kernel.
 *
 *   stored as                                    becomes
 *   types of GGML_CONVERTED_LIST (GGUF)          as stated in weight_iquant.h
 *   MXFP4 with powers that f16 does not hold     BF16
 *   FP4 with an exponent per 32 columns          MXFP4, or BF16
 *   groups with scale and bias (MLX)             A…, Q4_1, Q5_1, or F32 (weight_affine.c)
 *   integers with zero points                    Z…, Q4_0, Q5_0, Q8_0, or F32 (weight_integers.c)
 *   FP4 with an E4M3 scale per 16 columns        NVFP4
 *   nibbles with a table (bitsandbytes)          NF4_64, FP4_64, or the stated float, rounded
 *   E4M3 with scales                             F8_128, F8_32, or BF16, rounded (weight_fp8.c)
 *   floats, columns before rows or interleaved   the same floats
 *   some columns of a matrix                     the same elements
 *
 * The smaller type is used if its f16 scales are exact. weight_source_choose_type() reads all
 * scales for that when the checkpoint is opened.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_SOURCE_H
#define SHOAL_WORKER_PLAN_WEIGHT_SOURCE_H

#include <stdint.h>

#include "proto/gguf_file.h"
#include "worker/plan/weight_layout.h"

/* The source of a GGUF tensor; WEIGHT_IN_PLACE if kernels read its type. */
struct weight_source weight_source_of_gguf(const struct gguf_tensor *tensor);

/* Sets `type` to the smallest that is exact. Reads every scale of the [rows, columns] matrix. */
void weight_source_choose_type(struct weight_source *source, uint64_t rows, uint64_t columns);

/* The type that holds every value of the layout exactly: a common type for matrices of one layout
 * whose smallest types differ. */
enum ggml_type weight_source_wide_type(const struct weight_source *source);

/*
 * Writes columns [first, first + count) of a row to `out`, as elements of `type`. `first` and
 * `count` are multiples of WEIGHT_SOURCE_BLOCK and of the type's block, of 256 for GGUF's blocks of 256, of 128 for F8_128,
 * except for FP8 as BF16, TABLE4 as floats, TRANSPOSED, INTERLEAVED and SLICE. `columns`: of the matrix. must() a source that is not in place,
 * and not TURNED: worker/backend/host/weight_rows.h reads it.
 */
void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

#endif
