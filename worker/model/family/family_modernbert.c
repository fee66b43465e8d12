/*
 * ModernBERT: an encoder whose norms come before the halves of a layer, with rotary positions. Most
 * layers see near positions only; these and the others rotate with bases of their own. No part has
 * biases but the class's last matrix.
 *
 *   x = norm(token)
 *   each layer:  x += Wo . attention(rope(q), rope(k), v) of norm(x), in layer 0 of x itself;
 *                x += Wdown . (gelu(Wi_0 . y) * (Wi_1 . y)), y = norm(x)
 *   vectors = norm(x), or of a checkpoint with a class of one label the scores
 *             Wclass . norm(gelu(Whead . vector)), of which that of the first row counts
 *
 * A class over the mean of all rows is refused.
 *
 * Source: transformers, configuration_modernbert.py and modeling_modernbert.py; the window is
 * create_bidirectional_sliding_window_mask() of masking_utils.py, |query - key| <= local_attention / 2.
 */
#include <stdio.h>

#include "worker/model/build/plan_builder.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define GLOBAL_ROPE_BASE 160000.0f
#define LOCAL_ROPE_BASE  10000.0f
#define DEFAULT_PERIOD   3u   /* one layer of so many, the first, sees all positions */
#define DEFAULT_WINDOW   128u /* positions before and after a row, together */

enum { GLOBAL_ROPE, LOCAL_ROPE };

/* --- config.json ------------------------------------------------------------------------------ */

static const char *const model_types[] = {"modernbert", NULL};
static const char *const prefixes[] = {"model.", "", NULL};
/* The head of the class that predicts masked tokens. */
static const char *const other_parts[] = {"decoder.", NULL};

static const struct tensor_name names[] = {
    {"token_embd.weight", "^embeddings.tok_embeddings.weight"},
    {"token_embd_norm.weight", "^embeddings.norm.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.attn_norm.weight"},
    {"blk.*.attn_qkv.weight", "^layers.*.attn.Wqkv.weight"},
    {"blk.*.attn_output.weight", "^layers.*.attn.Wo.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.mlp_norm.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.Wi.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.Wo.weight"},
    {"output_norm.weight", "^final_norm.weight"},
    {"cls.weight", "head.dense.weight"},
    {"cls.norm.weight", "head.norm.weight"},
    {"cls.output.weight", "classifier.weight"},
    {"cls.output.bias", "classifier.bias"},
    {NULL, NULL},
};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_keys_u32_or(
        keys, "local_attention", (struct u32_range){2, 2 * LIMIT_CONTEXT_TOKENS}, DEFAULT_WINDOW);
    uint32_t period = checkpoint_keys_u32_or(keys, "global_attn_every_n_layers",
                                             (struct u32_range){1, LIMIT_LAYERS}, DEFAULT_PERIOD);
    bool listed = checkpoint_hf_layer_slides(keys, config, slides);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool local = listed ? slides[layer] : layer % period != 0;
        config->layer[layer].near = local ? window / 2 : 0;
        config->layer[layer].rope = local ? LOCAL_ROPE : GLOBAL_ROPE;
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range range = {1.0f, 1e12f};
    struct gguf_string pooling = checkpoint_keys_string_or_empty(keys, "classifier_pooling");
    struct gguf_string activation = checkpoint_keys_string_or_empty(keys, "classifier_activation");
    checkpoint_keys_expect_neutral(keys, "norm_bias", 0);
    checkpoint_keys_expect_neutral(keys, "classifier_bias", 0);
    if (activation.length > 0 && !checkpoint_keys_is(activation, "gelu"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "classifier_activation is not gelu");
    config->encoder = true;
    config->class_of_mean = pooling.length > 0 && !checkpoint_keys_is(pooling, "cls");
    float global = checkpoint_keys_f32_or(keys, "global_rope_theta", range, GLOBAL_ROPE_BASE);
    float local = checkpoint_keys_f32_or(keys, "local_rope_theta", range, LOCAL_ROPE_BASE);
    checkpoint_hf_read_layer_ropes(keys, config, global, local);
    read_layers(keys, config);
}

