/*
 * What a checkpoint says about its architecture. A config that was checked (worker/model/) has
 * sizes within proto/limits.h, products that do not overflow, heads that divide evenly, and every
 * per-layer array filled.
 */
#ifndef SHOAL_WORKER_PLAN_MODEL_CONFIG_H
#define SHOAL_WORKER_PLAN_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

enum rope_pairing {
    ROPE_PAIRS_ADJACENT, /* (x[2i], x[2i+1]): GGUF llama checkpoints, whose q/k rows are permuted
                            for it */
    ROPE_PAIRS_HALVES    /* (x[i], x[i + dims/2]): Hugging Face order, GGUF gemma */
};

/* Which of a row's three positions rotates a pair, or the row's own position in its sequence. They are
 * equal for tokens of text. */
enum rope_axis { ROPE_TIME, ROPE_HEIGHT, ROPE_WIDTH, ROPE_ROW };

/* One rotary embedding: the angle of pair i at position p is p[axis[i]] * inverse_frequency[i]; cos
 * and sin are scaled by magnitude. If the pairs are divided, x[i] * cos - x[j] * sin of that angle replaces x[i], the
 * pair's first element, and x[j] * cos + x[i] * sin of p[second_axis[i]] * inverse_frequency[i] the second one. */
struct rope_config {
    enum rope_pairing pairing;
    uint32_t dims;   /* rotated dimensions of a head, even, <= head_dim and <= ROPE_DIMS_MAX */
    float magnitude; /* 1 except for scaled variants */
    float inverse_frequency[256]; /* [dims / 2] */
    uint8_t axis[256];            /* [dims / 2] of enum rope_axis */
    bool divided;
    uint8_t second_axis[256]; /* [dims / 2], if divided */
};
#define ROPE_DIMS_MAX   512u
#define MODEL_ROPES_MAX 2u

enum layer_kind {
    LAYER_ATTENTION,
    LAYER_SHORT_CONV,    /* a gated short convolution: lfm2 */
    LAYER_GATED_DELTA,   /* a gated delta net after a short convolution: qwen3.5 */
    LAYER_SSM,           /* a state space mixer after a short convolution: mamba2 */
    LAYER_SSM_ATTENTION, /* both beside each other: falcon_h1 */
    LAYER_FEED_FORWARD   /* nothing that mixes rows: nemotron_h */
};
static inline bool layer_kind_attends(enum layer_kind kind)
{
    return kind == LAYER_ATTENTION || kind == LAYER_SSM_ATTENTION;
}
static inline bool layer_kind_scans(enum layer_kind kind)
{
    return kind == LAYER_SSM || kind == LAYER_SSM_ATTENTION;
}
/* Whether a sequence keeps recurrent state in the layer. */
static inline bool layer_kind_keeps_state(enum layer_kind kind)
{
    return kind != LAYER_ATTENTION && kind != LAYER_FEED_FORWARD;
}

/* Parameters of xIELU as checkpoints state them; from them follow the factors of op_list.h. */
struct xielu_config {
    float alpha_p;
    float alpha_n;
    float beta;
    float eps;
    bool stated; /* by metadata; otherwise they are tensors */
};

/* A size of 0 means the model's size. */
struct layer_config {
    enum layer_kind kind;
    uint32_t window; /* keys a query sees including itself; 0 = all */
    uint32_t rope;   /* index into model_config.ropes, or ROPE_NONE */
    uint32_t head_dim;
    uint32_t kv_heads;
    uint32_t feed_forward;
    /* 0: the layer stores its own keys and values; n: it attends over those of the layer n before
     * it, which has the same window and sizes. */
    uint32_t cache_back;
    bool cuts;            /* only gates above mean + cut_deviations * deviation of their row pass */
    float cut_deviations; /* of op stream_cut */
    bool values_are_keys; /* its values are its keys before their norm and rotation */
    bool latent;          /* keys and values are one cached row (kv_layout.h) */
    bool experts;         /* its feed-forward part is a mixture of experts */
    struct xielu_config xielu; /* apertus */
    bool causal;               /* rows see no later position, even inside an image's span */
    /* Of an encoder: rows see at most so many positions before their own and after it, 0: all. The
     * cache keeps all positions. */
    uint32_t near;
};
#define ROPE_NONE UINT32_MAX /* the layer does not rotate */

