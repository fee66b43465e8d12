/*
 * Whisper: an encoder of sounds (sound_blocks.h) and a decoder whose rows attend to what it gives, in folders.
 *
 *   x = embedding + position
 *   each layer:  x += Wo . attention(q, k, v) + bias, over the sequence; q and v have biases, k has none
 *                x += Wo . attention over the sound's features (op cross_attention) + bias
 *                x += Wdown . gelu(Wup . norm(x) + bias) + bias
 *   logits = embedding . norm(x)
 *
 * Each part reads norm(x), a layer norm. The features of a sound are the keys and values that its encoder's
 * normed rows have in each layer of the decoder, so these are computed once for a sound. The key scale_embedding
 * changes nothing in the publisher's code.
 *
 * Source: transformers, configuration_whisper.py and modeling_whisper.py.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/build/sound_blocks.h"
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_sound.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

static const char *const model_types[] = {"whisper", NULL};
static const char *const decoder_prefixes[] = {"model.decoder.", "decoder.", NULL};
static const char *const encoder_parts[] = {"model.encoder.", "encoder.", NULL};

static const struct tensor_name decoder_names[] = {
    {"token_embd.weight", "^embed_tokens.weight"},
    {"position_embd.weight", "^embed_positions.weight"},
    {"blk.*.attn_norm.%", "^layers.*.self_attn_layer_norm.%"},
    {"blk.*.attn_q.%", "^layers.*.self_attn.q_proj.%"},
    {"blk.*.attn_k.%", "^layers.*.self_attn.k_proj.%"},
    {"blk.*.attn_v.%", "^layers.*.self_attn.v_proj.%"},
    {"blk.*.attn_output.%", "^layers.*.self_attn.out_proj.%"},
    {"blk.*.cross_norm.%", "^layers.*.encoder_attn_layer_norm.%"},
    {"blk.*.cross_q.%", "^layers.*.encoder_attn.q_proj.%"},
    {"blk.*.cross_k.%", "^layers.*.encoder_attn.k_proj.%"},
    {"blk.*.cross_v.%", "^layers.*.encoder_attn.v_proj.%"},
    {"blk.*.cross_output.%", "^layers.*.encoder_attn.out_proj.%"},
    {"blk.*.ffn_norm.%", "^layers.*.final_layer_norm.%"},
    {"blk.*.ffn_up.%", "^layers.*.fc1.%"},
    {"blk.*.ffn_down.%", "^layers.*.fc2.%"},
    {"output_norm.%", "^layer_norm.%"},
    {"output.weight", "proj_out.weight"},
    {NULL, NULL},
};

static const struct tensor_name encoder_names[] = {
    CHECKPOINT_HF_SOUND_NAMES,
    {"blk.*.cross_k.%", "model.decoder.layers.*.encoder_attn.k_proj.%"},
    {"blk.*.cross_k.%", "decoder.layers.*.encoder_attn.k_proj.%"},
    {"blk.*.cross_v.%", "model.decoder.layers.*.encoder_attn.v_proj.%"},
    {"blk.*.cross_v.%", "decoder.layers.*.encoder_attn.v_proj.%"},
    {NULL, NULL},
};

#define DEFAULT_LAYERS 4u /* of each side, in transformers */

/* The sizes of the decoder have names of their own, and num_hidden_layers is the encoder's. */
static void read_decoder(struct checkpoint_keys *keys, struct model_config *config)
{
    config->layers = checkpoint_keys_u32_or(keys, "decoder_layers",
                                            (struct u32_range){1, LIMIT_LAYERS}, DEFAULT_LAYERS);
    config->hidden =
        checkpoint_keys_u32_or(keys, "d_model", (struct u32_range){1, LIMIT_HIDDEN}, 384);
    config->feed_forward = checkpoint_keys_u32_or(keys, "decoder_ffn_dim",
                                                  (struct u32_range){1, LIMIT_FEED_FORWARD}, 1536);
    config->heads = checkpoint_keys_u32_or(keys, "decoder_attention_heads",
                                           (struct u32_range){1, LIMIT_HEADS}, 6);
    config->kv_heads = config->heads;
    config->head_dim = 0;
    checkpoint_settle_heads(keys, config);
    if (keys->result == RESULT_OK &&
        (config->head_dim < 2 || config->heads * config->head_dim != config->hidden))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u heads of %u are not %u columns",
                               config->heads, config->head_dim, config->hidden);
    if (keys->result == RESULT_OK)
        config->attention_scale = 1.0f / sqrtf((float)config->head_dim);
    config->position_rows = config->context_tokens;
    config->crossed_layers = config->layers;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].rope = ROPE_NONE;
}

