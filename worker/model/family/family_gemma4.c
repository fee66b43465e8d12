/*
 * The forward pass of Gemma 4 (text).
 *
 *   x = embedding * sqrt(hidden)
 *   p = (norm_per_layer(Wp . x / sqrt(hidden)) + table * sqrt(columns)) / sqrt(2)
 *   each layer l:  x += norm(Wo . attention(rope(norm(Wq . n)), rope(norm(Wk . n)), norm(Wv . n)))
 *                  x += norm(Wdown . (gelu(Wgate . norm(x)) * Wup . norm(x)))
 *                  x += norm(Wproj . (gelu(Winp . x) * p[l]))
 *                  x *= scale
 *   logits = cap(Woutput . norm(x))
 *
 * n is norm(x); the values' norm has no weights. Only the small models have p, the per-layer
 * inputs. Layers differ in head size, key-value heads and feed-forward width. Layers that share an
 * earlier layer's keys have only queries. If values are keys, the key matrix is used twice, since
 * keys and values have different norms.
 *
 * If a layer has experts, its second half is
 *
 *   x += norm(norm(dense(norm(x))) + norm(experts(norm(x)))), dense being the one above
 *
 * with weights by the scores Wr . (norm(x) * scale) / sqrt(hidden), normalized to a sum of one and
 * then multiplied by a factor of each expert.
 *
 * As in llama, only logit rows are computed after the last layer's attention.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/family_tensors.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/checkpoint/rope_scaling.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

enum { GLOBAL_ROPE, LOCAL_ROPE };

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the gemma4 architecture (text), beyond the sizes that all families have.
 *
 * A list tells two kinds of layers apart: global layers have heads of key_length columns and rotate
 * a part of them (rope_freqs.weight turns the other pairs off); sliding layers have heads of
 * key_length_swa columns. The last layers share the keys of earlier ones. If a layer that stores
 * keys has no value matrix, its values are its keys before norm and rotation.
 *
 * Scores are not scaled: the scale is part of the trained norms of queries and keys.
 *
 * Source: llama.cpp's converter; Hugging Face transformers, modeling_gemma4.py.
 */
#define GGUF_GLOBAL_ROPE_BASE 1000000.0f
#define GGUF_LOCAL_ROPE_BASE  10000.0f

static const char *const gguf_own_keys[] = {"final_logit_softcapping", "expert_count", NULL};

static uint32_t read_sliding_head_dim(struct checkpoint_keys *keys,
                                      const struct model_config *config)
{
    struct u32_range range = {2, LIMIT_HEAD_DIM};
    uint32_t dims =
        checkpoint_keys_u32_or(keys, "attention.key_length_swa", range, config->head_dim);
    uint32_t values = checkpoint_keys_u32_or(keys, "attention.value_length_swa", range, dims);
    if (keys->result == RESULT_OK && values != dims)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention.value_length_swa %u differs from key length %u", values,
                               dims);
    return dims;
}

static void gguf_read_ropes(struct checkpoint_keys *keys, struct model_config *config,
                            uint32_t sliding_head_dim)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE], *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = local->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GGUF_GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        GGUF_LOCAL_ROPE_BASE);
    struct u32_range range = {2, sliding_head_dim};
    local->dims = checkpoint_keys_u32_or(keys, "rope.dimension_count_swa", range, sliding_head_dim);
    if (keys->result == RESULT_OK && local->dims % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "rope.dimension_count_swa %u is not even",
                               local->dims);
    if (keys->result == RESULT_OK)
        checkpoint_plain_rope(local, base, 1.0f);
}

static bool lacks_values(const struct checkpoint_keys *keys, uint32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.attn_v.weight", layer);
    return !gguf_file_find_tensor(keys->file, name);
}

static void gguf_read_layers(struct checkpoint_keys *keys, struct model_config *config,
                             uint32_t sliding_head_dim)
{
    uint32_t sliding[LIMIT_LAYERS];
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t shared = checkpoint_keys_u32_or(keys, "attention.shared_kv_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    if (!checkpoint_keys_u32_each(keys, "attention.sliding_window_pattern",
                                  (struct u32_range){0, 1}, config->layers, sliding)) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma4.attention.sliding_window_pattern is missing");
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_config *l = &config->layer[layer];
        l->rope = sliding[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        l->window = sliding[layer] ? window : 0;
        l->head_dim = sliding[layer] ? sliding_head_dim : 0;
        l->causal = !sliding[layer];
    }
    checkpoint_share_caches(keys, config, shared);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].values_are_keys =
            config->layer[layer].cache_back == 0 && lacks_values(keys, layer);
}

