/*
 * Granite 3, dense: llama with four constant factors, of embeddings (e), of each half's output (r),
 * of scores and of logits.
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
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

static const struct f32_range factor_range = {1e-3f, 1e3f};

struct granite_factors {
    float embedding;
    float residual;
    float logits; /* divides them */
};

static void apply(struct granite_factors factors, struct model_config *config)
{
    config->embedding_scale = factors.embedding / factors.residual;
    config->norm_epsilon /= factors.residual * factors.residual;
    config->logit_scale = 1.0f / factors.logits;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the granite architecture, beyond the sizes that all families have: the factors
 * (logit_scale is the divisor), and one rotary embedding over adjacent pairs, because rows are
 * permuted as in llama.
 */
static const char *const gguf_own_keys[] = {"logit_scale", "residual_scale", "embedding_scale",
                                            NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    apply(
        (struct granite_factors){
            .embedding = checkpoint_keys_f32_or(keys, "embedding_scale", factor_range, 1.0f),
            .residual = checkpoint_keys_f32_or(keys, "residual_scale", factor_range, 1.0f),
            .logits = checkpoint_keys_f32_or(keys, "logit_scale", factor_range, 1.0f),
        },
        config);
}

static const struct gguf_form gguf_granite = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Granite. attention_multiplier is the scale of scores itself, 1 by
 * default.
 *
 * Source: transformers, configuration_granite.py and modeling_granite.py.
 */
static const char *const model_types[] = {"granite", NULL};
static const char *const own_keys[] = {"attention_bias", "mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention_multiplier", (struct f32_range){1e-6f, 1e3f}, 1.0f);
    apply(
        (struct granite_factors){
            .embedding = checkpoint_keys_f32_or(keys, "embedding_multiplier", factor_range, 1.0f),
            .residual = checkpoint_keys_f32_or(keys, "residual_multiplier", factor_range, 1.0f),
            .logits = checkpoint_keys_f32_or(keys, "logits_scaling", factor_range, 1.0f),
        },
        config);
}

static const struct hf_form hf_granite = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- row -------------------------------------------------------------------------------------- */

const struct model_family family_granite = {
    .architecture = "granite",
    .gguf = &gguf_granite,
    .hf = &hf_granite,
    .list_ops = dense_blocks_list_plain,
};