static void read_encoder(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                         struct vision_config *config)
{
    const struct hf_sound_defaults defaults = {
        .hidden = 384, .layers = DEFAULT_LAYERS, .heads = 6, .feed_forward = 1536, .mels = 80};
    checkpoint_hf_sound_sizes(keys, &defaults, config);
    config->vision.sound_rows = config->table_side = checkpoint_keys_u32_or(
        keys, "max_source_positions", (struct u32_range){2, LIMIT_PATCH_ROWS}, 1500);
    config->vision.row_features = true;
    config->vision.crossed_layers = checkpoint_keys_u32_or(
        root, "decoder_layers", (struct u32_range){1, LIMIT_LAYERS}, DEFAULT_LAYERS);
}

static const struct hf_vision_form hf_encoder = {
    .naming = {encoder_names, NULL, encoder_parts, NULL},
    .part = "",
    .probe = "a.conv1d.1.weight",
    .parts = encoder_parts,
    .read_config = read_encoder,
};

static const struct hf_form hf_whisper = {
    .model_types = model_types,
    .defaults = {.layers = DEFAULT_LAYERS,
                 .hidden = 384,
                 .feed_forward = 1536,
                 .heads = 6,
                 .vocab_tokens = 51865,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "activation_function",
    .activation = "gelu",
    .naming = {decoder_names, NULL, decoder_prefixes, encoder_parts},
    .read_config = read_decoder,
    .vision = &hf_encoder,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct decoder_tensors {
    plan_tensor_id residual; /* [rows, hidden], like the next four */
    plan_tensor_id normed;
    plan_tensor_id attended;
    plan_tensor_id keys; /* only of step rows, like the next two */
    plan_tensor_id queries;
    plan_tensor_id qkv;  /* [rows, 3 * hidden]: queries, values, keys */
    plan_tensor_id pair; /* [rows, 2 * hidden] */
    plan_tensor_id wide; /* [rows, feed_forward] */
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

static struct decoder_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                          enum plan_rows rows)
{
    struct decoder_tensors t = {
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->hidden),
        .wide = plan_builder_tensor(b, rows, c->feed_forward),
    };
    if (rows != PLAN_ROWS_STEP)
        return t;
    t.keys = plan_builder_tensor(b, rows, c->hidden);
    t.queries = plan_builder_tensor(b, rows, c->hidden);
    t.qkv = plan_builder_tensor(b, rows, 3 * c->hidden);
    t.pair = plan_builder_tensor(b, rows, 2 * c->hidden);
    return t;
}

/* normed = norm(residual), by the norm `name` */
static void list_norm(struct plan_builder *b, const char *name, const struct decoder_tensors *t)
{
    tower_blocks_norm(b, false, t->residual, plan_builder_config(b)->hidden, name, t->normed);
}

static void list_layer_norm(struct plan_builder *b, uint32_t layer, const char *part,
                            const struct decoder_tensors *t)
{
    char name[STORED_NAME_BYTES];
    snprintf(name, sizeof name, "blk.%u.%s", layer, part);
    list_norm(b, name, t);
}

/* residual += W . x + bias, of the layer's part `name` */
static void list_add(struct plan_builder *b, uint32_t layer, const char *name, plan_tensor_id x,
                     uint32_t columns, const struct decoder_tensors *t)
{
    uint32_t hidden = plan_builder_config(b)->hidden;
    plan_ops_linear_add(b, x,
                        plan_builder_matrix(b, hidden, columns, "blk.%u.%s.weight", layer, name),
                        t->residual);
    plan_ops_bias_add(b, t->residual,
                      one(plan_builder_vector(b, hidden, "blk.%u.%s.bias", layer, name)));
}

/* Keys have no bias, so they are a product of their own. */
static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct decoder_tensors *t)
{
    uint32_t hidden = c->hidden;
    struct linear_weights weights = one(PLAN_NONE), biases = one(PLAN_NONE);
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    slices.values.offset = hidden;
    slices.keys.offset = 2 * hidden;
    list_layer_norm(b, layer, "attn_norm", t);
    weights.first = plan_builder_matrix(b, hidden, hidden, "blk.%u.attn_q.weight", layer);
    weights.second = plan_builder_matrix(b, hidden, hidden, "blk.%u.attn_v.weight", layer);
    biases.first = plan_builder_vector(b, hidden, "blk.%u.attn_q.bias", layer);
    biases.second = plan_builder_vector(b, hidden, "blk.%u.attn_v.bias", layer);
    plan_ops_linear(b, t->normed, weights, t->pair);
    plan_ops_bias_add(b, t->pair, biases);
    plan_ops_linear(b, t->normed,
                    one(plan_builder_matrix(b, hidden, hidden, "blk.%u.attn_k.weight", layer)),
                    t->keys);
    plan_ops_clip_columns(b, t->pair,
                          (struct clip_columns_params){.minimum = -INFINITY, .maximum = INFINITY},
                          t->qkv);
    plan_ops_clip_columns(b, t->keys,
                          (struct clip_columns_params){
                              .offset = 2 * hidden, .minimum = -INFINITY, .maximum = INFINITY},
                          t->qkv);
    plan_ops_kv_write(b, t->qkv, slices, layer);
    plan_ops_attention(b, t->qkv, slices, layer, t->attended);
    list_add(b, layer, "attn_output", t->attended, hidden, t);
}

