/*
 * The constant factors of Granite's families: of embeddings (e), of each half's output (r), of scores and
 * of logits.
 *
 *   x = e * embedding
 *   each half:  x += r * f(norm(x))
 *
 * With y = x / r this is the plain decoder: y = e / r * embedding, y += f(norm(r * y)), and
 *
 *   norm(r * y) = r * y / sqrt(r^2 * mean(y^2) + epsilon) = y / sqrt(mean(y^2) + epsilon / r^2).
 *
 * So r is in the scale of embeddings and in the epsilon, and no op scales the residual.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_GRANITE_FACTORS_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_GRANITE_FACTORS_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

struct granite_factors {
    float embedding;
    float residual;
    float logits; /* divides them */
};

extern const struct granite_factors granite_no_factors;
extern const struct f32_range granite_factor_range;

/* Sets the config's scales and its epsilon, which is the checkpoint's before. */
void granite_factors_apply(struct granite_factors factors, struct model_config *config);

/* Reads and applies them: GGUF's keys, of which logit_scale is the divisor, and `absent` for those that
 * are not there; or config.json's, with attention_multiplier, the scale of scores, 1 by default. */
void granite_factors_read_gguf(struct checkpoint_keys *keys, struct granite_factors absent,
                               struct model_config *config);
void granite_factors_read_hf(struct checkpoint_keys *keys, struct model_config *config);

#endif
