/*
 * DeepSeek 2, 2.5, 3, Kimi K2 and GLM-4.7-Flash: attention over a latent (MLA), and mixtures of experts after some
 * dense layers.
 *
 *   q = Wq . x for each head, or Wqb . norm(Wqa . x);  q[h] = plain | rotated
 *   c | r = Wkva . x;  c = norm(c), r = rope(r): what is cached, of all heads
 *   k[h] = Wk[h] . c | r,  v[h] = Wv[h] . c,  Wk[h] and Wv[h] being the rows of a head of Wkvb
 *   x += Wo . concat over h of attention(q[h], k[h], v[h])
 *
 * Keys and values are never made. With the query (Wk[h]^T . plain) instead of plain, the scores are those
 * of one cached row r | c that all heads share, and the sum of values is Wv[h] . (the sum of c): so
 * attention has one KV head whose values are its keys (layer_config.latent), and each head's two products
 * are those of a mixture that every row uses in order (head_route). The cache has kv_lora_rank +
 * qk_rope_head_dim numbers a token and layer: 576 in all published models.
 *
 * The attention op sums r too, which nothing reads. On GPUs prompts are attended by the kernel for decodes,
 * since heads of 576 fit no tile of matrix units; that was not measured. Where the checkpoint has Wkvb as
 * one matrix, Wk is transposed at load.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/model/build/ahead_blocks.h"
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE      10000.0f
#define LATENT_EPSILON 1e-6f /* of the latents' norms, whatever the config says of the others */

static const struct u32_range rank_range = {1, LIMIT_HIDDEN};
static const struct u32_range dim_range = {1, LIMIT_HEAD_DIM};
static const struct u32_range rope_range = {2, LIMIT_HEAD_DIM};

/* --- both formats ----------------------------------------------------------------------------- */

/* (0.1 * mscale_all * ln(factor) + 1)^2: YaRN's magnitude, in the scores instead of the rotation. */
static float score_factor(float factor, float mscale_all)
{
    float magnitude =
        factor > 1.0f && mscale_all > 0.0f ? 0.1f * mscale_all * logf(factor) + 1.0f : 1.0f;
    return magnitude * magnitude;
}

/* The cache's head, and the scale of scores, from config->latent. */
static void settle(struct checkpoint_keys *keys, float factor, struct model_config *config)
{
    const struct latent_config *latent = &config->latent;
    uint64_t cached = (uint64_t)latent->columns + latent->rope_dims;
    if (keys->result == RESULT_OK && cached > LIMIT_LATENT_COLUMNS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "a latent of %llu columns, more than %u",
                               (unsigned long long)cached, LIMIT_LATENT_COLUMNS);
    if (keys->result == RESULT_OK && latent->plain_dims + latent->rope_dims > LIMIT_HEAD_DIM)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "heads of %u columns, more than %u",
                               latent->plain_dims + latent->rope_dims, LIMIT_HEAD_DIM);
    config->kv_heads = 1;
    config->head_dim = (uint32_t)cached;
    config->attention_scale = factor / sqrtf((float)(latent->plain_dims + latent->rope_dims));
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].latent = true;
        config->layer[layer].kv_heads = 0;
    }
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the deepseek2 architecture. Files of today state a head's sizes as key_length_mla and
 * value_length_mla, those of the cache as key_length and value_length, and have Wk and Wv as stacks, Wk
 * transposed (attn_k_b, attn_v_b); older ones have the heads' sizes as key_length and value_length, and
 * attn_kv_b.
 *
 * yarn_log_multiplier is 0.1 * mscale_all_dim, and mscale is taken for equal to mscale_all_dim, so that
 * rotation has no magnitude.
 *
 * Source: llama.cpp, conversion/deepseek.py and src/models/deepseek2.cpp.
 */
static const char *const gguf_own_keys[] = {GGUF_EXPERT_KEYS, "attention.key_length",
                                            "attention.value_length", "nextn_predict_layers", NULL};