void checkpoint_gguf_read_per_layer(struct checkpoint_keys *keys, struct model_config *config)
{
    config->per_layer_columns = checkpoint_keys_u32_or(keys, "embedding_length_per_layer_input",
                                                       (struct u32_range){0, LIMIT_PLE_COLUMNS}, 0);
    if (config->per_layer_columns == 0 || keys->result != RESULT_OK)
        return;
    const struct gguf_tensor *table =
        gguf_file_find_tensor(keys->file, "per_layer_token_embd.weight");
    uint64_t rows = table ? table->dimensions[1] : 0;
    if (rows == 0 || rows > config->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "tensor per_layer_token_embd.weight: %llu tokens, not within 1 to "
                               "%u",
                               (unsigned long long)rows, config->vocab_tokens);
    config->per_layer_tokens = (uint32_t)rows;
}

static void gguf_read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    config->experts.count =
        checkpoint_keys_u32_or(keys, "expert_count", (struct u32_range){0, LIMIT_EXPERTS}, 0);
    if (config->experts.count == 0 || keys->result != RESULT_OK)
        return;
    config->experts.chosen =
        checkpoint_keys_u32(keys, "expert_used_count", (struct u32_range){1, LIMIT_EXPERTS_CHOSEN});
    config->experts.feed_forward = checkpoint_keys_u32(keys, "expert_feed_forward_length",
                                                       (struct u32_range){1, LIMIT_FEED_FORWARD});
    config->experts.normalized = true;
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

/* Image rows take the padding token's row of the per-layer embedding. */
static void gguf_read_image_token(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t token = 0;
    (void)gguf_file_u32(keys->file, "tokenizer.ggml.padding_token_id", &token);
    config->image_token = token < config->vocab_tokens ? token : 0;
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t sliding_head_dim = read_sliding_head_dim(keys, config);
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    checkpoint_gguf_read_per_layer(keys, config);
    gguf_read_image_token(keys, config);
    gguf_read_ropes(keys, config, sliding_head_dim);
    if (keys->result == RESULT_OK)
        gguf_read_layers(keys, config, sliding_head_dim);
    gguf_read_experts(keys, config);
}

static const struct gguf_form gguf_gemma4 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Gemma 4, text only or the text part of a multimodal model.
 *
 * head_dim and num_key_value_heads are those of sliding layers. Global layers have global_head_dim,
 * and num_global_key_value_heads if attention_k_eq_v says that they have no value matrix; newer
 * configs state both in per_layer_config, by the numbers of layers. The last
 * num_kv_shared_layers attend over keys of earlier layers, and their feed-forward is twice as wide
 * if use_double_wide_mlp is set. Norm weights are stored whole. Bidirectional attention over text
 * is not supported.
 *
 * Source: transformers, configuration_gemma4.py and modeling_gemma4.py.
 */
#define HF_GLOBAL_ROPE_BASE 1000000.0f
#define HF_LOCAL_ROPE_BASE  10000.0f
#define GLOBAL_ROPE_PARTS   4u /* one part of so many in a head rotates */
#define DEFAULT_PERIOD      6u
#define DEFAULT_WINDOW      512u
#define DEFAULT_GLOBAL_DIM  512u
#define DEFAULT_PER_LAYER   256u

static const char *const model_types[] = {"gemma4_text", "gemma4", NULL};
static const char *const tying_wholes[] = {"gemma4", NULL};
static const char *const hf_own_keys[] = {"final_logit_softcapping", "use_bidirectional_attention",
                                          "num_experts", NULL};

