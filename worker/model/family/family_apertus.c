/*
 * Apertus: the dense decoder with norms of query and key heads and a feed-forward part without a
 * gate, whose activation is xIELU with two learned parameters a layer:
 *
 *   x > 0:  softplus(alpha_p) * x^2 + beta * x
 *   else:   (beta + softplus(alpha_n)) * (expm1(min(x, eps)) - x) + beta * x
 *
 * Source: Huang and Schlag, Deriving Activation Functions Using Integration, 2024.
 */
#include <math.h>
#include <string.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE    12000000.0f
#define DEFAULT_BETA 0.5f
#define DEFAULT_EPS  (-1e-6f)

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the apertus architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of a head, and the activation's parameters, each a list over the
 * layers or one number, in keys without the architecture's name.
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py and its converter.
 */
static bool is_number(enum gguf_value_type type)
{
    return type == GGUF_FLOAT32 || type == GGUF_FLOAT64;
}

/* The key's value for each layer, into the float at `offset` of its xielu. */
static void read_parameter(struct checkpoint_keys *keys, const char *name, size_t offset,
                           struct model_config *config)
{
    struct gguf_array list;
    float one = 0.0f;
    bool listed = gguf_file_array(keys->file, name, &list) == RESULT_OK;
    bool fits = listed ? is_number(list.type) && list.count == config->layers
                       : gguf_file_f32(keys->file, name, &one) == RESULT_OK;
    if (!fits) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s has not one float a layer", name);
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        float value = listed ? (float)gguf_array_f64(&list, layer) : one;
        memcpy((char *)&config->layer[layer].xielu + offset, &value, sizeof value);
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    read_parameter(keys, "xielu.alpha_p", offsetof(struct xielu_config, alpha_p), config);
    read_parameter(keys, "xielu.alpha_n", offsetof(struct xielu_config, alpha_n), config);
    read_parameter(keys, "xielu.beta", offsetof(struct xielu_config, beta), config);
    read_parameter(keys, "xielu.eps", offsetof(struct xielu_config, eps), config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].xielu.stated = true;
}

static const struct gguf_form gguf_apertus = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Apertus. The activation's parameters are tensors of one number; beta
 * and eps are left out by some programs. A config without a rotary embedding would mean the class's
 * default, which no published model has; it is refused.
 *
 * Source: transformers, configuration_apertus.py, modeling_apertus.py and activations.py.
 */
static const char *const model_types[] = {"apertus", NULL};
static const char *const own_keys[] = {"attention_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_norm.weight", "^layers.*.attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.feedforward_layernorm.weight"},
    {"blk.*.ffn_act.alpha_p", "^layers.*.mlp.act_fn.alpha_p"},
    {"blk.*.ffn_act.alpha_n", "^layers.*.mlp.act_fn.alpha_n"},
    {"blk.*.ffn_act.beta", "^layers.*.mlp.act_fn.beta"},
    {"blk.*.ffn_act.eps", "^layers.*.mlp.act_fn.eps"},
    {NULL, NULL},
};

static bool is_object(const struct checkpoint_keys *keys, const char *name)
{
    return json_value_type(json_value_member(keys->object, name)) == JSON_OBJECT;
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "qk_norm", 1);
    checkpoint_keys_expect_neutral(keys, "post_norm", 0);
    if (!is_object(keys, "rope_parameters") && !is_object(keys, "rope_scaling"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "neither rope_parameters nor rope_scaling is stated");
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
}

static const struct hf_form hf_apertus = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .vocab_tokens = 131072,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "xielu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

static float number_or(struct plan_builder *b, uint32_t layer, const char *name, float absent)
{
    if (!plan_builder_has(b, "blk.%u.ffn_act.%s", layer, name))
        return absent;
    return plan_builder_number(b, "blk.%u.ffn_act.%s", layer, name);
}

static struct xielu_params xielu(struct plan_builder *b, const struct model_config *c,
                                 uint32_t layer)
{
    struct xielu_config stated = c->layer[layer].xielu;
    if (!stated.stated)
        stated = (struct xielu_config){
            .alpha_p = plan_builder_number(b, "blk.%u.ffn_act.alpha_p", layer),
            .alpha_n = plan_builder_number(b, "blk.%u.ffn_act.alpha_n", layer),
            .beta = number_or(b, layer, "beta", DEFAULT_BETA),
            .eps = number_or(b, layer, "eps", DEFAULT_EPS),
        };
    return (struct xielu_params){
        .positive = softplus(stated.alpha_p),
        .negative = stated.beta + softplus(stated.alpha_n),
        .linear = stated.beta,
        .least = stated.eps,
    };
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.head_norms = true,
                                                        .ungated = true,
                                                        .activation_alone = ACTIVATION_XIELU,
                                                        .xielu = xielu});
}

const struct model_family family_apertus = {
    .architecture = "apertus",
    .gguf = &gguf_apertus,
    .hf = &hf_apertus,
    .list_ops = list_ops,
};
