/*
 * BERT and RoBERTa: encoders. Each row sees all rows of its sequence; norms follow the sums.
 *
 *   x = norm(token + position + segment)
 *   each layer:  x = norm(x + Wo . attention(q, k, v));  x = norm(x + Wdown . gelu(Wup . x))
 *   vectors = x, or of a checkpoint with a class of one label the scores
 *             Wclass . tanh(Wpool . x), of which that of the first row counts
 *
 * All matrices have biases. RoBERTa's positions begin after its padding token's, and its segments
 * are all 0.
 *
 * Source: transformers, modeling_bert.py, modeling_roberta.py, modeling_xlm_roberta.py.
 */
#include <stdio.h>

#include "worker/model/build/plan_builder.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"

#define DEFAULT_POSITIONS 512u
#define DEFAULT_SEGMENTS  2u
#define SEGMENTS_MAX      1024u

/* --- config.json ------------------------------------------------------------------------------ */

static const char *const bert_types[] = {"bert", NULL};
static const char *const roberta_types[] = {"roberta", "xlm-roberta", "camembert", NULL};
static const char *const bert_prefixes[] = {"bert.", "", NULL};
static const char *const roberta_prefixes[] = {"roberta.", "", NULL};
/* Heads of other tasks beside the encoder. */
static const char *const other_parts[] = {"cls.", "lm_head.", NULL};

#define LAYER "^encoder.layer.*."
#define LAYER_NAMES                                                                                \
    {"token_embd.weight", "^embeddings.word_embeddings.weight"},                                   \
        {"position_embd.weight", "^embeddings.position_embeddings.weight"},                        \
        {"token_types.weight", "^embeddings.token_type_embeddings.weight"},                        \
        {"position_ids", "^embeddings.position_ids"},                                              \
        {"token_embd_norm.weight", "^embeddings.LayerNorm.weight"},                                \
        {"token_embd_norm.bias", "^embeddings.LayerNorm.bias"},                                    \
        {"blk.*.attn_q.weight", LAYER "attention.self.query.weight"},                              \
        {"blk.*.attn_q.bias", LAYER "attention.self.query.bias"},                                  \
        {"blk.*.attn_k.weight", LAYER "attention.self.key.weight"},                                \
        {"blk.*.attn_k.bias", LAYER "attention.self.key.bias"},                                    \
        {"blk.*.attn_v.weight", LAYER "attention.self.value.weight"},                              \
        {"blk.*.attn_v.bias", LAYER "attention.self.value.bias"},                                  \
        {"blk.*.attn_output.weight", LAYER "attention.output.dense.weight"},                       \
        {"blk.*.attn_output.bias", LAYER "attention.output.dense.bias"},                           \
        {"blk.*.attn_output_norm.weight", LAYER "attention.output.LayerNorm.weight"},              \
        {"blk.*.attn_output_norm.bias", LAYER "attention.output.LayerNorm.bias"},                  \
        {"blk.*.ffn_up.weight", LAYER "intermediate.dense.weight"},                                \
        {"blk.*.ffn_up.bias", LAYER "intermediate.dense.bias"},                                    \
        {"blk.*.ffn_down.weight", LAYER "output.dense.weight"},                                    \
        {"blk.*.ffn_down.bias", LAYER "output.dense.bias"},                                        \
        {"blk.*.layer_output_norm.weight", LAYER "output.LayerNorm.weight"},                       \
        {"blk.*.layer_output_norm.bias", LAYER "output.LayerNorm.bias"},                           \
        {"pooler.weight", "^pooler.dense.weight"},                                                 \
    {                                                                                              \
        "pooler.bias", "^pooler.dense.bias"                                                        \
    }

static const struct tensor_name bert_names[] = {
    LAYER_NAMES,
    {"cls.weight", "^pooler.dense.weight"},
    {"cls.bias", "^pooler.dense.bias"},
    {"cls.output.weight", "classifier.weight"},
    {"cls.output.bias", "classifier.bias"},
    {NULL, NULL},
};
static const struct tensor_name roberta_names[] = {
    LAYER_NAMES,
    {"cls.weight", "classifier.dense.weight"},
    {"cls.bias", "classifier.dense.bias"},
    {"cls.output.weight", "classifier.out_proj.weight"},
    {"cls.output.bias", "classifier.out_proj.bias"},
    {NULL, NULL},
};

