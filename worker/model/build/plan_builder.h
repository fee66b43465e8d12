/*
 * Lists a forward pass. A family asks for weights and activation tensors and appends ops in order;
 * the builder looks up and checks shapes, keeps the first error, and in the end hands out a plan in
 * which every op fits its tensors, every tensor is written before it is read, and every tensor of
 * the checkpoint is used.
 *
 * After an error all calls do nothing and return harmless ids, so a family need not look.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_PLAN_BUILDER_H
#define SHOAL_WORKER_MODEL_BUILD_PLAN_BUILDER_H

#include <stdbool.h>

#include "proto/result.h"
#include "worker/plan/plan.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/tensor_table.h"

struct plan_builder;

/* The tensors that a plan is built over. `naming` is NULL where the names are GGUF's own, which is
 * what families ask for. */
struct plan_source {
    const struct tensor_table *tensors;
    const struct tensor_naming *naming;
    const char *prefix; /* of the naming */
    /* Of a vision plan; NULL: a plan of text. */
    const struct model_vision *vision;
    /* Beginnings of the names of tensors that the plan answers for, ends with NULL; NULL: all. */
    const char *const *parts;
};

/* What `source` points to must outlive the builder, and the tensors' bytes the plan. Words go to
 * `error`, which must outlive the builder. NULL when out of memory. */
struct plan_builder *plan_builder_create(const struct plan_source *source,
                                         const struct model_config *config,
                                         struct error_text *error);
void plan_builder_destroy(struct plan_builder *builder);

/* Of a vision plan: what was appended since the last end is a stage. */
void plan_builder_end_stage(struct plan_builder *builder);

/*
 * Checks the whole, and gives the plan (plan_destroy() frees it). `logits`: PLAN_NONE of a vision
 * plan. RESULT_INVALID for shapes and
 * order, RESULT_UNSUPPORTED for tensors that no op uses, naming op or tensor.
 */
enum result plan_builder_finish(struct plan_builder *builder, plan_tensor_id logits,
                                struct plan **plan) RESULT_CHECKED;

/* An activation tensor [rows of the kind, columns] of f32. */
plan_tensor_id plan_builder_tensor(struct plan_builder *builder, enum plan_rows rows,
                                   uint32_t columns);

/* The checkpoint's matrix [rows, columns], or vector [columns] of F32, F16 or BF16, of this name of
 * GGUF's. Asking again for a name gives the same id. */
plan_weight_id plan_builder_matrix(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                   const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));
plan_weight_id plan_builder_vector(struct plan_builder *builder, uint32_t columns,
                                   const char *name_format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one number of a tensor, F32, F16 or BF16; infinite where it says so, never NAN. */
float plan_builder_number(struct plan_builder *builder, const char *name_format, ...)
    __attribute__((format(printf, 2, 3)));

/* The kernel of a convolution that treats each channel by itself: [channels, taps] of F32, F16 or
 * BF16. Folders have a dimension of 1 more: between the two, or where MLX saved them behind. */
plan_weight_id plan_builder_taps(struct plan_builder *builder, uint32_t channels, uint32_t taps,
                                 const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));

/* A tensor of more dimensions taken for the matrix [rows, columns]: its last ones for the columns,
 * the others for the rows, in their order (the kernel of a convolution over patches). F32, F16 or
 * BF16. */
plan_weight_id plan_builder_flat(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                 const char *name_format, ...)
    __attribute__((format(printf, 4, 5)));

/* A matrix [rows, columns] of floats that is stored with its columns before its rows. */
plan_weight_id plan_builder_transposed(struct plan_builder *builder, uint32_t rows,
                                       uint32_t columns, const char *name);

/* A stack of experts' matrices [experts, rows, columns], asked for by the name that ends in
 * "_exps.weight": one tensor of three dimensions, or one of two for each expert ("…_exps.weight"
 * becomes "….7.weight"), all of one type. */
plan_weight_id plan_builder_experts(struct plan_builder *builder, uint32_t experts, uint32_t rows,
                                    uint32_t columns, const char *name_format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same of floats in one tensor, each matrix stored with its columns before its rows. */
plan_weight_id plan_builder_turned_experts(struct plan_builder *builder, uint32_t experts,
                                           uint32_t rows, uint32_t columns, const char *name_format,
                                           ...) __attribute__((format(printf, 5, 6)));

/* Part `index` of `parts` matrices [rows, columns] that lie behind each other in one tensor of
 * three dimensions. */
plan_weight_id plan_builder_part(struct plan_builder *builder, uint32_t parts, uint32_t index,
                                 uint32_t rows, uint32_t columns, const char *name);

/* The size of its fastest dimension; 0 when it is not there. */
uint64_t plan_builder_fastest(const struct plan_builder *builder, const char *name);

/* Whether the checkpoint has a tensor of this name of GGUF's. */
bool plan_builder_has(const struct plan_builder *builder, const char *name_format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says that the config already holds what this tensor states; absent is fine. */
void plan_builder_use_in_config(struct plan_builder *builder, const char *name);

/* Appends one op; plan_ops.h spells each stem. Unused ids are PLAN_NONE. */
void plan_builder_append(struct plan_builder *builder, struct plan_op op);

/* What ops take their scales, ropes and windows from. */
const struct model_config *plan_builder_config(const struct plan_builder *builder);

#endif
