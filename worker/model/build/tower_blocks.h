/*
 * The vision transformer that most towers use: layers of attention over patches and a feed-forward
 * part, a norm before each of the two, and a residual that only these two add to.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_TOWER_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_TOWER_BLOCKS_H

#include "worker/model/build/plan_ops.h"
#include "worker/plan/vision_config.h"

/* Which variant of the layers a tower has. */
struct tower_form {
    bool rms_norms;  /* else layer norms, which have biases */
    bool joined_qkv; /* q, k and v are one matrix attn_qkv */
    bool rotates;    /* queries and keys are rotated by rope 0 */
    bool no_qkv_bias;
    bool no_k_bias;     /* queries and values have biases, keys have none; not if joined */
    bool no_biases;     /* nor any other bias in the layers */
    bool qk_norms;      /* queries and keys have an rms norm over all heads together */
    bool qk_head_norms; /* each head of them has one, of the same weight */
    bool scales;        /* each half is multiplied by ls1 or ls2 before it is added */
    bool
        relative; /* attention with relative positions, in windows of tile_window unless the layer sees_all */
    bool of_features;   /* rows are features, which attend to those of their tile */
    float epsilon;      /* of layer norms; 0: that of the plan's config */
    const char *blocks; /* beginning of the layers' names; NULL: v.blk */
    bool gated;         /* `activation` of ffn_gate, times ffn_up; else `activation` of ffn_up */
    enum activation activation;
};

struct tower_tensors {
    plan_tensor_id pixels;   /* [patches, 3 * frames * patch_side^2], or [patches, 3 * mels] */
    plan_tensor_id residual; /* [patches, hidden] */
    plan_tensor_id normed;   /* [patches, hidden] */
    plan_tensor_id qkv;      /* [patches, 3 * hidden] */
    plan_tensor_id attended; /* [patches, hidden] */
    plan_tensor_id wide;     /* [patches, feed_forward]; twice as wide if gated by silu */
    plan_tensor_id gated;    /* [patches, feed_forward]; only if gated */
    plan_tensor_id row; /* [patches, hidden]; only with norms of queries, scales or no_k_bias */
};
struct tower_tensors tower_blocks_add_tensors(struct plan_builder *b, const struct vision_config *c,
                                              const struct tower_form *form);

/* Loads pixels and projects them by v.patch_embd into the residual. The first stage ends between
 * the two. */
struct tower_patches {
    bool bias;          /* the projection has a bias */
    bool channels_last; /* fastest dimension; else the order follows from the projection's shape */
    float gain;
    float shift;
};
void tower_blocks_list_patches(struct plan_builder *b, const struct vision_config *c,
                               const struct tower_patches *patches, const struct tower_tensors *t);

/* Adds the learned positions v.position_embd to the residual. In towers with a lead row, which is
 * v.class_embd, the table's first row is that row's. */
void tower_blocks_positions(struct plan_builder *b, const struct vision_config *c,
                            enum position_form form, const struct tower_tensors *t);

/* Lists one layer, which updates the residual. Stages end after q|k|v, after attention and after
 * the wide part; the caller ends the layer's last stage, because families differ there. */
void tower_blocks_list_layer(struct plan_builder *b, const struct vision_config *c,
                             const struct tower_form *form, uint32_t layer,
                             const struct tower_tensors *t);

/* Marks the tensors of layers that are not computed as used, and those of a last norm if `norm`. */
void tower_blocks_skip_rest(struct plan_builder *b, const struct vision_config *c, bool norm);
/* Marks the tensors of SigLIP's pooling head as used: features are taken before it. */
void tower_blocks_skip_head(struct plan_builder *b);

/* out = norm of x by `name`.weight and, for a layer norm, `name`.bias. */
void tower_blocks_norm(struct plan_builder *b, bool rms, plan_tensor_id x, uint32_t columns,
                       const char *name, plan_tensor_id out);
/* A layer norm in place with an epsilon of its own. */
void tower_blocks_layer_norm(struct plan_builder *b, plan_tensor_id x, uint32_t columns,
                             const char *name, float epsilon);
/* out = x times `name`.weight [rows, columns], plus `name`.bias if `bias`. */
struct tower_linear {
    const char *name;
    uint32_t rows;
    uint32_t columns;
    bool bias;
};
void tower_blocks_linear(struct plan_builder *b, plan_tensor_id x,
                         const struct tower_linear *linear, plan_tensor_id out);

#endif