static void gguf_read_rope(struct checkpoint_keys *keys, struct model_config *config, float *factor)
{
    struct rope_scaling scaling;
    checkpoint_gguf_read_scaling(keys, config, config->latent.rope_dims, ROPE_BASE, &scaling);
    if (keys->result != RESULT_OK)
        return;
    if (scaling.kind == ROPE_KIND_YARN && scaling.mscale_all > 0.0f) {
        *factor = score_factor(scaling.factor, scaling.mscale_all / 0.1f);
        scaling.magnitude = 1.0f;
    }
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    rope_scaling_apply(&scaling, &config->ropes[0]);
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct latent_config *latent = &config->latent;
    float factor = 1.0f;
    uint32_t ahead = checkpoint_keys_u32_or(keys, "nextn_predict_layers",
                                            (struct u32_range){0, config->layers - 1}, 0);
    config->layers -= ahead;
    config->ahead_layers = ahead;
    latent->columns = checkpoint_keys_u32(keys, "attention.kv_lora_rank", rank_range);
    latent->query_columns = checkpoint_keys_u32_or(keys, "attention.q_lora_rank",
                                                   (struct u32_range){0, LIMIT_HIDDEN}, 0);
    latent->rope_dims = checkpoint_keys_u32(keys, "rope.dimension_count", rope_range);
    struct u32_range any = {1, LIMIT_LATENT_COLUMNS};
    uint32_t key = checkpoint_keys_u32_or(keys, "attention.key_length_mla", dim_range, 0);
    uint32_t value = checkpoint_keys_u32_or(keys, "attention.value_length_mla", dim_range, 0);
    key = key ? key : checkpoint_keys_u32(keys, "attention.key_length", any);
    value = value ? value : checkpoint_keys_u32(keys, "attention.value_length", any);
    if (keys->result == RESULT_OK && key <= latent->rope_dims)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "heads of %u columns, of which %u rotate", key,
                               latent->rope_dims);
    latent->plain_dims = key - latent->rope_dims;
    latent->value_dims = value;
    checkpoint_gguf_read_experts(keys, &(const struct gguf_expert_terms){.epsilon = 1e-20f},
                                 config);
    gguf_read_rope(keys, config, &factor);
    settle(keys, factor, config);
}

static const struct gguf_form gguf_deepseek2 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * deepseek_v2 chooses by softmax, of the groups whose best expert is best where topk_method is
 * group_limited_greedy; deepseek_v3 and kimi_k2 by sigmoid and a bias, of the groups whose two best are
 * best. Layers beyond num_hidden_layers, which predict further tokens, are left out.
 *
 * Source: transformers, configuration_ and modeling_ deepseek_v2.py and deepseek_v3.py; for keys that
 * these ignore, the modeling_deepseek.py that deepseek-ai publishes with its checkpoints.
 */