static const struct tensor_name names[] = {
    {"per_layer_token_embd.weight", "^embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "^per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "^per_layer_projection_norm.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm_1.weight", "^layers.*.post_feedforward_layernorm_1.weight"},
    {"blk.*.pre_ffw_norm_2.weight", "^layers.*.pre_feedforward_layernorm_2.weight"},
    {"blk.*.post_ffw_norm_2.weight", "^layers.*.post_feedforward_layernorm_2.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.router.proj.weight"},
    {"blk.*.ffn_gate_inp.scale", "^layers.*.router.scale"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.experts.down_proj"},
    {"blk.*.ffn_down_exps.scale", "^layers.*.router.per_expert_scale"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.experts.switch_glu.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.experts.switch_glu.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.experts.switch_glu.down_proj.weight"},
    {"blk.*.inp_gate.weight", "^layers.*.per_layer_input_gate.weight"},
    {"blk.*.proj.weight", "^layers.*.per_layer_projection.weight"},
    {"blk.*.post_norm.weight", "^layers.*.post_per_layer_input_norm.weight"},
    {"blk.*.layer_output_scale.weight", "^layers.*.layer_scalar"},
    {"rope_freqs.weight", "rope_freqs.weight"},
    {"pre_projection.weight", "pre_projection.weight"}, /* of an assistant */
    {"post_projection.weight", "post_projection.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {
    "vision_tower.",       "audio_tower.",        "embed_vision.",
    "embed_audio.",        "model.vision_tower.", "model.audio_tower.",
    "model.embed_vision.", "model.embed_audio.",  NULL};

/* If rope_parameters says nothing, a quarter of a global head rotates. */
static void default_global_rope(const struct model_config *config, uint32_t head_dim,
                                struct rope_config *rope)
{
    const struct rope_scaling scaling = {.kind = ROPE_KIND_PROPORTIONAL,
                                         .base = HF_GLOBAL_ROPE_BASE,
                                         .dims = head_dim,
                                         .context_tokens = config->context_tokens,
                                         .original_tokens = config->context_tokens,
                                         .factor = 1.0f,
                                         .rotated_pairs = head_dim / GLOBAL_ROPE_PARTS / 2};
    rope->pairing = ROPE_PAIRS_HALVES;
    rope_scaling_apply(&scaling, rope);
}

static void hf_read_ropes(struct checkpoint_keys *keys, struct model_config *config,
                          uint32_t global_dim)
{
    const struct hf_rope_terms global_terms = {
        .base = HF_GLOBAL_ROPE_BASE, .partial = true, .part = 1.0f, .head_dim = global_dim};
    const struct hf_rope_terms local_terms = {
        .base = HF_LOCAL_ROPE_BASE, .partial = true, .part = 1.0f, .head_dim = config->head_dim};
    struct checkpoint_keys parameters = checkpoint_keys_enter(keys, "rope_parameters");
    checkpoint_keys_leave(keys, &parameters);
    struct checkpoint_keys global = checkpoint_keys_enter(&parameters, "full_attention");
    struct checkpoint_keys local = checkpoint_keys_enter(&parameters, "sliding_attention");
    bool stated = json_value_type(parameters.object) != JSON_ABSENT;
    if (stated && (json_value_type(global.object) == JSON_ABSENT ||
                   json_value_type(local.object) == JSON_ABSENT))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "rope_parameters lacks full_attention or sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope_of(&local, config, &local_terms, &config->ropes[LOCAL_ROPE]);
    checkpoint_keys_leave(keys, &local);
    if (stated)
        checkpoint_hf_read_rope_of(&global, config, &global_terms, &config->ropes[GLOBAL_ROPE]);
    else if (keys->result == RESULT_OK)
        default_global_rope(config, global_dim, &config->ropes[GLOBAL_ROPE]);
    checkpoint_keys_leave(keys, &global);
}

static void check_direction(struct checkpoint_keys *keys)
{
    struct gguf_string over = checkpoint_keys_string_or_empty(keys, "use_bidirectional_attention");
    if (over.length > 0 && !checkpoint_keys_is(over, "vision"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "use_bidirectional_attention \"%.*s\"",
                               (int)(over.length < 32 ? over.length : 32), over.bytes);
}

/* Sets which layers have a window. */
static void read_slides(struct checkpoint_keys *keys, const struct model_config *config,
                        bool slides[LIMIT_LAYERS])
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        slides[layer] = (layer + 1) % DEFAULT_PERIOD != 0;
    (void)checkpoint_hf_layer_slides(keys, config, slides);
    if (keys->result == RESULT_OK)
        slides[config->layers - 1] = false; /* the last layer is always global */
}

/* --- per_layer_config --- */

static const char *const per_layer_keys[] = {"head_dim", "num_key_value_heads", NULL};

/* The number that is a member's name; padded with zeros on the left. UINT32_MAX if it is none. */
static uint32_t layer_number(const char *name, size_t bytes, uint32_t layers)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9' || number > layers)
            return UINT32_MAX;
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    return bytes > 0 && number < layers ? (uint32_t)number : UINT32_MAX;
}

/* Reads one member of per_layer_config: sizes that this layer has instead of the model's. */
static void read_own_sizes(struct checkpoint_keys *keys, struct json_value sizes, uint32_t layer,
                           struct layer_config *own)
{
    struct checkpoint_keys inner = {.object = sizes, .error = keys->error, .result = keys->result};
    snprintf(inner.section, sizeof inner.section, "per_layer_config.%u", layer);
    char name[LIMIT_JSON_NAME_BYTES];
    size_t bytes, value_bytes;
    if (json_value_type(sizes) != JSON_OBJECT) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "per_layer_config: layer %u is not an object",
                               layer);
        return;
    }
    struct json_reader at = json_reader_open(sizes.bytes, sizes.byte_count);
    json_reader_enter(&at, '{');
    while (json_reader_next_member(&at, name, sizeof name - 1, &bytes)) {
        name[bytes] = '\0';
        (void)json_reader_skip(&at, &value_bytes);
        if (strcmp(name, per_layer_keys[0]) != 0 && strcmp(name, per_layer_keys[1]) != 0)
            checkpoint_keys_refuse(&inner, RESULT_UNSUPPORTED,
                                   "per_layer_config: layer %u has a %.40s of its own", layer,
                                   name);
    }
    own->head_dim =
        checkpoint_keys_u32_or(&inner, per_layer_keys[0], (struct u32_range){2, LIMIT_HEAD_DIM}, 0);
    own->kv_heads =
        checkpoint_keys_u32_or(&inner, per_layer_keys[1], (struct u32_range){1, LIMIT_HEADS}, 0);
    checkpoint_keys_leave(keys, &inner);
}

