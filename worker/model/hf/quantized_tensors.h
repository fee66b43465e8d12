/*
 * Joins the tensors of one quantized matrix. checkpoint_quantization.c decides which tensors, and
 * how.
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

/* Joins row `index`, X.weight in U32, with X.scales and X.biases. */
enum result quantized_tensors_join_mlx(struct tensor_table *table, uint32_t index,
                                       struct mlx_groups groups,
                                       struct error_text *error) RESULT_CHECKED;

/* Joins row `index`, X_blocks in U8, with X_scales; the result is called X. */
enum result quantized_tensors_join_fp4(struct tensor_table *table, uint32_t index,
                                       struct error_text *error) RESULT_CHECKED;

/* Size of the blocks that share a scale; 0 by 0 if the config states none. */
struct fp8_block {
    uint32_t rows;
    uint32_t columns;
};

/* Joins row `index`, X.weight in F8_E4M3, with X.weight_scale or X.weight_scale_inv: one number for
 * the matrix, one per row, or one per block. */
enum result quantized_tensors_join_fp8(struct tensor_table *table, uint32_t index,
                                       struct fp8_block block,
                                       struct error_text *error) RESULT_CHECKED;

/* --- for the other joins ------------------------------------------------------------------------ */

/* Length of a name in an error text ("%.*s") that leaves room for the reason. */
#define QUANTIZED_NAME(string) (int)((string).length < 100 ? (string).length : 100), (string).bytes

/* The tensor whose name is that of `tensor` with another ending for its last `cut` bytes; NULL if
 * there is none. quantized_tensors_need(): an error that names it instead. */
struct checkpoint_tensor *quantized_tensors_part(struct tensor_table *table,
                                                 const struct checkpoint_tensor *tensor, size_t cut,
                                                 const char *ending);
enum result quantized_tensors_need(struct tensor_table *table,
                                   const struct checkpoint_tensor *tensor, size_t cut,
                                   const char *ending, struct checkpoint_tensor **part,
                                   struct error_text *error) RESULT_CHECKED;
/* Refuses scales that are not F32, F16 or BF16. */
enum result quantized_tensors_check_float(const struct checkpoint_tensor *scales,
                                          struct error_text *error) RESULT_CHECKED;
/* Makes the row the matrix that its parts form; chooses the source's type. */
void quantized_tensors_become(struct checkpoint_tensor *tensor, struct weight_source source,
                              uint64_t columns);

/* Whether the tensor has this type and a name with this ending. */
bool quantized_tensors_match(const struct checkpoint_tensor *tensor, const char *type_name,
                             const char *ending);

#endif