static const char *const v2_model_types[] = {"deepseek_v2", NULL};
static const char *const v3_model_types[] = {"deepseek_v3", "kimi_k2", NULL};
static const char *const lite_model_types[] = {"glm4_moe_lite", NULL};
static const char *const own_keys[] = {"num_local_experts", "num_experts", NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_q_a.weight", "^layers.*.self_attn.q_a_proj.weight"},
    {"blk.*.attn_q_a_norm.weight", "^layers.*.self_attn.q_a_layernorm.weight"},
    {"blk.*.attn_q_b.weight", "^layers.*.self_attn.q_b_proj.weight"},
    {"blk.*.attn_kv_a_mqa.weight", "^layers.*.self_attn.kv_a_proj_with_mqa.weight"},
    {"blk.*.attn_kv_a_norm.weight", "^layers.*.self_attn.kv_a_layernorm.weight"},
    {"blk.*.attn_kv_b.weight", "^layers.*.self_attn.kv_b_proj.weight"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.gate.e_score_correction_bias"},
    HF_SHARED_EXPERT_NAMES,
    CHECKPOINT_HF_AHEAD_NAMES,
    {NULL, NULL},
};

/* What the scores are multiplied by, from the object that states the rotary embedding. */
static float hf_score_factor(struct checkpoint_keys *keys)
{
    struct checkpoint_keys scaling = checkpoint_keys_enter(keys, "rope_parameters");
    if (json_value_type(scaling.object) == JSON_ABSENT && scaling.result == RESULT_OK)
        scaling = checkpoint_keys_enter(keys, "rope_scaling");
    struct gguf_string type = checkpoint_keys_string_or_empty(&scaling, "rope_type");
    if (type.length == 0)
        type = checkpoint_keys_string_or_empty(&scaling, "type");
    bool plain = type.length == 0 || checkpoint_keys_is(type, "default");
    float factor =
        checkpoint_keys_f32_or(&scaling, "factor", (struct f32_range){1e-4f, 1e4f}, 1.0f);
    float all =
        checkpoint_keys_f32_or(&scaling, "mscale_all_dim", (struct f32_range){0.0f, 1e3f}, 0.0f);
    checkpoint_keys_leave(keys, &scaling);
    return plain ? 1.0f : score_factor(factor, all);
}

static const struct latent_config usual = {512, 1536, 128, 64, 128};

/* `absent`: the class's defaults. */
static void hf_read_latent(struct checkpoint_keys *keys, struct latent_config absent,
                           struct model_config *config)
{
    config->latent = (struct latent_config){
        .columns = checkpoint_keys_u32_or(keys, "kv_lora_rank", rank_range, absent.columns),
        .query_columns =
            checkpoint_hf_count_or_null(keys, "q_lora_rank", LIMIT_HIDDEN, absent.query_columns),
        .plain_dims =
            checkpoint_keys_u32_or(keys, "qk_nope_head_dim", dim_range, absent.plain_dims),
        .rope_dims = checkpoint_keys_u32_or(keys, "qk_rope_head_dim", rope_range, absent.rope_dims),
        .value_dims = checkpoint_keys_u32_or(keys, "v_head_dim", dim_range, absent.value_dims),
    };
    checkpoint_hf_read_only_rope(
        keys, config,
        &(const struct hf_rope_terms){.base = ROPE_BASE, .head_dim = config->latent.rope_dims});
    settle(keys, hf_score_factor(keys), config);
}

/* The text of the largest DeepSeek-VL2 has the name of deepseek_v2 and chooses experts as deepseek_v3. */
static void read_v2_choice(struct checkpoint_keys *keys, struct model_config *config)
{
    struct gguf_string method = checkpoint_keys_string_or_empty(keys, "topk_method");
    struct gguf_string scores = checkpoint_keys_string_or_empty(keys, "scoring_func");
    bool grouped = checkpoint_keys_is(method, "group_limited_greedy");
    bool biased = checkpoint_keys_is(method, "noaux_tc"),
         sigmoid = checkpoint_keys_is(scores, "sigmoid");
    if (biased != sigmoid ||
        (scores.length > 0 && !sigmoid && !checkpoint_keys_is(scores, "softmax")))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "scoring_func \"%.*s\" with topk_method \"%.*s\" is not supported",
                               (int)(scores.length < 64 ? scores.length : 64), scores.bytes,
                               (int)(method.length < 64 ? method.length : 64), method.bytes);
    if (biased) {
        config->experts = checkpoint_hf_sigmoid_experts(keys, 1, 1);
        return;
    }
    if (method.length > 0 && !grouped && !checkpoint_keys_is(method, "greedy"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "topk_method \"%.*s\" is not supported",
                               (int)(method.length < 64 ? method.length : 64), method.bytes);
    checkpoint_keys_expect_neutral(keys, "norm_topk_prob", 0);
    config->experts = (struct expert_config){.weighed = true, .group_best = 1};
    if (grouped) {
        config->experts.groups = checkpoint_hf_count_or_null(keys, "n_group", LIMIT_EXPERTS, 0);
        config->experts.groups_chosen =
            checkpoint_hf_count_or_null(keys, "topk_group", LIMIT_EXPERTS, 0);
    }
}

/* The smallest DeepSeek-VL2, and DeepSeek-OCR, attend as llama does, over halves of heads. False: over a latent. */
static bool read_v2_heads(struct checkpoint_keys *keys, struct model_config *config)
{
    bool latent = checkpoint_keys_bool_or(keys, "use_mla", true);
    if (checkpoint_keys_u32_or(keys, "qk_nope_head_dim", (struct u32_range){0, LIMIT_HEAD_DIM},
                               usual.plain_dims) > 0 &&
        latent)
        return false;
    if (keys->result == RESULT_OK &&
        (config->hidden % config->heads != 0 || config->hidden / config->heads > LIMIT_HEAD_DIM))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "a hidden size of %u has no %u heads",
                               config->hidden, config->heads);
    config->head_dim = config->hidden / config->heads;
    config->attention_scale = 1.0f / sqrtf((float)config->head_dim);
    checkpoint_hf_read_only_rope(
        keys, config,
        &(const struct hf_rope_terms){.base = ROPE_BASE, .head_dim = config->head_dim});
    return true;
}

