/*
 * The vision transformer that most towers are: layers of attention over patches and a feed-forward
 * part, norms before both, a residual that nothing else adds to.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_TOWER_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_TOWER_BLOCKS_H

#include "worker/model/build/plan_ops.h"
#include "worker/plan/vision_config.h"

/* Norms of layers, and what has weights, have biases. */
struct tower_form {
    bool rms_norms;  /* else layer norms, which have biases */
    bool joined_qkv; /* q, k and v are one matrix attn_qkv */
    bool rotates;    /* queries and keys, by rope 0 */
    bool gated;      /* silu(ffn_gate) * ffn_up; else `activation` of ffn_up */
    enum activation activation;
};

struct tower_tensors {
    plan_tensor_id pixels;   /* [patches, 3 * frames * patch_side^2] */
    plan_tensor_id residual; /* [patches, hidden] */
    plan_tensor_id normed;   /* [patches, hidden] */
    plan_tensor_id qkv;      /* [patches, 3 * hidden] */
    plan_tensor_id attended; /* [patches, hidden] */
    plan_tensor_id wide;     /* [patches, feed_forward], twice as wide where gated */
    plan_tensor_id gated;    /* [patches, feed_forward], where gated */
};
struct tower_tensors tower_blocks_add_tensors(struct plan_builder *b, const struct vision_config *c,
                                              const struct tower_form *form);

/* Pixels and their projection v.patch_embd into the residual; the first stage ends between the two.
 */
struct tower_patches {
    bool bias;          /* of the projection */
    bool channels_last; /* behind pixels; else as the projection's shape says */
    float gain;
    float shift;
};
void tower_blocks_list_patches(struct plan_builder *b, const struct vision_config *c,
                               const struct tower_patches *patches, const struct tower_tensors *t);

/* Learned positions, v.position_embd, into the residual. */
void tower_blocks_positions(struct plan_builder *b, const struct vision_config *c,
                            enum position_form form, const struct tower_tensors *t);

/* A layer, in the residual; stages end within it, behind q|k|v, attention and the wide part, but
 * not at its end, where families do different things. */
void tower_blocks_list_layer(struct plan_builder *b, const struct vision_config *c,
                             const struct tower_form *form, uint32_t layer,
                             const struct tower_tensors *t);

/* out = norm of x by `name`.weight and, of a layer norm, `name`.bias; `rows` columns wide. */
void tower_blocks_norm(struct plan_builder *b, bool rms, plan_tensor_id x, uint32_t columns,
                       const char *name, plan_tensor_id out);
/* out = x times `name`.weight [rows, columns], plus `name`.bias where `bias`. */
struct tower_linear {
    const char *name;
    uint32_t rows;
    uint32_t columns;
    bool bias;
};
void tower_blocks_linear(struct plan_builder *b, plan_tensor_id x,
                         const struct tower_linear *linear, plan_tensor_id out);

#endif
