/*
 * Source: transformers, configuration_granite.py; llama.cpp, conversion/granite.py.
 */
#include "worker/model/checkpoint/granite_factors.h"

const struct granite_factors granite_no_factors = {1.0f, 1.0f, 1.0f};
const struct f32_range granite_factor_range = {1e-3f, 1e3f};

void granite_factors_apply(struct granite_factors factors, struct model_config *config)
{
    config->embedding_scale = factors.embedding / factors.residual;
    config->norm_epsilon /= factors.residual * factors.residual;
    config->logit_scale = 1.0f / factors.logits;
}

static float read_factor(struct checkpoint_keys *keys, const char *name, float absent)
{
    return checkpoint_keys_f32_or(keys, name, granite_factor_range, absent);
}

void granite_factors_read_gguf(struct checkpoint_keys *keys, struct granite_factors absent,
                               struct model_config *config)
{
    granite_factors_apply(
        (struct granite_factors){
            .embedding = read_factor(keys, "embedding_scale", absent.embedding),
            .residual = read_factor(keys, "residual_scale", absent.residual),
            .logits = read_factor(keys, "logit_scale", absent.logits),
        },
        config);
}

void granite_factors_read_hf(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention_multiplier", (struct f32_range){1e-6f, 1e3f}, 1.0f);
    granite_factors_apply(
        (struct granite_factors){
            .embedding = read_factor(keys, "embedding_multiplier", 1.0f),
            .residual = read_factor(keys, "residual_multiplier", 1.0f),
            .logits = read_factor(keys, "logits_scaling", 1.0f),
        },
        config);
}