static void read_v2(struct checkpoint_keys *keys, struct model_config *config)
{
    read_v2_choice(keys, config);
    bool heads = read_v2_heads(keys, config);
    if (!heads)
        hf_read_latent(keys, usual, config);
    checkpoint_hf_read_routed(
        keys,
        &(const struct hf_routed_terms){
            .count = 64, .chosen = 8, .feed_forward = 1407, .shared = 2, .scale = 1.0f},
        config);
    if (!heads)
        config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

static void read_v3(struct checkpoint_keys *keys, struct model_config *config)
{
    config->experts = checkpoint_hf_sigmoid_experts(keys, 8, 4);
    hf_read_latent(keys, usual, config);
    checkpoint_hf_read_routed(keys,
                              &(const struct hf_routed_terms){.count = 256,
                                                              .chosen = 8,
                                                              .feed_forward = 2048,
                                                              .shared = 1,
                                                              .dense = 3,
                                                              .scale = 2.5f},
                              config);
    config->ahead_layers =
        checkpoint_hf_count_or_null(keys, "num_nextn_predict_layers", LIMIT_LAYERS, 1);
    if (checkpoint_keys_bool_or(keys, "rope_interleave", true))
        config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

/* mlp_layer_types: "dense" or "sparse" for each layer; without it the first layer is dense. */
static void read_layer_types(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value list = json_value_member(keys->object, "mlp_layer_types"), element;
    uint32_t count = 0;
    if (json_value_type(list) != JSON_ARRAY)
        return;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        char word[16] = "";
        bool known = json_value_string(element, word, sizeof word) == RESULT_OK &&
                     (strcmp(word, "dense") == 0 || strcmp(word, "sparse") == 0);
        if (!known)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "mlp_layer_types: element %u is neither dense nor sparse",
                                   count);
        if (count < config->layers)
            config->layer[count].experts = strcmp(word, "sparse") == 0;
        count++;
    }
    if (count != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "mlp_layer_types has %u elements for %u layers", count,
                               config->layers);
}

