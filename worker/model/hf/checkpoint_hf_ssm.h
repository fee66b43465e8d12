/*
 * Reads the sizes of a state space mixer (Mamba 2) from config.json. Classes name the same facts
 * differently, so each family states its names and its class's defaults.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_SSM_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_SSM_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"
#include "worker/plan/tensor_naming.h"

/* Names of keys; NULL: the class has no such key. */
struct hf_ssm_terms {
    const char *heads;
    const char *head_dim; /* may be "auto": columns / heads */
    const char *columns;  /* of all heads; stated by falcon_h1 */
    const char *expand;   /* columns / hidden, if they are not stated */
    const char *groups;
    const char *state;
    const char *taps;
    const char *conv_bias; /* of the convolution, true by default */
    const char *in_bias;   /* of the projections, false by default */
    const char *out_bias;
    uint32_t default_heads;
    uint32_t default_head_dim; /* 0: "auto" */
    uint32_t default_columns;  /* 0: by expand, which is 2 by default */
    uint32_t default_groups;
    uint32_t default_state;
};

/* Fills config->ssm but for its norm and factors, which are 1, and the sizes of the convolution.
 * time_step_limit bounds the steps; its second number may be Infinity, as Python writes it. */
void checkpoint_hf_read_ssm(struct checkpoint_keys *keys, const struct hf_ssm_terms *terms,
                            struct model_config *config);

/* Names of a mixer's tensors, the objects of a layer being `part` ("mixer.") in its class. */
/* clang-format off */
#define HF_SSM_NAMES(part)                                              \
    {"blk.*.ssm_in.weight", "^layers.*." part "in_proj.weight"},        \
    {"blk.*.ssm_in.bias", "^layers.*." part "in_proj.bias"},            \
    {"blk.*.ssm_conv1d.weight", "^layers.*." part "conv1d.weight"},     \
    {"blk.*.ssm_conv1d.bias", "^layers.*." part "conv1d.bias"},         \
    {"blk.*.ssm_a", "^layers.*." part "A_log"},                         \
    {"blk.*.ssm_d", "^layers.*." part "D"},                             \
    {"blk.*.ssm_dt.bias", "^layers.*." part "dt_bias"},                 \
    {"blk.*.ssm_norm.weight", "^layers.*." part "norm.weight"},         \
    {"blk.*.ssm_out.weight", "^layers.*." part "out_proj.weight"},      \
    {"blk.*.ssm_out.bias", "^layers.*." part "out_proj.bias"}
/* clang-format on */

/* Names of the tensors of Bamba and Falcon H1, and of Bamba's keys of the mixer with its defaults, of which
 * Granite 4 has all and Falcon H1 most. */
extern const struct tensor_name checkpoint_hf_bamba_names[];
extern const struct hf_ssm_terms checkpoint_hf_bamba_ssm;

#endif
