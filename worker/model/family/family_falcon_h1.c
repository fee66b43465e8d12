/*
 * The forward pass of Falcon H1: attention and a state space mixer beside each other in every layer
 * (build/hybrid_blocks.h), and constant factors on nearly every product.
 *
 *   x = e * embedding
 *   each layer:  y = norm(x)
 *                x += o * attention(i * y) + mix(y)         (build/ssm_blocks.h)
 *                x += d * Wdown . (silu(g * Wgate . norm(x)) * Wup . norm(x))
 *   logits = l * Woutput . norm(x)
 *
 * Keys have a factor k. Without biases in attention, scores have the factor k * i^2 and its output i * o,
 * so no op scales queries, keys and values.
 */
#include "worker/model/build/hybrid_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/gguf/checkpoint_gguf_ssm.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_ssm.h"

#define ROPE_BASE 10000.0f

static void use_layers(struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.kind = LAYER_SSM_ATTENTION};
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architecture falcon-h1, beyond the sizes that all families have. Converters
 * multiply the weights by the factors. A norm of the mixer comes after its gates, as llama.cpp
 * computes it.
 *
 * Source: llama.cpp, conversion/falcon_h1.py and src/models/falcon-h1.cpp.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    config->gate_factor = config->fed_factor = 1.0f;
    use_layers(config);
    checkpoint_gguf_read_ssm(keys, 0, config);
}

static const struct gguf_form gguf_falcon_h1 = {.read_config = gguf_read_config};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Falcon H1. Biases of attention are refused: factors would not multiply
 * them as above.
 *
 * Source: transformers, configuration_falcon_h1.py and modeling_falcon_h1.py.
 */
static const char *const model_types[] = {"falcon_h1", NULL};
static const char *const own_keys[] = {"mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};
static const struct f32_range factor_range = {1e-6f, 1e6f};

/* A list of `count` factors; each is 1 if the list is absent. */
static void read_factors(struct checkpoint_keys *keys, const char *name, uint32_t count, float *out)
{
    struct json_value list = json_value_member(keys->object, name), element;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        out[i] = 1.0f;
    if (json_value_type(list) == JSON_ABSENT)
        return;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        float factor = 0.0f;
        if (json_value_f32(element, &factor) != RESULT_OK || factor < factor_range.least ||
            factor > factor_range.most)
            checkpoint_keys_refuse(keys, RESULT_INVALID, "%s: element %u is not within %g to %g",
                                   name, found, (double)factor_range.least,
                                   (double)factor_range.most);
        else if (found < count)
            out[found] = factor;
        found++;
    }
    if (found != count)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%s is not %u numbers", name, count);
}

static float factor_of(struct checkpoint_keys *keys, const char *name)
{
    return checkpoint_keys_f32_or(keys, name, factor_range, 1.0f);
}

static void read_mixer(struct checkpoint_keys *keys, struct model_config *config)
{
    struct hf_ssm_terms terms = checkpoint_hf_bamba_ssm;
    terms.columns = "mamba_d_ssm";
    terms.default_columns = 1024;
    terms.out_bias = "projectors_bias";
    checkpoint_hf_read_ssm(keys, &terms, config);
    struct ssm_config *ssm = &config->ssm;
    if (!checkpoint_keys_bool_or(keys, "mamba_rms_norm", false))
        ssm->norm = SSM_NO_NORM;
    else if (checkpoint_keys_bool_or(keys, "mamba_norm_before_gate", true))
        ssm->norm = SSM_NORM_BEFORE_GATE;
    read_factors(keys, "ssm_multipliers", 5, ssm->factors);
    ssm->in_factor = factor_of(keys, "ssm_in_multiplier");
    ssm->out_factor = factor_of(keys, "ssm_out_multiplier");
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    float fed[2];
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    use_layers(config);
    read_mixer(keys, config);
    read_factors(keys, "mlp_multipliers", 2, fed);
    config->gate_factor = fed[0];
    config->fed_factor = fed[1];
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    float in = factor_of(keys, "attention_in_multiplier");
    config->attention_scale *= in * in * factor_of(keys, "key_multiplier");
    config->attended_factor = in * factor_of(keys, "attention_out_multiplier");
    config->embedding_scale = factor_of(keys, "embedding_multiplier");
    config->logit_scale = factor_of(keys, "lm_head_multiplier");
}

static const struct hf_form hf_falcon_h1 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 128000,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_bamba_names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              const struct dense_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    struct linear_weights gate_up = {
        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer),
        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer), PLAN_NONE};
    struct linear_weights biases = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id down_bias = PLAN_NONE;
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    plan_ops_linear(b, t->normed, gate_up, t->gate_up);
    if (c->feed_forward_bias) {
        biases.first = plan_builder_vector(b, wide, "blk.%u.ffn_gate.bias", layer);
        biases.second = plan_builder_vector(b, wide, "blk.%u.ffn_up.bias", layer);
        down_bias = plan_builder_vector(b, hidden, "blk.%u.ffn_down.bias", layer);
        plan_ops_bias_add(b, t->gate_up, biases);
    }
    if (c->gate_factor < 1.0f || c->gate_factor > 1.0f)
        plan_ops_scale_parts(b, t->gate_up,
                             (struct scale_parts_params){2, {wide, wide}, {c->gate_factor, 1.0f}});
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_project(b, t->gated, down, down_bias, c->fed_factor, t->normed, t->residual);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return hybrid_blocks_list(b, c,
                              &(const struct hybrid_form){.list_feed_forward = list_feed_forward});
}

const struct model_family family_falcon_h1 = {
    .architecture = "falcon-h1",
    .gguf = &gguf_falcon_h1,
    .hf = &hf_falcon_h1,
    .list_ops = list_ops,
};
