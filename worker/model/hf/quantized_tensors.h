/*
 * Joining the tensors of one quantized matrix (checkpoint_quantization.c decides which and how).
 */
#ifndef SHOAL_WORKER_MODEL_HF_QUANTIZED_TENSORS_H
#define SHOAL_WORKER_MODEL_HF_QUANTIZED_TENSORS_H

#include "proto/result.h"
#include "worker/plan/tensor_table.h"

struct mlx_groups {
    uint32_t bits;
    uint32_t group; /* columns */
    bool fp4;       /* mode mxfp4: 4-bit floats, exponents, no biases */
};

/* Row `index`, X.weight in U32, with X.scales and X.biases. */
enum result quantized_tensors_join_mlx(struct tensor_table *table, uint32_t index,
                                       struct mlx_groups groups,
                                       struct error_text *error) RESULT_CHECKED;

/* Row `index`, X_blocks in U8, with X_scales; it is called X then. */
enum result quantized_tensors_join_fp4(struct tensor_table *table, uint32_t index,
                                       struct error_text *error) RESULT_CHECKED;

/* What blocks of one scale may measure; 0 by 0 where the config states none. */
struct fp8_block {
    uint32_t rows;
    uint32_t columns;
};

/* Row `index`, X.weight in F8_E4M3, with X.weight_scale or X.weight_scale_inv: one number, one a
 * row, or one a block. */
enum result quantized_tensors_join_fp8(struct tensor_table *table, uint32_t index,
                                       struct fp8_block block,
                                       struct error_text *error) RESULT_CHECKED;

/* Whether the row is of this type, and its name ends so. */
bool quantized_tensors_match(const struct checkpoint_tensor *tensor, const char *type_name,
                             const char *ending);

#endif
