/*
 * The forward pass that llama began and many families share, in the places where they differ: norms
 * before attention and before a gated feed-forward, and behind them in some, grouped queries,
 * rotary embeddings, a residual stream that nothing but these two add to.
 *
 * A family states its form; one that also replaces a half of the layer lists the other half here.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_DENSE_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_DENSE_BLOCKS_H

#include <stdbool.h>

#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/plan_ops.h"

struct dense_form {
    bool qkv_bias;       /* q, k and v have biases */
    bool output_bias;    /* attention's projection has one */
    bool sinks;          /* attention has attn_sinks */
    bool head_norms;     /* each query and key head is normed before it is rotated */
    bool joined_qkv;     /* q, k and v are one matrix attn_qkv */
    bool joined_gate_up; /* gate and up are one matrix ffn_up */
    bool post_norms;     /* what a half gives is normed before it is added */
    enum gate_activation activation;
    const char *feed_forward_norm; /* before it; NULL: ffn_norm */
    struct expert_form experts;    /* of layers that have some; no post_norms then */
};

/* What a layer works in, once for step rows and once for logit rows. */
struct dense_tensors {
    plan_tensor_id residual;       /* [rows, hidden] */
    plan_tensor_id normed;         /* [rows, hidden] */
    plan_tensor_id attended;       /* [rows, heads * head_dim] */
    plan_tensor_id gate_up;        /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;          /* [rows, feed_forward] */
    struct expert_tensors experts; /* where the config has experts */
};
struct dense_tensors dense_blocks_add_tensors(struct plan_builder *b, const struct model_config *c,
                                              enum plan_rows rows);

/* From the residual to what each head attended to; qkv: [step rows, plan_ops_qkv_slices()]. Queries
 * are scaled by position where the config says so, layers without a rope do not rotate. */
void dense_blocks_list_attention(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form, uint32_t layer,
                                 const struct dense_tensors *t, plan_tensor_id qkv);
/* The attention's projection into the residual. */
void dense_blocks_list_output(struct plan_builder *b, const struct model_config *c,
                              const struct dense_form *form, uint32_t layer,
                              const struct dense_tensors *t);
/* Norm and feed-forward, or the layer's experts, into the residual. */
void dense_blocks_list_feed_forward(struct plan_builder *b, const struct model_config *c,
                                    const struct dense_form *form, uint32_t layer,
                                    const struct dense_tensors *t);

/* Embedding, layers and logits of a family that is no more than its form; returns the logits. */
plan_tensor_id dense_blocks_list(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form);

#endif