static const struct hf_form hf_modernbert = {
    .model_types = model_types,
    .defaults = {.layers = 22,
                 .hidden = 768,
                 .feed_forward = 1152,
                 .heads = 12,
                 .vocab_tokens = 50368,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "norm_eps",
    .activation_key = "hidden_activation",
    .activation = "gelu",
    .naming = {names, NULL, prefixes, other_parts},
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct encoder_tensors {
    plan_tensor_id x;      /* [step rows, hidden], like the next one */
    plan_tensor_id normed; /* of x */
    plan_tensor_id qkv;
    plan_tensor_id attended;
    plan_tensor_id wide; /* [step rows, feed_forward], like the next one */
    plan_tensor_id factor;
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct encoder_tensors *t)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    plan_tensor_id x = t->x;
    if (layer > 0) {
        x = t->normed;
        plan_ops_layer_norm(b, t->x,
                            plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer), x);
    }
    plan_ops_linear(
        b, x,
        one(plan_builder_matrix(b, slices.columns, c->hidden, "blk.%u.attn_qkv.weight", layer)),
        t->qkv);
    plan_ops_rope(b, t->qkv, slices.queries, layer);
    plan_ops_rope(b, t->qkv, slices.keys, layer);
    plan_ops_kv_write(b, t->qkv, slices, layer);
    plan_ops_attention(b, t->qkv, slices, layer, t->attended);
    plan_ops_linear_add(b, t->attended,
                        plan_builder_matrix(b, c->hidden, c->heads * c->head_dim,
                                            "blk.%u.attn_output.weight", layer),
                        t->x);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              const struct encoder_tensors *t)
{
    char name[STORED_NAME_BYTES];
    snprintf(name, sizeof name, "blk.%u.ffn_up.weight", layer);
    plan_ops_layer_norm(b, t->x, plan_builder_vector(b, c->hidden, "blk.%u.ffn_norm.weight", layer),
                        t->normed);
    plan_ops_linear(b, t->normed, one(plan_builder_part(b, 2, 0, c->feed_forward, c->hidden, name)),
                    t->wide);
    plan_ops_activate(b, t->wide, ACTIVATION_GELU_ERF);
    plan_ops_linear(b, t->normed, one(plan_builder_part(b, 2, 1, c->feed_forward, c->hidden, name)),
                    t->factor);
    plan_ops_gate_with(b, t->wide, t->factor, 0, GATE_PLAIN, t->wide);
    plan_ops_linear_add(
        b, t->wide,
        plan_builder_matrix(b, c->hidden, c->feed_forward, "blk.%u.ffn_down.weight", layer), t->x);
}

/* The scores of a class of one label. */
static plan_tensor_id list_class(struct plan_builder *b, const struct model_config *c,
                                 plan_tensor_id x)
{
    plan_tensor_id pooled = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->hidden);
    plan_tensor_id scores = plan_builder_tensor(b, PLAN_ROWS_LOGITS, 1);
    plan_ops_linear(b, x, one(plan_builder_matrix(b, c->hidden, c->hidden, "cls.weight")), pooled);
    plan_ops_activate(b, pooled, ACTIVATION_GELU_ERF);
    plan_ops_layer_norm(b, pooled, plan_builder_vector(b, c->hidden, "cls.norm.weight"), pooled);
    plan_ops_linear(b, pooled, one(plan_builder_matrix(b, 1, c->hidden, "cls.output.weight")),
                    scores);
    plan_ops_bias_add(b, scores, one(plan_builder_vector(b, 1, "cls.output.bias")));
    return scores;
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct encoder_tensors t = {
        .x = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden),
        .normed = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden),
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns),
        .attended = plan_builder_tensor(b, PLAN_ROWS_STEP, c->heads * c->head_dim),
        .wide = plan_builder_tensor(b, PLAN_ROWS_STEP, c->feed_forward),
        .factor = plan_builder_tensor(b, PLAN_ROWS_STEP, c->feed_forward),
    };
    plan_tensor_id last = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->hidden);
    plan_tensor_id vectors = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->hidden);
    bool classifies = plan_builder_has(b, "cls.output.weight");
    plan_ops_embed_rows(b, plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight"),
                        t.x);
    plan_ops_layer_norm(b, t.x, plan_builder_vector(b, c->hidden, "token_embd_norm.weight"), t.x);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        list_attention(b, c, layer, &t);
        list_feed_forward(b, c, layer, &t);
    }
    plan_ops_gather_rows(b, t.x, last);
    plan_ops_layer_norm(b, last, plan_builder_vector(b, c->hidden, "output_norm.weight"), vectors);
    if (classifies && c->class_of_mean)
        plan_builder_refuse(b, "classifier_pooling is not cls");
    if (classifies)
        return list_class(b, c, vectors);
    plan_builder_use_in_config(b, "cls.weight"); /* of the head that predicts masked tokens */
    plan_builder_use_in_config(b, "cls.norm.weight");
    return vectors;
}

const struct model_family family_modernbert = {
    .architecture = "modernbert",
    .hf = &hf_modernbert,
    .list_ops = list_ops,
};