/* glm4_moe_lite (GLM-4.7-Flash): deepseek_v3 with other defaults. */
static void read_lite(struct checkpoint_keys *keys, struct model_config *config)
{
    config->experts = checkpoint_hf_sigmoid_experts(keys, 1, 1);
    hf_read_latent(keys, (struct latent_config){512, 768, 192, 64, 256}, config);
    checkpoint_hf_read_routed(
        keys,
        &(const struct hf_routed_terms){
            .count = 64, .chosen = 4, .feed_forward = 1536, .shared = 1, .dense = 1, .scale = 1.8f},
        config);
    read_layer_types(keys, config);
    config->ahead_layers =
        checkpoint_hf_count_or_null(keys, "num_nextn_predict_layers", LIMIT_LAYERS, 1);
    if (checkpoint_keys_bool_or(keys, "rope_interleave", true))
        config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

static const struct hf_form hf_glm4_moe_lite = {
    .model_types = lite_model_types,
    .defaults = {.layers = 47,
                 .hidden = 2048,
                 .feed_forward = 10240,
                 .heads = 20,
                 .head_dim = 64,
                 .vocab_tokens = 154880,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_lite,
};

static const struct hf_form hf_deepseek_v2 = {
    .model_types = v2_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .head_dim = 64,
                 .vocab_tokens = 102400,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_v2,
};

static const struct hf_form hf_deepseek_v3 = {
    .model_types = v3_model_types,
    .defaults = {.layers = 61,
                 .hidden = 7168,
                 .feed_forward = 18432,
                 .heads = 128,
                 .head_dim = 64,
                 .vocab_tokens = 129280,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_v3,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct latent_tensors {
    struct dense_tensors dense;  /* `attended`: [rows, heads * value_dims] */
    plan_tensor_id route;        /* of heads */
    plan_tensor_id query_latent; /* [rows, query_columns] */
    plan_tensor_id heads;        /* [rows, heads * (plain_dims + rope_dims)] */
    plan_tensor_id plain;        /* [rows, heads * plain_dims] */
    plan_tensor_id latent_heads; /* [rows, heads * columns]: of queries, then of the sums */
    plan_tensor_id queries;      /* [rows, heads * (rope_dims + columns)] */
    plan_tensor_id keys;         /* [rows, rope_dims + columns] */
    plan_tensor_id sums;         /* as the queries */
};

static struct dense_tensors add_dense(struct plan_builder *b, const struct model_config *c,
                                      enum plan_rows rows)
{
    return (struct dense_tensors){
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->latent.value_dims),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
        .experts = expert_blocks_add_tensors(b, c, rows),
    };
}

static struct latent_tensors add_tensors(struct plan_builder *b, const struct model_config *c)
{
    const enum plan_rows rows = PLAN_ROWS_STEP;
    const struct latent_config *l = &c->latent;
    struct latent_tensors t = {
        .dense = add_dense(b, c, rows),
        .route = plan_builder_tensor(b, rows, 2 * c->heads),
        .heads = plan_builder_tensor(b, rows, c->heads * (l->plain_dims + l->rope_dims)),
        .plain = plan_builder_tensor(b, rows, c->heads * l->plain_dims),
        .latent_heads = plan_builder_tensor(b, rows, c->heads * l->columns),
        .queries = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .keys = plan_builder_tensor(b, rows, c->head_dim),
        .sums = plan_builder_tensor(b, rows, c->heads * c->head_dim),
    };
    if (l->query_columns > 0)
        t.query_latent = plan_builder_tensor(b, rows, l->query_columns);
    return t;
}

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* Of norms that have an epsilon of their own. */
static float norm_scale(const struct model_config *c)
{
    return sqrtf(c->norm_epsilon / LATENT_EPSILON);
}

static void list_keys(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const struct latent_tensors *t)
{
    char name[STORED_NAME_BYTES];
    const struct latent_config *l = &c->latent;
    const struct column_slice whole = {0, 1, c->head_dim};
    const struct column_slice latent = {l->rope_dims, 1, l->columns};
    uint32_t rows = l->columns + l->rope_dims;
    snprintf(name, sizeof name, "blk.%u.attn_kv_a_mqa.weight", layer);
    struct linear_weights weights = {
        plan_builder_rows(b, (struct row_range){rows, l->columns, l->rope_dims}, c->hidden, name),
        plan_builder_rows(b, (struct row_range){rows, 0, l->columns}, c->hidden, name), PLAN_NONE};
    plan_ops_linear(b, t->dense.normed, weights, t->keys);
    plan_ops_head_norm_scaled(
        b, t->keys, latent,
        plan_builder_vector(b, l->columns, "blk.%u.attn_kv_a_norm.weight", layer), norm_scale(c));
    plan_ops_rope(b, t->keys, whole, layer);
    plan_ops_kv_write(b, t->keys, (struct qkv_slices){.keys = whole, .values = whole}, layer);
}

/* The stacks of a head's Wk, transposed, and Wv. */
static void find_heads(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       plan_weight_id *keys, plan_weight_id *values)
{
    char name[STORED_NAME_BYTES];
    const struct latent_config *l = &c->latent;
    uint32_t both = l->plain_dims + l->value_dims;
    if (plan_builder_has(b, "blk.%u.attn_k_b.weight", layer)) {
        snprintf(name, sizeof name, "blk.%u.attn_k_b.weight", layer);
        *keys = plan_builder_stack(b, c->heads, l->columns, l->plain_dims, name);
        snprintf(name, sizeof name, "blk.%u.attn_v_b.weight", layer);
        *values = plan_builder_stack(b, c->heads, l->value_dims, l->columns, name);
        return;
    }
    snprintf(name, sizeof name, "blk.%u.attn_kv_b.weight", layer);
    *keys = plan_builder_head_columns(b, c->heads, (struct row_range){both, 0, l->plain_dims},
                                      l->columns, name);
    *values = plan_builder_head_rows(
        b, c->heads, (struct row_range){both, l->plain_dims, l->value_dims}, l->columns, name);
}

static void list_queries(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         plan_weight_id keys, const struct latent_tensors *t)
{
    const struct latent_config *l = &c->latent;
    uint32_t rows = c->heads * (l->plain_dims + l->rope_dims);
    if (l->query_columns == 0) {
        plan_ops_linear(b, t->dense.normed,
                        one(plan_builder_matrix(b, rows, c->hidden, "blk.%u.attn_q.weight", layer)),
                        t->heads);
    } else {
        plan_ops_linear(b, t->dense.normed,
                        one(plan_builder_matrix(b, l->query_columns, c->hidden,
                                                "blk.%u.attn_q_a.weight", layer)),
                        t->query_latent);
        plan_ops_rms_norm_scaled(
            b, t->query_latent,
            plan_builder_vector(b, l->query_columns, "blk.%u.attn_q_a_norm.weight", layer),
            norm_scale(c), t->query_latent);
        plan_ops_linear(
            b, t->query_latent,
            one(plan_builder_matrix(b, rows, l->query_columns, "blk.%u.attn_q_b.weight", layer)),
            t->heads);
    }
    plan_ops_take_heads(b, t->heads, (struct take_heads_params){c->heads, 0}, t->plain);
    plan_ops_moe_linear(b, t->plain, t->route, one(keys), t->latent_heads);
    plan_ops_join_heads(b, t->heads, t->latent_heads,
                        (struct join_heads_params){c->heads, l->plain_dims}, t->queries);
    plan_ops_rope(b, t->queries, (struct column_slice){0, c->heads, c->head_dim}, layer);
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct latent_tensors *t)
{
    plan_weight_id keys, values;
    const struct qkv_slices slices = {.queries = {0, c->heads, c->head_dim}};
    find_heads(b, c, layer, &keys, &values);
    plan_ops_rms_norm(b, t->dense.residual,
                      plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer),
                      t->dense.normed);
    list_keys(b, c, layer, t);
    list_queries(b, c, layer, keys, t);
    plan_ops_attention(b, t->queries, slices, layer, t->sums);
    plan_ops_take_heads(b, t->sums, (struct take_heads_params){c->heads, c->latent.rope_dims},
                        t->latent_heads);
    plan_ops_moe_linear(b, t->latent_heads, t->route, one(values), t->dense.attended);
}

/* What follows attention in a layer. */
static void list_rest(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const struct dense_tensors *t)
{
    plan_ops_linear_add(b, t->attended,
                        plan_builder_matrix(b, c->hidden, c->heads * c->latent.value_dims,
                                            "blk.%u.attn_output.weight", layer),
                        t->residual);
    dense_blocks_list_feed_forward(
        b, c, &(const struct dense_form){.experts = {.gate = {.activation = GATE_SILU}}}, layer, t);
}

static void list_gathering(struct plan_builder *b, const struct dense_tensors *step,
                           const struct dense_tensors *last)
{
    plan_ops_gather_rows(b, step->residual, last->residual);
    plan_ops_gather_rows(b, step->attended, last->attended);
}

/* The last layer after its attention and the final norm, for logit rows or, with keeps_hidden, for all. */
static void list_end(struct plan_builder *b, const struct model_config *c,
                     const struct dense_tensors *step, const struct dense_tensors *last)
{
    const struct dense_tensors *t = c->keeps_hidden ? step : last;
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    if (!c->keeps_hidden)
        list_gathering(b, step, last);
    list_rest(b, c, c->layers - 1, t);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (!c->keeps_hidden)
        return;
    plan_builder_hidden_out(b, step->normed);
    plan_ops_gather_rows(b, step->normed, last->normed);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    if (c->latent.columns == 0)
        return dense_blocks_list_mixture(b, c);
    struct latent_tensors step = add_tensors(b, c);
    struct dense_tensors last = add_dense(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    for (uint32_t layer = 0; layer < c->ahead_layers; layer++)
        plan_builder_leave_layer(b, c->layers + layer);
    plan_builder_use_in_config(b, "rope_freqs.weight");
    plan_ops_head_route(b, step.route);
    plan_ops_embed_rows(b, embedding, step.dense.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_attention(b, c, layer, &step);
        list_rest(b, c, layer, &step.dense);
    }
    list_attention(b, c, c->layers - 1, &step);
    list_end(b, c, &step.dense, &last);
    plan_ops_linear(b, last.normed, one(output), logits);
    return logits;
}

static plan_tensor_id list_ahead_ops(struct plan_builder *b, const struct model_config *c)
{
    struct latent_tensors step = add_tensors(b, c);
    struct dense_tensors last = add_dense(b, c, PLAN_ROWS_LOGITS);
    plan_ops_head_route(b, step.route);
    ahead_blocks_list_input(b, c, step.dense.normed, step.dense.residual);
    list_attention(b, c, 0, &step);
    list_gathering(b, &step.dense, &last);
    list_rest(b, c, 0, &last);
    return ahead_blocks_list_end(b, c, false, last.residual, last.normed);
}

static const struct ahead_form ahead = {
    .hf = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .hf_after_last = true,
    .list_ops = list_ahead_ops,
};

const struct model_family family_deepseek2 = {
    .architecture = "deepseek2",
    .gguf = &gguf_deepseek2,
    .hf = &hf_deepseek_v2,
    .list_ops = list_ops,
    .ahead = &ahead,
};

const struct model_family family_deepseek_v3 = {
    .architecture = "deepseek_v3",
    .hf = &hf_deepseek_v3,
    .list_ops = list_ops,
    .ahead = &ahead,
};

const struct model_family family_glm4_moe_lite = {
    .architecture = "glm4_moe_lite",
    .hf = &hf_glm4_moe_lite,
    .list_ops = list_ops,
    .ahead = &ahead,
};
