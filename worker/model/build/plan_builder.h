/*
 * Lists a forward pass. A family asks for weights and activation tensors and appends ops in order.
 * The builder looks weights up, checks shapes and keeps the first error. The finished plan
 * guarantees that every op fits its tensors, every tensor is written before it is read, and every
 * tensor of the checkpoint is used.
 *
 * After an error all calls do nothing and return harmless ids, so a family need not check.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_PLAN_BUILDER_H
#define SHOAL_WORKER_MODEL_BUILD_PLAN_BUILDER_H

#include <stdbool.h>

#include "proto/result.h"
#include "worker/model/build/plan_source.h"
#include "worker/plan/plan.h"

struct plan_builder;

/* Returns NULL when out of memory. `error` and what `source` points to must outlive the builder;
 * the tensors' bytes must outlive the plan. */
struct plan_builder *plan_builder_create(const struct plan_source *source,
                                         const struct model_config *config,
                                         struct error_text *error);
void plan_builder_destroy(struct plan_builder *builder);

/* Vision plans only: the ops appended since the last call form one stage. */
void plan_builder_end_stage(struct plan_builder *builder);

/*
 * Checks the whole plan and hands it over (plan_destroy() frees it). `logits` is PLAN_NONE for a
 * vision plan, and allowed to be for a plan that takes hidden states. RESULT_INVALID for wrong shapes or order, RESULT_UNSUPPORTED for tensors that no op
 * uses; the error names the op or tensor.
 */
enum result plan_builder_finish(struct plan_builder *builder, plan_tensor_id logits,
                                struct plan **plan) RESULT_CHECKED;

/* An activation tensor [rows of the kind, columns] of f32. */
plan_tensor_id plan_builder_tensor(struct plan_builder *builder, enum plan_rows rows,
                                   uint32_t columns);

/* The tensor [step rows, columns] that each step's batch fills (struct step_batch, hidden). */
plan_tensor_id plan_builder_hidden_in(struct plan_builder *builder, uint32_t columns);
/* `tensor`, which no later op writes, is what the backend's last_hidden() returns. */
void plan_builder_hidden_out(struct plan_builder *builder, plan_tensor_id tensor);

/* The checkpoint's matrix [rows, columns], or vector [columns] of F32, F16 or BF16, by its GGUF
 * name. Asking again for a name returns the same id. */
plan_weight_id plan_builder_matrix(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                   const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
plan_weight_id plan_builder_vector(struct plan_builder *builder, uint32_t columns,
                                   const char *name_format, ...)
    __attribute__((format(printf, 3, 4)));

/* A matrix of the model that the plan's drafter drafts for (struct plan_source, target). */
plan_weight_id plan_builder_target_matrix(struct plan_builder *builder, uint32_t rows,
                                          uint32_t columns, const char *name);
/* A weight of another plan, whose bytes outlive this one. */
plan_weight_id plan_builder_copy(struct plan_builder *builder, const struct plan_weight *weight);
/* The checkpoint's matrix `name`, or the target's if the checkpoint has none or a copy of that one. */
plan_weight_id plan_builder_shared_matrix(struct plan_builder *builder, uint32_t rows,
                                          uint32_t columns, const char *name);

/* The value of a tensor with one element, F32, F16 or BF16; may be infinite, never NaN. */
float plan_builder_number(struct plan_builder *builder, const char *name_format, ...)
    __attribute__((format(printf, 2, 3)));

/* The kernel of a depthwise convolution: [channels, taps] of F32, F16 or BF16. Folders have an
 * extra dimension of 1: in the middle, or the fastest one if MLX saved them. */
plan_weight_id plan_builder_taps(struct plan_builder *builder, uint32_t channels, uint32_t taps,
                                 const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));

/* A tensor of more dimensions taken for the matrix [rows, columns]: its last ones for the columns,
 * the others for the rows, in their order (the kernel of a convolution over patches). F32, F16 or
 * BF16. */
plan_weight_id plan_builder_flat(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                 const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));

/* A matrix [rows, columns] of floats that is stored transposed. */
plan_weight_id plan_builder_transposed(struct plan_builder *builder, uint32_t rows,
                                       uint32_t columns, const char *name);

/* A matrix [rows, columns] of floats whose columns are stored in turn from each of `parts` equal parts.
 * Columns may span several dimensions, as in the kernel of a convolution. */
plan_weight_id plan_builder_interleaved(struct plan_builder *builder, uint32_t rows,
                                        uint32_t columns, uint32_t parts, const char *name);

/* A stack of experts' matrices [experts, rows, columns], by the name that ends in "_exps.weight":
 * one tensor of three dimensions, or one of two dimensions for each expert, all of one type
 * ("blk.0.ffn_up_exps.weight" becomes "blk.0.ffn_up.7.weight"). */