/* A gated delta net: each value head keeps a matrix [value_dim, key_dim]. */
struct delta_config {
    uint32_t key_heads; /* of queries and keys; divides value_heads */
    uint32_t value_heads;
    uint32_t key_dim;
    uint32_t value_dim;
    bool heads_alternate; /* as in op_list.h, gated_delta: GGUF orders value heads so */
    bool rate_is_log;     /* likewise: GGUF stores the rate itself */
};

/* The order of a state space mixer's norm and gate: op_list.h, group_norm_gate. */
enum ssm_norm { SSM_NORM_AFTER_GATE, SSM_NORM_BEFORE_GATE, SSM_NO_NORM };

/* A state space mixer (Mamba 2): each head keeps a matrix [head_dim, state]. */
struct ssm_config {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t groups; /* of B and C, and of the norm; divides heads */
    uint32_t state;
    enum ssm_norm norm;
    float norm_epsilon;
    float least_step; /* >= 0 */
    float most_step;  /* may be infinite */
    bool rate_is_log; /* as in op_list.h, ssm_scan: GGUF stores the rate itself */
    bool conv_bias;
    bool in_bias; /* of the projections */
    bool out_bias;
    float factors[5]; /* of the projection's gates, x, B, C and steps */
    float in_factor;  /* of the projection's input */
    float out_factor; /* of the mixer's output */
};

struct expert_config {
    uint32_t count;        /* of a layer that has experts; 0: no layer has */
    uint32_t chosen;       /* for a row, at most count */
    uint32_t feed_forward; /* of one expert */
    uint32_t latent;       /* columns that experts read and give; 0: those of the residual */
    bool normalized;       /* the chosen ones' weights add up to one */
    bool turned;           /* stacks of matrices are stored with columns before rows */
    bool weighed;          /* op_list.h, moe_route: the params of that name, */
    bool sigmoid;
    bool choice_bias; /* and its weight, exp_probs_b */
    uint32_t groups;
    uint32_t groups_chosen;
    uint32_t group_best;
    float epsilon;
    float scale;     /* of the weights; 0: 1 */
    uint32_t shared; /* columns of an expert that every row uses as it is; 0: there is none */
    /* Width of as many other experts, which rows of images use instead, and the tokens around images that
     * do so too (op_list.h, moe_route). 0: there are none. */
    uint32_t image_feed_forward;
    uint32_t image_edges[2];
    float gate_limit; /* of gate and up, and what multiplies the gate in its sigmoid, where */
    float gate_alpha; /* the family has them: op_list.h, moe_gate */
};

/* Attention over a latent (deepseek2): keys and values of all heads are products of one cached row of
 * `columns`, beside `rope_dims` that all heads share. The cache's head is both. */
struct latent_config {
    uint32_t columns;       /* 0: the family has none */
    uint32_t query_columns; /* of the latent of queries; 0: queries are a product of the residual */
    uint32_t plain_dims;    /* of a query head that are not rotated */
    uint32_t rope_dims;
    uint32_t value_dims; /* of a head's value */
};

#define MODALITIES 2u /* beside text: images, sounds */

