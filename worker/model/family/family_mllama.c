/*
 * Llama 3.2 Vision, in folders: llama, some of whose layers attend to an image instead of the sequence.
 *
 *   each other layer:  as in llama
 *   a crossed layer:   x += t(g) * Wo . cross_attention(n(Wq . norm(x)), keys, values)
 *                      x += t(h) * sees * Wdown . (silu(Wgate . norm(x)) * Wup . norm(x))
 *
 * t is tanh, n a norm of each head. Keys and values, n(Wk . feature) and Wv . feature, are what the tower
 * (tower_mllama.c) writes for each of these layers. Rows after an image attend to what the image shows; if nothing
 * is between two images, to both. Rows before the first image attend to all rows of all images, empty squares
 * included, but `sees` is 0 for them: so do transformers and mlx-vlm, which lift a mask that hides everything.
 * (The model's authors let such rows attend to nothing.) Without images a crossed layer adds nothing.
 *
 * Eight tokens, of which the first is that of an image, have rows of the embedding and no logits: theirs are below
 * all others.
 *
 * Source: transformers, configuration_mllama.py, modeling_mllama.py and processing_mllama.py.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define SPARE_TOKENS 8u /* embedded, and never drawn */
#define ROPE_BASE    500000.0f
#define LEAST_LOGIT  (-1e30f)
#define LEAST_GATE   1e-30f /* adds to no number but 0 */

static const char *const model_types[] = {"mllama", NULL};
static const char *const prefixes[] = {"language_model.model.", "model.language_model.", NULL};
static const char *const other_parts[] = {"vision_model.",
                                          "multi_modal_projector.",
                                          "model.vision_model.",
                                          "model.multi_modal_projector.",
                                          "vision_tower.", /* of MLX */
                                          NULL};

static const struct tensor_name names[] = {
    {"blk.*.cross_q.weight", "^layers.*.cross_attn.q_proj.weight"},
    {"blk.*.cross_k.weight", "^layers.*.cross_attn.k_proj.weight"},
    {"blk.*.cross_v.weight", "^layers.*.cross_attn.v_proj.weight"},
    {"blk.*.cross_output.weight", "^layers.*.cross_attn.o_proj.weight"},
    {"blk.*.cross_q_norm.weight", "^layers.*.cross_attn.q_norm.weight"},
    {"blk.*.cross_k_norm.weight", "^layers.*.cross_attn.k_norm.weight"},
    {"blk.*.cross_gate", "^layers.*.cross_attn_attn_gate"},
    {"blk.*.ffn_gate_all", "^layers.*.cross_attn_mlp_gate"},
    {NULL, NULL},
};

/* Layers 3, 8, 13 and so on, if the config does not say. */
static void read_crossed(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t crossed[LIMIT_LAYERS], count = 0;
    if (!checkpoint_hf_vision_list(keys, "cross_attention_layers", config->layers, LIMIT_LAYERS,
                                   crossed, &count))
        for (uint32_t layer = 3; layer < 40 && layer < config->layers; layer += 5)
            crossed[count++] = layer;
    for (uint32_t i = 0; i < count; i++)
        config->layer[crossed[i]].kind = LAYER_FEED_FORWARD;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->crossed_layers += config->layer[layer].kind == LAYER_FEED_FORWARD;
    if (keys->result == RESULT_OK &&
        (config->crossed_layers == 0 || config->crossed_layers == config->layers))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "cross_attention_layers names none of %u layers, or all",
                               config->layers);
}

static void read_text(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    if (keys->result == RESULT_OK && (config->head_dim * config->heads != config->hidden ||
                                      config->vocab_tokens > LIMIT_VOCAB_TOKENS - SPARE_TOKENS))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u heads of %u, or a vocabulary of %u tokens",
                               config->heads, config->head_dim, config->vocab_tokens);
    if (keys->result != RESULT_OK)
        return;
    config->vocab_tokens += SPARE_TOKENS;
    config->tied_embeddings = false;
    read_crossed(keys, config);
}

