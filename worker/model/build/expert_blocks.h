/*
 * A feed-forward part that is a mixture of experts, for families that have one.
 *
 * Families ask for GGUF's names: ffn_gate_inp scores; ffn_gate_exps and ffn_up_exps, or both as
 * ffn_gate_up_exps with an expert's gate rows before its up rows; ffn_down_exps. Stacks may be
 * stored as one tensor for each expert (plan_builder_experts()). Where the config has them:
 * exp_probs_b, the bias of the choice; ffn_gate_shexp and ffn_up_shexp, or both as ffn_gate_up_shexp, and
 * ffn_down_shexp of the expert that every row uses; ffn_latent_down and ffn_latent_up, between which the
 * chosen experts compute.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_EXPERT_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_EXPERT_BLOCKS_H

#include "worker/model/build/plan_ops.h"

struct expert_form {
    bool biases;                 /* the scores and each matrix of an expert have biases */
    bool softmax_chosen;         /* the weights are a softmax over the chosen experts' scores */
    struct moe_gate_params gate; /* interleaved: only if gate and up are one tensor */
    bool ungated;                /* experts have no gates: activation_alone(up); not with biases */
    enum activation activation_alone; /* used if `ungated` */
};

/* Activation tensors, all of one kind of rows. */
struct expert_tensors {
    plan_tensor_id scores;  /* [rows, experts] */
    plan_tensor_id route;   /* [rows, 2 * chosen] */
    plan_tensor_id gate_up; /* [rows, chosen * 2 * feed_forward] */
    plan_tensor_id gated;   /* [rows, chosen * feed_forward] */
    plan_tensor_id down;    /* [rows, chosen * hidden] */
    /* Of the expert that every row uses, if the config has one: */
    plan_tensor_id shared_gate_up; /* [rows, 2 * shared] */
    plan_tensor_id shared_gated;   /* [rows, shared] */
    /* If the config's experts have a latent: */
    plan_tensor_id latent_in;  /* [rows, latent] */
    plan_tensor_id latent_out; /* [rows, latent] */
    /* Of the experts of rows of images, if the config has some: */
    plan_tensor_id image_gate_up; /* [rows, chosen * 2 * image_feed_forward] */
    plan_tensor_id image_gated;   /* [rows, chosen * image_feed_forward] */
};
struct expert_tensors expert_blocks_add_tensors(struct plan_builder *b,
                                                const struct model_config *c, enum plan_rows rows);

/* out += experts(x); both [rows, hidden]. */
void expert_blocks_list(struct plan_builder *b, const struct model_config *c,
                        const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                        const struct expert_tensors *t, plan_tensor_id out);

/* The same for scores already in t->scores: out = or, with `add`, += experts(x). `scales`, one
 * factor for each expert's weight, may be PLAN_NONE. */
void expert_blocks_list_scored(struct plan_builder *b, const struct model_config *c,
                               const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                               const struct expert_tensors *t, plan_weight_id scales, bool add,
                               plan_tensor_id out);

#endif