static void read_config(struct checkpoint_keys *keys, uint32_t segments,
                        struct model_config *config)
{
    struct gguf_string kind = checkpoint_keys_string_or_empty(keys, "position_embedding_type");
    if (kind.length > 0 && !checkpoint_keys_is(kind, "absolute"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "position_embedding_type \"%.*s\"",
                               (int)(kind.length < 64 ? kind.length : 64), kind.bytes);
    checkpoint_keys_expect_neutral(keys, "is_decoder", 0);
    checkpoint_keys_expect_neutral(keys, "add_cross_attention", 0);
    config->encoder = true;
    config->position_rows =
        checkpoint_keys_u32_or(keys, "max_position_embeddings",
                               (struct u32_range){1, LIMIT_CONTEXT_TOKENS}, DEFAULT_POSITIONS);
    config->segments = checkpoint_keys_u32_or(keys, "type_vocab_size",
                                              (struct u32_range){1, SEGMENTS_MAX}, segments);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].rope = ROPE_NONE;
}

static void read_bert(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, DEFAULT_SEGMENTS, config);
}

static void read_roberta(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, DEFAULT_SEGMENTS, config);
    config->position_offset =
        1 + checkpoint_keys_u32_or(keys, "pad_token_id",
                                   (struct u32_range){0, LIMIT_CONTEXT_TOKENS}, 1);
    if (keys->result == RESULT_OK && config->position_offset >= config->position_rows)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key pad_token_id leaves no position");
}

#define ENCODER_DEFAULTS                                                                           \
    {                                                                                              \
        .layers = 12, .hidden = 768, .feed_forward = 3072, .heads = 12, .vocab_tokens = 30522,     \
        .norm_epsilon = 1e-12f, .tied_embeddings = true                                            \
    }

