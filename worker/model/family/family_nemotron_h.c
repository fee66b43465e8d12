/*
 * The forward pass of Nemotron H: each layer is a norm and one part, which is attention without rotation,
 * a state space mixer, a feed-forward part without a gate, or experts without gates
 * (build/hybrid_blocks.h).
 *
 *   x = embedding
 *   each layer:  x += part(norm(x));  feed(y) = Wdown . max(Wup . y, 0)^2
 *   logits = Woutput . norm(x)
 *
 * Experts are chosen by sigmoid and a bias, beside one that every row uses. In some models they read and
 * give a latent, a projection of the row.
 */
#include <stdio.h>
#include <string.h>

#include "worker/model/build/hybrid_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_ssm.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_ssm.h"

#define WEIGHT_EPSILON 1e-20f

static void no_ropes(struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].rope = ROPE_NONE;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architectures nemotron_h and nemotron_h_moe, beyond the sizes that all families
 * have. A layer with key-value heads attends, one with columns of a feed-forward part has that, or with
 * nemotron_h_moe experts; the others have mixers.
 *
 * Source: llama.cpp, conversion/nemotron.py and src/models/nemotron-h.cpp.
 */
static const char *const gguf_own_keys[] = {"attention.head_count_kv", "feed_forward_length", NULL};
static const char *const gguf_moe_own_keys[] = {"attention.head_count_kv", "feed_forward_length",
                                                GGUF_EXPERT_KEYS, NULL};

/* Marks layers by feed_forward_length, and returns the first one with a mixer. */
static uint32_t gguf_read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t first = config->layers;
    (void)checkpoint_gguf_read_attending(keys, LAYER_SSM, config);
    config->feed_forward = 1;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t wide = checkpoint_keys_u32_at(keys, "feed_forward_length", layer,
                                               (struct u32_range){0, LIMIT_FEED_FORWARD});
        struct layer_config *own = &config->layer[layer];
        if (wide > 0 && own->kind == LAYER_ATTENTION)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "layer %u has both key-value heads and a feed-forward part",
                                   layer);
        if (wide > 0 && config->feed_forward > 1 && config->feed_forward != wide)
            checkpoint_keys_refuse(
                keys, RESULT_UNSUPPORTED,
                "feed_forward_length: layer %u has %u columns, an earlier one %u", layer, wide,
                config->feed_forward);
        if (wide > 0) {
            own->kind = LAYER_FEED_FORWARD;
            config->feed_forward = wide;
        }
        if (own->kind == LAYER_SSM && first == config->layers)
            first = layer;
    }
    no_ropes(config);
    return first < config->layers ? first : 0;
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t first = gguf_read_layers(keys, config);
    checkpoint_gguf_read_ssm(keys, first, config);
}

static void gguf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct gguf_expert_terms terms = {
        .sigmoid = true, .normalized = true, .epsilon = WEIGHT_EPSILON};
    gguf_read_config(keys, config);
    checkpoint_gguf_read_experts(keys, &terms, config);
    config->experts.latent =
        checkpoint_keys_u32_or(keys, "moe_latent_size", (struct u32_range){1, LIMIT_HIDDEN}, 0);
    bool biased = false;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.exp_probs_b.bias", layer);
        config->layer[layer].experts = config->layer[layer].kind == LAYER_FEED_FORWARD;
        biased |= gguf_file_find_tensor(keys->file, name) != NULL;
    }
    config->experts.choice_bias = biased;
}

static const struct gguf_form gguf_nemotron_h = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

static const struct gguf_form gguf_nemotron_h_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Nemotron H. The layers are a list of words (layers_block_type), or in older
 * configs a string of letters (hybrid_override_pattern); there are as many as it has.
 *
 * transformers bounds steps by time_step_min from below, but only in prompts; here, as in the published
 * time_step_limit and elsewhere, 0 is the bound.
 *
 * Source: transformers, configuration_nemotron_h.py, modeling_nemotron_h.py and conversion_mapping.py for
 * the stored names.
 */