/* Newer configs list the layers whose sizes differ. Returns false if there is no such list. */
static bool read_own_layers(struct checkpoint_keys *keys, const struct model_config *config,
                            struct layer_config own[LIMIT_LAYERS])
{
    struct json_value list = json_value_member(keys->object, "per_layer_config");
    char name[LIMIT_JSON_NAME_BYTES];
    size_t bytes;
    memset(own, 0, LIMIT_LAYERS * sizeof *own);
    if (keys->result != RESULT_OK || json_value_type(list) == JSON_ABSENT)
        return false;
    if (json_value_type(list) != JSON_OBJECT)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key per_layer_config is not an object");
    struct json_reader at = json_reader_open(list.bytes, list.byte_count);
    json_reader_enter(&at, '{');
    while (json_reader_next_member(&at, name, sizeof name, &bytes)) {
        struct json_value sizes;
        sizes.bytes = json_reader_skip(&at, &sizes.byte_count);
        uint32_t layer = layer_number(name, bytes, config->layers);
        if (layer == UINT32_MAX)
            checkpoint_keys_refuse(keys, RESULT_INVALID, "per_layer_config has no layer \"%.*s\"",
                                   (int)(bytes < 16 ? bytes : 16), name);
        else
            read_own_sizes(keys, sizes, layer, &own[layer]);
    }
    return keys->result == RESULT_OK;
}

/* The head size of global layers. Those that per_layer_config names must agree, because they rotate
 * alike, and sliding layers must have the model's. */
static uint32_t read_global_dim(struct checkpoint_keys *keys, const struct model_config *config)
{
    struct layer_config own[LIMIT_LAYERS];
    bool slides[LIMIT_LAYERS];
    struct u32_range dims = {2, LIMIT_HEAD_DIM};
    if (!read_own_layers(keys, config, own))
        return checkpoint_keys_u32_or(keys, "global_head_dim", dims, DEFAULT_GLOBAL_DIM);
    read_slides(keys, config, slides);
    uint32_t last = own[config->layers - 1].head_dim, dim = last > 0 ? last : config->head_dim;
    for (uint32_t layer = 0; layer < config->layers && keys->result == RESULT_OK; layer++) {
        uint32_t stated = own[layer].head_dim > 0 ? own[layer].head_dim : config->head_dim;
        uint32_t expected = slides[layer] ? config->head_dim : dim;
        if (stated != expected)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "per_layer_config: layer %u has heads of %u, another layer of "
                                   "its kind heads of %u",
                                   layer, stated, expected);
    }
    return dim;
}

