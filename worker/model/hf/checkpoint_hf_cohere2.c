/*
 * Hugging Face checkpoints of Cohere's Command R7B and A (cohere2).
 *
 * The size of a head is always hidden / heads there, whatever head_dim says; a checkpoint in which
 * the two differ has tensors of the wrong shape.
 *
 * Source: transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define DEFAULT_LOGIT_SCALE 0.0625f

static const char *const model_types[] = {"cohere2", NULL};
static const struct hf_layer_pattern layer_pattern = {
    .window = 4096, .period = 4, .global_rope = ROPE_NONE, .window_rope = 0};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f};

static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 0);
    checkpoint_keys_expect_neutral(keys, "rotary_pct", 1);
    config->logit_scale = checkpoint_keys_f32_or(
        keys, "logit_scale", (struct f32_range){1e-6f, 1e3f}, DEFAULT_LOGIT_SCALE);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

const struct hf_form checkpoint_hf_cohere2 = {
    .model_types = model_types,
    .defaults = {.layers = 40,
                 .hidden = 8192,
                 .feed_forward = 22528,
                 .heads = 64,
                 .vocab_tokens = 256000,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = read_config,
};
