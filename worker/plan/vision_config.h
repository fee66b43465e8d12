/*
 * What a checkpoint says about its vision tower, checked like model_config.h.
 */
#ifndef SHOAL_WORKER_PLAN_VISION_CONFIG_H
#define SHOAL_WORKER_PLAN_VISION_CONFIG_H

#include "worker/plan/model_config.h"
#include "worker/plan/model_vision.h"

#define VISION_DEEPSTACK_MAX 8u

struct vision_config {
    struct model_vision vision; /* what others see of it; stages are the lister's */
    /* Sizes under the names of a text model: hidden, feed_forward, heads, head_dim, norm_epsilon,
     * norm_weight_offset, attention_scale, ropes[0]. It has no layers of its own: those that keep
     * keys are layers of a model_config. */
    struct model_config tower;
    uint32_t layers;
    uint32_t frames;             /* of a patch: a still picture is repeated */
    bool sees_all[LIMIT_LAYERS]; /* where there are windows: the layer does without */
    uint32_t table_side;         /* of learned positions; 0: none */
    bool clipped;                /* what goes into matrices of layers, and comes out, has bounds */
    bool standardized;           /* what is pooled is shifted and scaled */
    uint32_t deepstack[VISION_DEEPSTACK_MAX]; /* tower layers whose outputs are further parts */
};

#endif
