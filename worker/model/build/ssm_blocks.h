/*
 * A state space mixer of the second kind (Mamba 2), for families that have one in some layers or in
 * all:
 *
 *   z | x | B | C | step = factors * (Win . y [+ bias])
 *   x | B | C = silu(convolution(x | B | C) [+ bias])
 *   mix = Wout . group_norm_gate(ssm_scan(x, B, C, step), z) [+ bias]
 *
 * config.ssm has the sizes, the factors and the order of norm and gate. Families ask for GGUF's names:
 * ssm_in, ssm_conv1d, ssm_a, ssm_d, ssm_dt, ssm_norm, ssm_out.
 *
 * Source: Dao and Gu, "Transformers are SSMs", 2024; op_list.h.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_SSM_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_SSM_BLOCKS_H

#include "worker/model/build/plan_ops.h"

/* Activation tensors, of step rows. */
struct ssm_tensors {
    plan_tensor_id projected; /* [rows, z | x | B | C | steps] */
    plan_tensor_id conv;      /* [rows, x | B | C] */
    plan_tensor_id scanned;   /* [rows, columns of all heads] */
};

uint32_t ssm_blocks_columns(const struct model_config *c); /* of all heads */
struct ssm_tensors ssm_blocks_add_tensors(struct plan_builder *b, const struct model_config *c);

/* Computes layer `layer`'s mix of `normed` [step rows, hidden] before its last projection: `gated`
 * [step rows, columns of all heads]. */
void ssm_blocks_list(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                     plan_tensor_id normed, const struct ssm_tensors *t, plan_tensor_id gated);

/* residual += Wout . gated, times the config's factor. May change `gated`. Both are of one kind of
 * rows; `branch`, of the residual's shape, is scratch, used if there is a bias and a factor. */
void ssm_blocks_list_output(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                            plan_tensor_id gated, plan_tensor_id branch, plan_tensor_id residual);

#endif