struct model_config {
    char architecture[32]; /* "llama", "gemma3" */
    char name[128];        /* the checkpoint's own name, for logs */
    uint32_t vocab_tokens;
    uint32_t
        logit_tokens; /* of a drafter whose logits are of fewer tokens than it embeds; 0: vocab_tokens */
    uint32_t context_tokens; /* trained context */
    uint32_t layers;
    uint32_t hidden;
    uint32_t feed_forward; /* or of the expert that every row uses, where a family has one */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    float norm_epsilon;
    float norm_weight_offset;  /* added to every norm's weights */
    float attention_scale;     /* multiplies q.k */
    float attention_soft_cap;  /* bounds scores, 0 = none: op_list.h, attention */
    float embedding_scale;     /* multiplies the embedding row */
    float position_scale_beta; /* of op position_scale on queries; 0: there is none */
    uint32_t position_scale_tokens;
    float logit_scale;    /* multiplies the logits */
    float logit_soft_cap; /* then bounds them, 0 = none: op_list.h, soft_cap */
    bool tied_embeddings;
    bool attention_bias;    /* of q, k and v */
    bool head_norms;        /* of queries and keys, in families whose models have them or not */
    bool output_bias;       /* of attention's output projection */
    bool feed_forward_bias; /* of gate, up and down */
    bool parallel_halves;   /* both halves of a layer read the same normed row */
    /* Rows see all rows of their sequence, which is computed in one step; the plan gives vectors. */
    bool encoder;
    /* Of a drafter: layers attend over keys and values of the model's layers, none stores any, and steps state
     * rotary positions. */
    bool borrows_caches;
    bool sees_block; /* rows see the rows after them in a step (struct step_batch, visible_ends) */
    uint32_t
        position_rows; /* of a table of absolute positions, in encoders and whisper; 0: it has none */
    uint32_t position_offset; /* row of position 0 in it */
    uint32_t segments;        /* of an encoder: types of tokens; 0: none */
    bool class_of_mean; /* of an encoder: its class reads the mean of all rows, not the first one */
    bool conv_bias;     /* of short convolutions and their projections */
    /* Columns per layer of a second embedding of each token; 0: there is none. */
    uint32_t per_layer_columns;
    uint32_t per_layer_tokens; /* rows of its table; tokens beyond them have row 0 */
    uint32_t image_token;      /* the token whose row all rows of images use there */
    /* Tokens from `first` on, `rows` of them, that are embedded beside the other modalities (gemma3n): rows of
     * `columns` that are normed, projected and normed again. rows 0: none. */
    struct modality_tokens {
        uint32_t first;
        uint32_t rows;
        uint32_t columns;
        float epsilon;
    } modality_tokens[MODALITIES];
    uint32_t streams; /* number of parallel residuals (gemma3n's alternating updates); 0: one */
    uint32_t active_stream; /* the one that layers compute with */
    bool scale_corrected;   /* the active stream is scaled before per-layer inputs */
    uint32_t laurel_rank;   /* of a low-rank residual beside attention; 0: none */
    /* After each of the first deepstack_layers layers a further part of an image's features is
     * added. */
    uint32_t deepstack_layers;
    uint32_t crossed_layers; /* that attend to features (op cross_attention); 0: none does */
    uint32_t rope_count;
    struct rope_config ropes[MODEL_ROPES_MAX];
    uint32_t ahead_layers;  /* after the last one, predict further tokens (model_open_ahead()) */
    bool keeps_hidden;      /* the last layer is computed for all rows (struct plan) */
    uint32_t conv_taps;     /* of recurrent layers: columns that a short convolution sees */
    uint32_t conv_channels; /* of a short convolution */
    struct delta_config delta;
    struct ssm_config ssm;
    float attended_factor; /* of attention's output before its projection; 0: 1 */
    float gate_factor;     /* of the feed-forward part's gate and output, in falcon_h1 */
    float fed_factor;
    struct latent_config latent;
    struct expert_config experts;
    struct layer_config layer[LIMIT_LAYERS];
};

/* A size of a layer: its own if it states one, else the model's. */
uint32_t model_config_head_dim(const struct model_config *config, uint32_t layer);
uint32_t model_config_kv_heads(const struct model_config *config, uint32_t layer);
uint32_t model_config_feed_forward(const struct model_config *config, uint32_t layer);
/* The layer whose keys and values layer `layer` attends over: itself or an earlier one. */
uint32_t model_config_cache(const struct model_config *config, uint32_t layer);

#endif
