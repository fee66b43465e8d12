/*
 * What a checkpoint says about its vision tower, checked like model_config.h.
 */
#ifndef SHOAL_WORKER_PLAN_VISION_CONFIG_H
#define SHOAL_WORKER_PLAN_VISION_CONFIG_H

#include "worker/plan/model_config.h"
#include "worker/plan/model_vision.h"
#include "worker/plan/op_list.h"

#define VISION_DEEPSTACK_MAX 8u

/* A tower over the features of the first one. */
struct second_tower {
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads;
    uint32_t feed_forward;
    uint32_t table_side;
    float norm_epsilon;
};

/* Of a conformer (worker/model/build/conformer_blocks.h). */
struct conformer_config {
    uint32_t channels[2];    /* of the two maps */
    float map_epsilon;       /* of their norms */
    uint32_t lines_before;   /* that a convolution over a map sees before its own */
    uint32_t taps;           /* of the convolution over time */
    uint32_t before;         /* rows that a row attends to before its own */
    int32_t distance_offset; /* added to a distance for its sines */
    float query_scale;
    float key_scale;
    float soft_cap;
    float residual_weight;
    float clipping;  /* 0: none */
    uint32_t output; /* columns of the last projection; 0: there is none */
    bool past_norms; /* maps are normed by all lines so far, instead of each point by itself */
    /* Tokens of sounds, of which row rest_row stands after a sound; rows 0: none does. */
    struct modality_tokens rest;
    uint32_t rest_row;
};

struct vision_config {
    struct model_vision vision; /* for other modules; the family sets `stages` */
    /* Sizes in the fields of a text model: hidden, feed_forward, heads, head_dim, norm_epsilon,
     * norm_weight_offset, attention_scale, ropes[0]. Its number of layers is `layers`. */
    struct model_config tower;
    uint32_t layers;             /* that are computed */
    uint32_t unused_layers;      /* after these, in the checkpoint */
    enum activation activation;  /* of the feed-forward part, where families differ */
    uint32_t frames;             /* of the kernel that projects patches */
    bool sees_all[LIMIT_LAYERS]; /* in a tower with windows: the layer has none */
    uint32_t tile_window;        /* side of the windows of op tile_attention, patches; 0: none */
    uint32_t
        neck[3]; /* columns after the convolutions that follow the layers, where there are some */
    struct second_tower second; /* zeros: there is none */
    uint32_t table_side;        /* side of the table of learned positions; 0: none */
    uint32_t unused_positions;  /* rows before it in the checkpoint that nothing uses */
    bool rms_norms;             /* these three where they are settings */
    bool qk_norms;
    bool qkv_bias;
    bool projector_bias;     /* of the matrices after the tower, where families differ */
    uint32_t projector_wide; /* rows of the projection's first matrix, where it is a setting */
    float projector_epsilon; /* of the norm before it, where it is a setting; 0: no norm */
    float text_epsilon;      /* of the text model's norms */
    struct conformer_config conformer;
    bool clipped;             /* inputs and outputs of the layers' matrices are clamped */
    bool standardized;        /* pooled rows are shifted and scaled */
    float pooled_norm_offset; /* added to the weights of the norm of pooled rows (gemma3) */
    uint32_t outputs;         /* numbers in `deepstack` that are columns of one feature (mllama) */
    uint32_t global_layers;   /* after those of the tower, in mllama */
    const struct model_config *text; /* outlives the tower's building; NULL: of a projector file */
    bool deepstack_by_layer;         /* tensors of further parts have their layer's number */
    uint32_t deepstack[VISION_DEEPSTACK_MAX]; /* tower layers whose outputs are further parts of
                                                 features */
};

#endif