/* Sets the numbers of key-value heads that differ from the model's. */
static void read_own_kv_heads(struct checkpoint_keys *keys, struct model_config *config)
{
    struct layer_config own[LIMIT_LAYERS];
    if (!read_own_layers(keys, config, own))
        return;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].kv_heads = own[layer].kv_heads;
        if (own[layer].kv_heads > 0 && config->heads % own[layer].kv_heads != 0)
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "per_layer_config: layer %u: %u attention heads do not share "
                                   "%u key-value heads evenly",
                                   layer, config->heads, own[layer].kv_heads);
    }
}

static void hf_read_layers(struct checkpoint_keys *keys, struct model_config *config,
                           uint32_t global_dim)
{
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t shared = checkpoint_keys_u32_or(keys, "num_kv_shared_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    uint32_t global_kv = checkpoint_keys_u32_or(keys, "num_global_key_value_heads",
                                                (struct u32_range){1, LIMIT_HEADS}, 0);
    bool alike = checkpoint_keys_bool_or(keys, "attention_k_eq_v", false);
    bool double_wide = checkpoint_keys_bool_or(keys, "use_double_wide_mlp", false);
    if (keys->result == RESULT_OK && alike && global_kv > 0 && config->heads % global_kv != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u attention heads do not share %u global key-value heads evenly",
                               config->heads, global_kv);
    if (keys->result == RESULT_OK && double_wide && config->feed_forward > LIMIT_FEED_FORWARD / 2)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "twice intermediate_size %u is more than %u",
                               config->feed_forward, LIMIT_FEED_FORWARD);
    read_slides(keys, config, slides);
    if (keys->result != RESULT_OK)
        return;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_config *l = &config->layer[layer];
        l->rope = slides[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        l->window = slides[layer] ? window : 0;
        l->head_dim = slides[layer] ? 0 : global_dim;
        l->kv_heads = !slides[layer] && alike ? global_kv : 0;
        l->values_are_keys = !slides[layer] && alike;
        l->causal = !slides[layer];
        if (double_wide && layer + shared >= config->layers)
            l->feed_forward = 2 * config->feed_forward;
    }
    read_own_kv_heads(keys, config);
    checkpoint_share_caches(keys, config, shared);
}