plan_weight_id plan_builder_experts(struct plan_builder *builder, uint32_t experts, uint32_t rows,
                                    uint32_t columns, const char *name_format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same of experts that are stored one by one, of which the first has number `first`. */
struct expert_range {
    uint32_t first;
    uint32_t count;
};
plan_weight_id plan_builder_expert_range(struct plan_builder *builder, struct expert_range range,
                                         uint32_t rows, uint32_t columns, const char *name_format,
                                         ...) __attribute__((format(printf, 5, 6)));

/* The same for floats in one tensor whose matrices are stored transposed. */
plan_weight_id plan_builder_turned_experts(struct plan_builder *builder, uint32_t experts,
                                           uint32_t rows, uint32_t columns, const char *name_format,
                                           ...) __attribute__((format(printf, 5, 6)));

/* Matrix `index` of `parts` matrices [rows, columns] that are stored one after the other in one
 * tensor of three dimensions, or of two. */
plan_weight_id plan_builder_part(struct plan_builder *builder, uint32_t parts, uint32_t index,
                                 uint32_t rows, uint32_t columns, const char *name);

/* The same of `parts` vectors in one. */
plan_weight_id plan_builder_vector_part(struct plan_builder *builder, uint32_t parts,
                                        uint32_t index, uint32_t columns, const char *name);

/* Part `index` of `parts` equal parts of the columns of a matrix [rows, parts * columns] whose rows are
 * stored in place. */
plan_weight_id plan_builder_columns(struct plan_builder *builder, uint32_t parts, uint32_t index,
                                    uint32_t rows, uint32_t columns, const char *name);

/* A matrix [rows, parts * columns] of floats as one of rows * parts rows, each row's parts in order. The
 * product of parts and columns is below 2^32. */
plan_weight_id plan_builder_divided(struct plan_builder *builder, uint32_t rows, uint32_t parts,
                                    uint32_t columns, const char *name);

/* A stack of matrices [count, rows, columns] that is one tensor of three dimensions. */
plan_weight_id plan_builder_stack(struct plan_builder *builder, uint32_t count, uint32_t rows,
                                  uint32_t columns, const char *name);

/* Rows [first, first + rows) of a matrix [whole, columns]. */
struct row_range {
    uint32_t whole;
    uint32_t first;
    uint32_t rows;
};
plan_weight_id plan_builder_rows(struct plan_builder *builder, struct row_range range,
                                 uint32_t columns, const char *name);

/* A matrix [heads * range.whole, columns] as a stack of a matrix for each head: the head's rows of the
 * range, [heads, range.rows, columns], or these transposed, [heads, columns, range.rows]. Transposed
 * rows of other types than F32, F16 and BF16 become F32. */
plan_weight_id plan_builder_head_rows(struct plan_builder *builder, uint32_t heads,
                                      struct row_range range, uint32_t columns, const char *name);
plan_weight_id plan_builder_head_columns(struct plan_builder *builder, uint32_t heads,
                                         struct row_range range, uint32_t columns,
                                         const char *name);

/* Marks the tensors of a layer that the plan leaves out as used: "blk.N.…", or "…layers.N.…". */
void plan_builder_leave_layer(struct plan_builder *builder, uint32_t layer);

/* A weight [rows, columns] of f32 that the checkpoint does not have: *values are filled by the caller before
 * the plan is finished, and belong to the plan. NULL after an error. */
plan_weight_id plan_builder_computed(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                     const char *name, float **values);
/* Reads a matrix, a kernel [rows, columns] of more dimensions, or with one row a vector, of F32, F16 or BF16.
 * false after an error. */
bool plan_builder_floats(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                         float *values, const char *name_format, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether the checkpoint has such a tensor. */
bool plan_builder_has_floats(const struct plan_builder *builder, const char *name);

/* The kernel of a convolution over maps (op conv_2d), which is stored as [rows, channels, taps]: a weight
 * [rows, taps * channels], computed from F32, F16 or BF16. */
struct kernel_shape {
    uint32_t rows; /* channels of the output */
    uint32_t taps;
    uint32_t channels; /* of the input; 1 for depthwise ones */
};
plan_weight_id plan_builder_kernel(struct plan_builder *builder, struct kernel_shape shape,
                                   const char *name_format, ...)
    __attribute__((format(printf, 3, 4)));

/* The size of the tensor's fastest dimension; 0 if there is no such tensor. */
uint64_t plan_builder_fastest(const struct plan_builder *builder, const char *name);

/* Whether the checkpoint has a tensor of this GGUF name. */
bool plan_builder_has(const struct plan_builder *builder, const char *name_format, ...)
    __attribute__((format(printf, 2, 3)));

/* Marks a tensor as used because the config already holds its content; the tensor may be absent. */
void plan_builder_use_in_config(struct plan_builder *builder, const char *name);

/* The matrix of the logits: `embedding` in models with tied embeddings, whose checkpoints may store
 * a copy of it, otherwise output.weight. */
plan_weight_id plan_builder_output_matrix(struct plan_builder *builder,
                                          const struct model_config *config,
                                          plan_weight_id embedding);

/* The family cannot compute this checkpoint: RESULT_UNSUPPORTED with these words, a literal. */
void plan_builder_refuse(struct plan_builder *builder, const char *words);

/* Appends one op; plan_ops.h spells each stem. Unused ids are PLAN_NONE. */
void plan_builder_append(struct plan_builder *builder, struct plan_op op);

/* The config that ops take their scales, ropes and windows from. */
/* Of a config that borrows caches, before ops are listed: where its layers' keys and values lie. */
void plan_builder_set_caches(struct plan_builder *builder, const struct kv_layout *layout);
const struct model_config *plan_builder_config(const struct plan_builder *builder);

#endif
