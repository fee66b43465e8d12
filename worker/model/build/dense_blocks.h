/*
 * The decoder of llama and the families like it: norms before attention and before a gated
 * feed-forward part, or after them, or both, grouped queries, rotary embeddings, and a
 * residual stream that only these two halves add to.
 *
 * A family describes itself by a dense_form. A family that replaces one half of the layer lists the
 * other half with the functions below.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_DENSE_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_DENSE_BLOCKS_H

#include <stdbool.h>

#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/plan_ops.h"

struct dense_form {
    bool layer_norms;      /* norms subtract the mean; not together with post_norms */
    bool norm_biases;      /* and have a bias */
    bool parallel;         /* both halves read the row of the first norm; not with post_norms, nor
                            no_input_norms, nor experts */
    bool logit_bias;       /* the logits have a bias */
    bool qkv_bias;         /* q, k and v have biases, whatever the config says */
    bool output_bias;      /* attention's projection has one, likewise */
    bool sinks;            /* attention has attn_sinks */
    bool head_norms;       /* each query and key head is normed before it is rotated */
    bool norms_after_rope; /* these norms come after the rotation; not on layers without a rope */
    bool whole_norms;      /* all query heads are normed as one, and all key heads, likewise */
    bool joined_qkv;       /* q, k and v are one matrix attn_qkv, and one bias if they have any */
    bool joined_gate_up;   /* gate and up are one matrix ffn_up */
    bool no_input_norms;   /* the halves read the residual as it is; not with experts */
    bool post_norms;       /* the output of each half is normed before it is added */
    bool ungated;          /* the feed-forward part has no gate: activation_alone(up) */
    enum gate_activation activation;
    enum activation activation_alone; /* used if `ungated` */
    /* a layer's factors, if that is XIELU */
    struct xielu_params (*xielu)(struct plan_builder *b, const struct model_config *c,
                                 uint32_t layer);
    const char *feed_forward_norm; /* name of the norm before it; NULL: ffn_norm */
    struct expert_form experts;    /* of layers with experts; not together with post_norms */
};

/* A layer's activation tensors; one set for step rows and one for logit rows. */
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

/* Adds the bias of attention's output projection. */
void dense_blocks_list_output_bias(struct plan_builder *b, const struct model_config *c,
                                   uint32_t layer, plan_tensor_id residual);
/* Computes the attention output of each head from the residual; qkv: [step rows,
 * plan_ops_qkv_slices()]. Queries are scaled by position if the config says so; layers without a
 * rope do not rotate. */
void dense_blocks_list_attention(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form, uint32_t layer,
                                 const struct dense_tensors *t, plan_tensor_id qkv);
/* Projects the attention output and adds it to the residual. */
void dense_blocks_list_output(struct plan_builder *b, const struct model_config *c,
                              const struct dense_form *form, uint32_t layer,
                              const struct dense_tensors *t);
/* Adds the feed-forward part, or the layer's experts, of the normed residual to the residual. */
void dense_blocks_list_feed_forward(struct plan_builder *b, const struct model_config *c,
                                    const struct dense_form *form, uint32_t layer,
                                    const struct dense_tensors *t);

/* Lists the whole forward pass of a family that its form describes; returns the logits. */
plan_tensor_id dense_blocks_list(struct plan_builder *b, const struct model_config *c,
                                 const struct dense_form *form);
/* The same of a layer that predicts a further token (ahead_blocks.h), which is layer 0 of the config. Not
 * with parallel halves. */
plan_tensor_id dense_blocks_list_ahead(struct plan_builder *b, const struct model_config *c,
                                       const struct dense_form *form, bool keeps_normed);
/* The same of a family with nothing but llama's form, as model_family.list_ops. */
plan_tensor_id dense_blocks_list_plain(struct plan_builder *b, const struct model_config *c);
/* The same with layers of experts that are gated by silu. */
plan_tensor_id dense_blocks_list_mixture(struct plan_builder *b, const struct model_config *c);

#endif