static const char *const model_types[] = {"nemotron_h", NULL};
static const char *const no_types[] = {NULL};
static const char *const own_keys[] = {"mlp_bias", "num_local_experts", NULL};
static const char *const prefixes[] = {"backbone.", "model.", NULL};
static const char *const other_parts[] = {"mtp.", NULL};

static const struct tensor_name names[] = {
    {"token_embd.weight", "^embeddings.weight"},
    {"output_norm.weight", "^norm_f.weight"},
    {"output.weight", "lm_head.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.norm.weight"},
    HF_SSM_NAMES("mixer."),
    {"blk.*.attn_q.weight", "^layers.*.mixer.q_proj.weight"},
    {"blk.*.attn_k.weight", "^layers.*.mixer.k_proj.weight"},
    {"blk.*.attn_v.weight", "^layers.*.mixer.v_proj.weight"},
    {"blk.*.attn_output.weight", "^layers.*.mixer.o_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mixer.up_proj.weight"},
    {"blk.*.ffn_up.bias", "^layers.*.mixer.up_proj.bias"},
    {"blk.*.ffn_down.weight", "^layers.*.mixer.down_proj.weight"},
    {"blk.*.ffn_down.bias", "^layers.*.mixer.down_proj.bias"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mixer.gate.weight"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mixer.gate.e_score_correction_bias"},
    {"blk.*.ffn_up.*.weight", "^layers.*.mixer.experts.*.up_proj.weight"},
    {"blk.*.ffn_down.*.weight", "^layers.*.mixer.experts.*.down_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.mixer.experts.up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mixer.experts.down_proj"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mixer.shared_experts.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mixer.shared_experts.down_proj.weight"},
    {"blk.*.ffn_latent_down.weight", "^layers.*.mixer.fc1_latent_proj.weight"},
    {"blk.*.ffn_latent_up.weight", "^layers.*.mixer.fc2_latent_proj.weight"},
    {NULL, NULL},
};

/* The layer of a word or a letter. Returns false if there is none. */
static bool find_layer(const char *word, struct layer_config *layer)
{
    static const struct {
        const char *words[3];
        enum layer_kind kind;
        bool experts;
    } kinds[] = {{{"M", "mamba", "linear_attention"}, LAYER_SSM, false},
                 {{"*", "attention", "full_attention"}, LAYER_ATTENTION, false},
                 {{"-", "mlp", "mlp"}, LAYER_FEED_FORWARD, false},
                 {{"E", "moe", "moe"}, LAYER_FEED_FORWARD, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t w = 0; w < 3; w++)
            if (strcmp(kinds[i].words[w], word) == 0) {
                *layer = (struct layer_config){
                    .kind = kinds[i].kind, .rope = ROPE_NONE, .experts = kinds[i].experts};
                return true;
            }
    return false;
}

/* Adds a layer to the `count` that were read. */
static void add_layer(struct checkpoint_keys *keys, struct model_config *config, const char *word,
                      uint32_t *count)
{
    if (*count == LIMIT_LAYERS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "more than %u layers", LIMIT_LAYERS);
    else if (!find_layer(word, &config->layer[*count]))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "layer %u is of the unknown kind \"%.32s\"", *count, word);
    else
        (*count)++;
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value list = json_value_member(keys->object, "layers_block_type"), element;
    struct gguf_string letters = checkpoint_keys_string_or_empty(keys, "hybrid_override_pattern");
    uint32_t count = 0;
    char word[32];
    if (json_value_type(list) != JSON_ARRAY)
        list = json_value_member(keys->object, "layer_types");
    for (struct json_reader at = json_value_elements(list);
         keys->result == RESULT_OK && json_value_next(&at, &element);) {
        if (json_value_string(element, word, sizeof word) != RESULT_OK)
            word[0] = '\0';
        add_layer(keys, config, word, &count);
    }
    bool listed = json_value_type(list) == JSON_ARRAY;
    for (size_t i = 0; !listed && i < letters.length && keys->result == RESULT_OK; i++)
        add_layer(keys, config, (const char[]){letters.bytes[i], '\0'}, &count);
    if (keys->result == RESULT_OK && count == 0)
        checkpoint_keys_refuse(
            keys, RESULT_INVALID,
            "neither layers_block_type nor hybrid_override_pattern lists layers");
    if (count > 0)
        config->layers = count;
}

static bool has_experts(const struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        if (config->layer[layer].experts)
            return true;
    return false;
}

static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range counts = {1, LIMIT_EXPERTS}, wide = {1, LIMIT_FEED_FORWARD};
    struct expert_config *e = &config->experts;
    if (!has_experts(config))
        return;
    if (config->feed_forward_bias)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "mlp_bias is not supported with experts");
    *e = checkpoint_hf_sigmoid_experts(keys, 1, 1);
    e->count = checkpoint_keys_u32_or(keys, "n_routed_experts", counts, 8);
    e->chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok",
                                       (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}, 2);
    e->feed_forward = checkpoint_keys_u32_or(keys, "moe_intermediate_size", wide, 7688);
    e->shared = checkpoint_keys_u32_or(keys, "moe_shared_expert_intermediate_size", wide, 7688);
    e->scale = checkpoint_keys_f32_or(keys, "routed_scaling_factor",
                                      (struct f32_range){1e-4f, 1e4f}, 1.0f);
    e->latent = checkpoint_hf_count_or_null(keys, "moe_latent_size", LIMIT_HIDDEN, 0);
    checkpoint_settle_groups(keys, e);
    checkpoint_settle_experts(keys, config);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct hf_ssm_terms terms = {
        .heads = "mamba_num_heads",
        .head_dim = "mamba_head_dim",
        .groups = "n_groups",
        .state = "ssm_state_size",
        .taps = "conv_kernel",
        .conv_bias = "use_conv_bias",
        .in_bias = "use_bias",
        .out_bias = "use_bias",
        .default_heads = 128,
        .default_head_dim = 64,
        .default_groups = 8,
        .default_state = 128,
    };
    struct gguf_string act = checkpoint_keys_string_or_empty(keys, "mamba_hidden_act");
    if (act.length > 0 && !checkpoint_keys_is(act, "silu"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "mamba_hidden_act is not \"silu\"");
    if (json_value_type(json_value_member(keys->object, "sliding_window")) != JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key sliding_window is not supported");
    read_layers(keys, config);
    checkpoint_hf_read_ssm(keys, &terms, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    read_experts(keys, config);
}

static const struct hf_form hf_nemotron_h = {
    .model_types = model_types,
    .defaults = {.layers = 52,
                 .hidden = 4096,
                 .feed_forward = 21504,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab_tokens = 131072,
                 .norm_epsilon = 1e-5f},
    .epsilon_key = "layer_norm_epsilon",
    .activation_key = "mlp_hidden_act",
    .activation = "relu2",
    .own_keys = own_keys,
    .naming = {names, NULL, prefixes, other_parts},
    .read_config = hf_read_config,
};

/* Folders with experts are of the row above. */
static const struct hf_form hf_none = {.model_types = no_types,
                                       .naming = {names, NULL, prefixes, NULL}};

/* --- ops and rows ----------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return hybrid_blocks_list(
        b, c,
        &(const struct hybrid_form){
            .single = true,
            .dense = {.ungated = true,
                      .activation_alone = ACTIVATION_RELU2,
                      .feed_forward_norm = "attn_norm",
                      .experts = {.ungated = true, .activation_alone = ACTIVATION_RELU2}}});
}

const struct model_family family_nemotron_h = {
    .architecture = "nemotron_h",
    .gguf = &gguf_nemotron_h,
    .hf = &hf_nemotron_h,
    .list_ops = list_ops,
};

const struct model_family family_nemotron_h_moe = {
    .architecture = "nemotron_h_moe",
    .gguf = &gguf_nemotron_h_moe,
    .hf = &hf_none,
    .list_ops = list_ops,
};