static void list_cross_attention(struct plan_builder *b, const struct model_config *c,
                                 uint32_t layer, const struct decoder_tensors *t)
{
    list_layer_norm(b, layer, "cross_norm", t);
    plan_ops_linear(
        b, t->normed,
        one(plan_builder_matrix(b, c->hidden, c->hidden, "blk.%u.cross_q.weight", layer)),
        t->queries);
    plan_ops_bias_add(b, t->queries,
                      one(plan_builder_vector(b, c->hidden, "blk.%u.cross_q.bias", layer)));
    plan_ops_cross_attention(b, t->queries, layer, t->attended);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              const struct decoder_tensors *t)
{
    uint32_t wide = c->feed_forward;
    list_layer_norm(b, layer, "ffn_norm", t);
    plan_ops_linear(b, t->normed,
                    one(plan_builder_matrix(b, wide, c->hidden, "blk.%u.ffn_up.weight", layer)),
                    t->wide);
    plan_ops_bias_add(b, t->wide, one(plan_builder_vector(b, wide, "blk.%u.ffn_up.bias", layer)));
    plan_ops_activate(b, t->wide, ACTIVATION_GELU_ERF);
    list_add(b, layer, "ffn_down", t->wide, wide, t);
}

/* Features have the keys and values; marks their tensors as used here. */
static void leave_features(struct plan_builder *b, uint32_t layer)
{
    static const char *const names[] = {"cross_k.weight", "cross_v.weight", "cross_v.bias"};
    char name[STORED_NAME_BYTES];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, names[i]);
        plan_builder_use_in_config(b, name);
    }
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct decoder_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct decoder_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_ops_embed_rows_scaled(b, embedding, c->embedding_scale, step.residual);
    plan_ops_embed_places(
        b, plan_builder_matrix(b, c->position_rows, c->hidden, "position_embd.weight"),
        INDEX_POSITION, 0, step.normed);
    plan_ops_add_rows(b, step.residual, step.normed, 1.0f, step.residual);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        const struct decoder_tensors *t = &step;
        leave_features(b, layer);
        list_attention(b, c, layer, &step);
        list_cross_attention(b, c, layer, &step);
        if (layer + 1 == c->layers) {
            t = &last;
            plan_ops_gather_rows(b, step.residual, last.residual);
            plan_ops_gather_rows(b, step.attended, last.attended);
        }
        list_add(b, layer, "cross_output", t->attended, c->hidden, t);
        list_feed_forward(b, c, layer, t);
    }
    list_norm(b, "output_norm", &last);
    plan_ops_linear(b, last.normed, one(plan_builder_output_matrix(b, c, embedding)), logits);
    return logits;
}

/* A key and a value of each layer of the decoder. */
static void list_encoder_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t hidden = c->tower.hidden, wide = c->vision.text_hidden;
    plan_tensor_id rows = sound_blocks_list(
        b, c, plan_builder_flat(b, c->table_side, hidden, "v.position_embd.weight"));
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id part = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_ops_join_rows(b, rows, 1, row);
    tower_blocks_norm(b, false, row, hidden, "v.post_ln", row);
    for (uint32_t layer = 0; layer < c->vision.crossed_layers; layer++) {
        plan_ops_linear(b, row,
                        one(plan_builder_matrix(b, wide, hidden, "blk.%u.cross_k.weight", layer)),
                        part);
        plan_ops_feature_write(b, part, 2 * layer);
        plan_ops_linear(b, row,
                        one(plan_builder_matrix(b, wide, hidden, "blk.%u.cross_v.weight", layer)),
                        part);
        plan_ops_bias_add(b, part, one(plan_builder_vector(b, wide, "blk.%u.cross_v.bias", layer)));
        plan_ops_feature_write(b, part, 2 * layer + 1);
        plan_builder_end_stage(b);
    }
}

const struct model_family family_whisper = {
    .architecture = "whisper",
    .hf = &hf_whisper,
    .list_ops = list_ops,
    .list_vision_ops = list_encoder_ops,
};