static const struct hf_form hf_mllama = {
    .model_types = model_types,
    .defaults = {.layers = 40,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 128256,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_text,
    .vision = &checkpoint_hf_mllama_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct mllama_tensors {
    struct dense_tensors dense;
    plan_tensor_id qkv;     /* [step rows, plan_ops_qkv_slices()] */
    plan_tensor_id queries; /* [step rows, heads * head_dim] */
};

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* tanh of the gate that is the tensor `name` of the layer. */
static float read_gate(struct plan_builder *b, uint32_t layer, const char *name)
{
    float gate = tanhf(plan_builder_number(b, "blk.%u.%s", layer, name));
    return fabsf(gate) < LEAST_GATE ? LEAST_GATE : gate;
}

static void list_norm(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const char *name, const struct dense_tensors *t)
{
    plan_ops_rms_norm(b, t->residual,
                      plan_builder_vector(b, c->hidden, "blk.%u.%s.weight", layer, name),
                      t->normed);
}

/* `number`: of those that attend to features. */
static void list_crossed(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         uint32_t number, const struct mllama_tensors *tensors)
{
    const struct dense_tensors *t = &tensors->dense;
    uint32_t hidden = c->hidden, wide = c->feed_forward, query = c->heads * c->head_dim;
    list_norm(b, c, layer, "attn_norm", t);
    plan_ops_linear(b, t->normed,
                    one(plan_builder_matrix(b, query, hidden, "blk.%u.cross_q.weight", layer)),
                    tensors->queries);
    plan_ops_head_norm(b, tensors->queries, (struct column_slice){0, c->heads, c->head_dim},
                       plan_builder_vector(b, c->head_dim, "blk.%u.cross_q_norm.weight", layer));
    plan_ops_cross_attention(b, tensors->queries, number, t->attended);
    plan_ops_project(b, t->attended,
                     plan_builder_matrix(b, hidden, query, "blk.%u.cross_output.weight", layer),
                     PLAN_NONE, read_gate(b, layer, "cross_gate"), PLAN_NONE, t->residual);
    list_norm(b, c, layer, "ffn_norm", t);
    plan_ops_linear(b, t->normed,
                    (struct linear_weights){
                        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer),
                        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer),
                        PLAN_NONE},
                    t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_seeing_rows(b, t->gated);
    plan_ops_project(b, t->gated,
                     plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer),
                     PLAN_NONE, read_gate(b, layer, "ffn_gate_all"), PLAN_NONE, t->residual);
}

/* The tower computes keys and values (tower_mllama.c). */
static void leave_keys(struct plan_builder *b, uint32_t layer)
{
    static const char *const parts[] = {"cross_k.weight", "cross_v.weight", "cross_k_norm.weight"};
    char name[STORED_NAME_BYTES];
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i]);
        plan_builder_use_in_config(b, name);
    }
}

/* The logits of tokens with rows of the output matrix, and less for those without. */
static plan_tensor_id list_logits(struct plan_builder *b, const struct model_config *c,
                                  plan_tensor_id x)
{
    uint32_t drawn = c->vocab_tokens - SPARE_TOKENS;
    plan_tensor_id some = plan_builder_tensor(b, PLAN_ROWS_LOGITS, drawn);
    plan_tensor_id few = plan_builder_tensor(b, PLAN_ROWS_LOGITS, SPARE_TOKENS);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_ops_linear(b, x, one(plan_builder_matrix(b, drawn, c->hidden, "output.weight")), some);
    plan_ops_take_heads(b, x, (struct take_heads_params){.heads = 1}, few);
    plan_ops_clip_columns(
        b, some, (struct clip_columns_params){.minimum = -INFINITY, .maximum = INFINITY}, logits);
    plan_ops_clip_columns(b, few,
                          (struct clip_columns_params){
                              .offset = drawn, .minimum = LEAST_LOGIT, .maximum = LEAST_LOGIT},
                          logits);
    return logits;
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    const struct dense_form form = {0};
    struct mllama_tensors t = {.dense = dense_blocks_add_tensors(b, c, PLAN_ROWS_STEP)};
    struct dense_tensors last = dense_blocks_add_tensors(b, c, PLAN_ROWS_LOGITS);
    bool ends_crossed = c->layer[c->layers - 1].kind == LAYER_FEED_FORWARD;
    t.qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    t.queries = plan_builder_tensor(b, PLAN_ROWS_STEP, c->heads * c->head_dim);
    plan_ops_embed_rows(b, plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight"),
                        t.dense.residual);
    for (uint32_t layer = 0, number = 0; layer < c->layers; layer++) {
        const struct dense_tensors *rows = &t.dense;
        if (c->layer[layer].kind == LAYER_FEED_FORWARD) {
            leave_keys(b, layer);
            list_crossed(b, c, layer, number++, &t);
            continue;
        }
        dense_blocks_list_attention(b, c, &form, layer, &t.dense, t.qkv);
        if (layer + 1 == c->layers) {
            plan_ops_gather_rows(b, t.dense.residual, last.residual);
            plan_ops_gather_rows(b, t.dense.attended, last.attended);
            rows = &last;
        }
        dense_blocks_list_output(b, c, &form, layer, rows);
        dense_blocks_list_feed_forward(b, c, &form, layer, rows);
    }
    if (ends_crossed)
        plan_ops_gather_rows(b, t.dense.residual, last.residual);
    plan_ops_rms_norm(b, last.residual, plan_builder_vector(b, c->hidden, "output_norm.weight"),
                      last.normed);
    return list_logits(b, c, last.normed);
}

const struct model_family family_mllama = {
    .architecture = "mllama",
    .hf = &hf_mllama,
    .list_ops = list_ops,
    .list_vision_ops = tower_mllama_list_ops,
};