static const struct hf_form hf_bert = {
    .model_types = bert_types,
    .defaults = ENCODER_DEFAULTS,
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "gelu",
    .naming = {bert_names, NULL, bert_prefixes, other_parts},
    .read_config = read_bert,
};
static const struct hf_form hf_roberta = {
    .model_types = roberta_types,
    .defaults = ENCODER_DEFAULTS,
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "gelu",
    .naming = {roberta_names, NULL, roberta_prefixes, other_parts},
    .read_config = read_roberta,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct encoder_tensors {
    plan_tensor_id x; /* [step rows, hidden], like the next one */
    plan_tensor_id part;
    plan_tensor_id qkv;
    plan_tensor_id attended;
    plan_tensor_id wide;
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* x = norm(x), with weight and bias `name` */
static void list_norm(struct plan_builder *b, const char *name, plan_tensor_id x)
{
    uint32_t hidden = plan_builder_config(b)->hidden;
    plan_ops_layer_norm(b, x, plan_builder_vector(b, hidden, "%s.weight", name), x);
    plan_ops_bias_add(b, x, one(plan_builder_vector(b, hidden, "%s.bias", name)));
}

static void list_embedding(struct plan_builder *b, const struct model_config *c,
                           const struct encoder_tensors *t)
{
    plan_ops_embed_rows(b, plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight"),
                        t->x);
    plan_ops_embed_places(
        b, plan_builder_matrix(b, c->position_rows, c->hidden, "position_embd.weight"),
        INDEX_POSITION, c->position_offset, t->part);
    plan_ops_add_rows(b, t->x, t->part, 1.0f, t->x);
    plan_ops_embed_places(b, plan_builder_matrix(b, c->segments, c->hidden, "token_types.weight"),
                          INDEX_SEGMENT, 0, t->part);
    plan_ops_add_rows(b, t->x, t->part, 1.0f, t->x);
    list_norm(b, "token_embd_norm", t->x);
}

/* out = W . x + bias, of the layer's part `name`; with `add`, out += it */
static void list_linear(struct plan_builder *b, uint32_t layer, const char *name, plan_tensor_id x,
                        uint32_t rows, uint32_t columns, bool add, plan_tensor_id out)
{
    plan_weight_id weight = plan_builder_matrix(b, rows, columns, "blk.%u.%s.weight", layer, name);
    if (add)
        plan_ops_linear_add(b, x, weight, out);
    else
        plan_ops_linear(b, x, one(weight), out);
    plan_ops_bias_add(b, out, one(plan_builder_vector(b, rows, "blk.%u.%s.bias", layer, name)));
}

static void list_layer(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct encoder_tensors *t)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t inner = c->heads * c->head_dim;
    plan_weight_id weights[3], biases[3];
    char norm[STORED_NAME_BYTES];
    for (uint32_t i = 0; i < 3; i++) {
        weights[i] = plan_builder_matrix(b, inner, c->hidden, "blk.%u.%s.weight", layer, parts[i]);
        biases[i] = plan_builder_vector(b, inner, "blk.%u.%s.bias", layer, parts[i]);
    }
    plan_ops_linear(b, t->x, (struct linear_weights){weights[0], weights[1], weights[2]}, t->qkv);
    plan_ops_bias_add(b, t->qkv, (struct linear_weights){biases[0], biases[1], biases[2]});
    plan_ops_kv_write(b, t->qkv, slices, layer);
    plan_ops_attention(b, t->qkv, slices, layer, t->attended);
    list_linear(b, layer, "attn_output", t->attended, c->hidden, inner, true, t->x);
    snprintf(norm, sizeof norm, "blk.%u.attn_output_norm", layer);
    list_norm(b, norm, t->x);
    list_linear(b, layer, "ffn_up", t->x, c->feed_forward, c->hidden, false, t->wide);
    plan_ops_activate(b, t->wide, ACTIVATION_GELU_ERF);
    list_linear(b, layer, "ffn_down", t->wide, c->hidden, c->feed_forward, true, t->x);
    snprintf(norm, sizeof norm, "blk.%u.layer_output_norm", layer);
    list_norm(b, norm, t->x);
}

/* The scores of a class of one label. */
static plan_tensor_id list_class(struct plan_builder *b, const struct model_config *c,
                                 plan_tensor_id x)
{
    plan_tensor_id pooled = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->hidden);
    plan_tensor_id scores = plan_builder_tensor(b, PLAN_ROWS_LOGITS, 1);
    plan_ops_linear(b, x, one(plan_builder_matrix(b, c->hidden, c->hidden, "cls.weight")), pooled);
    plan_ops_bias_add(b, pooled, one(plan_builder_vector(b, c->hidden, "cls.bias")));
    plan_ops_tanh(b, pooled, 1.0f);
    plan_ops_linear(b, pooled, one(plan_builder_matrix(b, 1, c->hidden, "cls.output.weight")),
                    scores);
    plan_ops_bias_add(b, scores, one(plan_builder_vector(b, 1, "cls.output.bias")));
    return scores;
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct encoder_tensors t = {
        .x = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden),
        .part = plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden),
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns),
        .attended = plan_builder_tensor(b, PLAN_ROWS_STEP, c->heads * c->head_dim),
        .wide = plan_builder_tensor(b, PLAN_ROWS_STEP, c->feed_forward),
    };
    plan_tensor_id vectors = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->hidden);
    list_embedding(b, c, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        list_layer(b, c, layer, &t);
    plan_ops_gather_rows(b, t.x, vectors);
    plan_builder_use_in_config(b, "position_ids");
    bool classifies = plan_builder_has(b, "cls.output.weight");
    if (!classifies || !plan_builder_has(b, "cls.weight")) {
        plan_builder_use_in_config(b, "pooler.weight");
        plan_builder_use_in_config(b, "pooler.bias");
    }
    return classifies ? list_class(b, c, vectors) : vectors;
}

const struct model_family family_bert = {
    .architecture = "bert",
    .hf = &hf_bert,
    .list_ops = list_ops,
};
const struct model_family family_roberta = {
    .architecture = "roberta",
    .hf = &hf_roberta,
    .list_ops = list_ops,
};