static void hf_read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    if (!checkpoint_keys_bool_or(keys, "enable_moe_block", false))
        return;
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "num_experts", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen =
            checkpoint_keys_u32(keys, "top_k_experts", (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = checkpoint_keys_u32(keys, "moe_intermediate_size",
                                            (struct u32_range){1, LIMIT_FEED_FORWARD}),
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t global_dim = read_global_dim(keys, config);
    if (keys->result == RESULT_OK && global_dim % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "global_head_dim %u is odd", global_dim);
    check_direction(keys);
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    checkpoint_hf_read_per_layer(keys, 0, DEFAULT_PER_LAYER, config->vocab_tokens, config);
    hf_read_ropes(keys, config, global_dim);
    hf_read_layers(keys, config, global_dim);
    hf_read_experts(keys, config);
}

/* Image rows take the padding token's row of the per-layer embedding. */
static void read_whole(struct checkpoint_keys *root, struct model_config *config)
{
    bool sees = json_value_type(json_value_member(root->object, "vision_config")) == JSON_OBJECT;
    if (!sees || config->per_layer_columns == 0)
        return;
    struct checkpoint_keys text = checkpoint_keys_enter(root, "text_config");
    config->image_token = checkpoint_keys_u32_or(
        &text, "pad_token_id", (struct u32_range){0, config->vocab_tokens - 1}, 0);
    checkpoint_keys_leave(root, &text);
}

static const struct hf_form hf_gemma4 = {
    .model_types = model_types,
    .defaults = {.layers = 30,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 262144,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = hf_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .tying_wholes = tying_wholes,
    .read_config = hf_read_config,
    .read_whole = read_whole,
    .vision = &checkpoint_hf_gemma4_tower,
    .sound = &checkpoint_hf_gemma4_sound,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* Activation tensors that all layers share, whatever their sizes. */
struct gemma4_rows {
    enum plan_rows rows;
    plan_tensor_id residual;  /* [rows, hidden] */
    plan_tensor_id inner;     /* [rows, hidden]: input (normed) and output of a half */
    plan_tensor_id per_layer; /* [rows, layers * per_layer_columns], or PLAN_NONE */
    plan_tensor_id other;     /* [rows, hidden], with experts */
    plan_tensor_id mixed;     /* the same */
    struct expert_tensors experts;
};

static struct gemma4_rows add_rows(struct plan_builder *b, const struct model_config *c,
                                   enum plan_rows rows)
{
    struct gemma4_rows r = {
        .rows = rows,
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .inner = plan_builder_tensor(b, rows, c->hidden),
        .per_layer = PLAN_NONE,
    };
    if (c->experts.count > 0) {
        r.other = plan_builder_tensor(b, rows, c->hidden);
        r.mixed = plan_builder_tensor(b, rows, c->hidden);
        r.experts = expert_blocks_add_tensors(b, c, rows);
    }
    if (c->per_layer_columns > 0)
        r.per_layer = plan_builder_tensor(b, rows, c->layers * c->per_layer_columns);
    return r;
}

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static plan_weight_id value_weight(struct plan_builder *b, const struct model_config *c,
                                   uint32_t layer, uint32_t kv_rows, plan_weight_id key)
{
    return c->layer[layer].values_are_keys
               ? key
               : plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
}

/* Returns the attention output: [step rows, heads * head size]. */
static plan_tensor_id list_attention(struct plan_builder *b, const struct model_config *c,
                                     struct family_tensors *pool, uint32_t layer,
                                     const struct gemma4_rows *r)
{
    const struct qkv_slices slices = plan_ops_layer_slices(c, layer);
    uint32_t q_rows = slices.queries.heads * slices.queries.head_dim;
    uint32_t kv_rows = slices.keys.heads * slices.keys.head_dim;
    bool stores = c->layer[layer].cache_back == 0 && !c->borrows_caches;
    plan_tensor_id qkv = family_tensors_get(pool, b, FAMILY_QKV, r->rows, slices.columns);
    plan_tensor_id attended = family_tensors_get(pool, b, FAMILY_ATTENDED, r->rows, q_rows);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q_norm =
        plan_builder_vector(b, slices.queries.head_dim, "blk.%u.attn_q_norm.weight", layer);
    struct linear_weights weights =
        one(plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer));
    if (stores) {
        weights.second = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
        weights.third = value_weight(b, c, layer, kv_rows, weights.second);
    }
    plan_ops_rms_norm(b, r->residual, norm, r->inner);
    plan_ops_linear(b, r->inner, weights, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    if (stores) {
        gemma_blocks_keys(b, layer, slices, qkv);
    } else {
        gemma_blocks_pass_over_keys(b, layer);
        plan_ops_rope(b, qkv, slices.queries, layer);
    }
    plan_ops_attention(b, qkv, slices, layer, attended);
    return attended;
}

/* Adds the experts to the dense half: r->inner holds the dense output, and then the normed sum. */
static void list_experts(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         const struct gemma4_rows *r)
{
    static const struct expert_form form = {.gate = {.activation = GATE_GELU_TANH}};
    uint32_t hidden = c->hidden, count = c->experts.count;
    plan_weight_id dense = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm_1.weight", layer);
    plan_weight_id before = plan_builder_vector(b, hidden, "blk.%u.pre_ffw_norm_2.weight", layer);
    plan_weight_id behind = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm_2.weight", layer);
    plan_weight_id scale = plan_builder_vector(b, hidden, "blk.%u.ffn_gate_inp.scale", layer);
    plan_weight_id scores =
        plan_builder_matrix(b, count, hidden, "blk.%u.ffn_gate_inp.weight", layer);
    plan_weight_id weights = plan_builder_vector(b, count, "blk.%u.ffn_down_exps.scale", layer);
    plan_ops_rms_norm(b, r->inner, dense, r->inner);
    plan_ops_rms_norm(b, r->residual, scale, r->other);
    plan_ops_linear(b, r->other, one(scores), r->experts.scores);
    plan_ops_scale(b, r->experts.scores, 1.0f / sqrtf((float)hidden));
    plan_ops_rms_norm(b, r->residual, before, r->other);
    expert_blocks_list_scored(b, c, &form, layer, r->other, &r->experts, weights, false, r->mixed);
    plan_ops_rms_norm(b, r->mixed, behind, r->other);
    plan_ops_add_rows(b, r->inner, r->other, 1.0f, r->inner);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c,
                              struct family_tensors *pool, uint32_t layer,
                              const struct gemma4_rows *r)
{
    uint32_t hidden = c->hidden, wide = model_config_feed_forward(c, layer);
    plan_tensor_id gate_up = family_tensors_get(pool, b, FAMILY_GATE_UP, r->rows, 2 * wide);
    plan_tensor_id gated = family_tensors_get(pool, b, FAMILY_GATED, r->rows, wide);
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm.weight", layer);
    plan_ops_rms_norm(b, r->residual, norm, r->inner);
    plan_ops_linear(b, r->inner, (struct linear_weights){gate, up, PLAN_NONE}, gate_up);
    plan_ops_gate(b, gate_up, GATE_GELU_TANH, gated);
    plan_ops_linear(b, gated, one(down), r->inner);
    if (c->layer[layer].experts)
        list_experts(b, c, layer, r);
    plan_ops_rms_norm_add(b, r->inner, post, r->residual);
}

static void list_per_layer(struct plan_builder *b, const struct model_config *c,
                           struct family_tensors *pool, uint32_t layer, const struct gemma4_rows *r)
{
    uint32_t hidden = c->hidden, columns = c->per_layer_columns;
    plan_tensor_id narrow = family_tensors_get(pool, b, FAMILY_NARROW, r->rows, columns);
    plan_weight_id gate = plan_builder_matrix(b, columns, hidden, "blk.%u.inp_gate.weight", layer);
    plan_weight_id back = plan_builder_matrix(b, hidden, columns, "blk.%u.proj.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_norm.weight", layer);
    plan_ops_linear(b, r->residual, one(gate), narrow);
    plan_ops_gate_with(b, narrow, r->per_layer, layer * columns, GATE_GELU_TANH, narrow);
    plan_ops_linear(b, narrow, one(back), r->inner);
    plan_ops_rms_norm_add(b, r->inner, post, r->residual);
}

/* Lists the rest of a layer after attention. */
static void list_projections(struct plan_builder *b, const struct model_config *c,
                             struct family_tensors *pool, uint32_t layer,
                             const struct gemma4_rows *r, plan_tensor_id attended)
{
    uint32_t columns = c->heads * model_config_head_dim(c, layer);
    plan_weight_id o =
        plan_builder_matrix(b, c->hidden, columns, "blk.%u.attn_output.weight", layer);
    plan_weight_id o_norm =
        plan_builder_vector(b, c->hidden, "blk.%u.post_attention_norm.weight", layer);
    plan_ops_linear(b, attended, one(o), r->inner);
    plan_ops_rms_norm_add(b, r->inner, o_norm, r->residual);
    list_feed_forward(b, c, pool, layer, r);
    if (c->per_layer_columns > 0)
        list_per_layer(b, c, pool, layer, r);
    if (plan_builder_has(b, "blk.%u.layer_output_scale.weight", layer))
        plan_ops_scale_columns(
            b, r->residual, plan_builder_vector(b, 1, "blk.%u.layer_output_scale.weight", layer));
}

/* The last layer's attended rows [step rows], for logit rows. */
static plan_tensor_id gather(struct plan_builder *b, const struct model_config *c,
                             struct family_tensors *pool, const struct gemma4_rows *step,
                             const struct gemma4_rows *last, plan_tensor_id attended)
{
    uint32_t columns = c->heads * model_config_head_dim(c, c->layers - 1);
    plan_tensor_id gathered =
        family_tensors_get(pool, b, FAMILY_ATTENDED, PLAN_ROWS_LOGITS, columns);
    plan_ops_gather_rows(b, step->residual, last->residual);
    plan_ops_gather_rows(b, attended, gathered);
    if (c->per_layer_columns > 0)
        plan_ops_gather_rows(b, step->per_layer, last->per_layer);
    return gathered;
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct family_tensors pool = {0};
    struct gemma4_rows step = add_rows(b, c, PLAN_ROWS_STEP);
    struct gemma4_rows last = add_rows(b, c, PLAN_ROWS_LOGITS);
    uint32_t end = c->layers - 1;
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    plan_builder_use_in_config(b, "rope_freqs.weight");

    plan_ops_embed_rows(b, embedding, step.residual);
    if (c->per_layer_columns > 0)
        gemma_blocks_per_layer_inputs(b, c, step.residual, step.per_layer);
    for (uint32_t layer = 0; layer < end; layer++)
        list_projections(b, c, &pool, layer, &step, list_attention(b, c, &pool, layer, &step));
    plan_tensor_id attended = list_attention(b, c, &pool, end, &step);
    if (c->keeps_hidden) {
        list_projections(b, c, &pool, end, &step, attended);
        plan_ops_rms_norm(b, step.residual, norm, step.inner);
        plan_builder_hidden_out(b, step.inner);
        plan_ops_gather_rows(b, step.inner, last.inner);
    } else {
        list_projections(b, c, &pool, end, &last, gather(b, c, &pool, &step, &last, attended));
        plan_ops_rms_norm(b, last.residual, norm, last.inner);
    }
    plan_ops_linear(b, last.inner, one(output), logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

/* The joined input is the model's embedding of the last token, then the model's last hidden state or the
 * assistant's own. */
static void list_assistant_input(struct plan_builder *b, const struct model_config *c,
                                 const struct assistant_target *target, plan_tensor_id residual)
{
    plan_tensor_id given = plan_builder_hidden_in(b, target->hidden);
    plan_tensor_id embedded = plan_builder_tensor(b, PLAN_ROWS_STEP, target->hidden);
    plan_tensor_id joined = plan_builder_tensor(b, PLAN_ROWS_STEP, 2 * target->hidden);
    plan_weight_id embedding = plan_builder_copy(b, target->embedding);
    plan_weight_id projection =
        plan_builder_matrix(b, c->hidden, 2 * target->hidden, "pre_projection.weight");
    plan_ops_embed_rows_scaled(b, embedding, target->embedding_scale, embedded);
    plan_ops_join_heads(b, embedded, given, (struct join_heads_params){.heads = 1}, joined);
    plan_ops_linear(b, joined, one(projection), residual);
}

static plan_tensor_id list_assistant_ops(struct plan_builder *b, const struct model_config *c,
                                         const struct assistant_target *target)
{
    struct family_tensors pool = {0};
    struct gemma4_rows step = add_rows(b, c, PLAN_ROWS_STEP);
    struct gemma4_rows last = add_rows(b, c, PLAN_ROWS_LOGITS);
    uint32_t end = c->layers - 1;
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_tensor_id own = plan_builder_tensor(b, PLAN_ROWS_LOGITS, target->hidden);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id back =
        plan_builder_matrix(b, target->hidden, c->hidden, "post_projection.weight");

    list_assistant_input(b, c, target, step.residual);
    for (uint32_t layer = 0; layer < end; layer++)
        list_projections(b, c, &pool, layer, &step, list_attention(b, c, &pool, layer, &step));
    plan_tensor_id attended = list_attention(b, c, &pool, end, &step);
    list_projections(b, c, &pool, end, &last, gather(b, c, &pool, &step, &last, attended));
    plan_ops_rms_norm(b, last.residual, norm, last.inner);
    plan_ops_linear(b, last.inner, one(back), own);
    plan_builder_hidden_out(b, own);
    plan_ops_linear(b, last.inner, one(output), logits);
    return logits;
}

const struct model_family family_gemma4 = {
    .architecture = "gemma4",
    .gguf = &gguf_gemma4,
    .hf = &hf_gemma4,
    .list_ops = list_ops,
    .list_vision_ops = tower_gemma4_list_ops,
    .list_sound_ops = tower_gemma4_sound_list_ops,
    .list_assistant_ops = list_assistant_ops,
};
