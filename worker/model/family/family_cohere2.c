/*
 * The forward pass of Cohere's Command R7B and A (cohere2).
 *
 *   x = embedding
 *   each layer:  n = layer_norm(x)
 *                x += Wo . attention(rope(Wq|Wk . n), Wv . n)
 *                x += Wdown . (silu(Wgate . n) * Wup . n)
 *   logits = logit_scale * Woutput . layer_norm(x)
 *
 * Both halves of a layer read the same normed row, so n is kept until after the attention. Norms
 * subtract the mean. Layers that see all positions do not rotate.
 *
 * As in llama, only logit rows are computed after the last layer's attention.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the cohere2 architecture, beyond the sizes that all families have.
 *
 * Three layers of four have a sliding window and rotate adjacent pairs; every fourth sees all
 * positions and does not rotate. A key may state the pattern's period; published files leave it
 * out.
 *
 * Source: Hugging Face transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#define COHERE2_ROPE_BASE 10000.0f
#define COHERE2_PERIOD    4u

static const char *const own_keys[] = {"logit_scale", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t period = checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern",
                                             (struct u32_range){1, LIMIT_LAYERS}, COHERE2_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % period == 0;
        config->layer[layer] = (struct layer_config){
            .window = global ? 0 : window,
            .rope = global ? ROPE_NONE : 0,
        };
    }
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->logit_scale = checkpoint_keys_f32(keys, "logit_scale", (struct f32_range){1e-6f, 1e3f});
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, COHERE2_ROPE_BASE, &config->ropes[0]);
    read_layers(keys, config);
}

static const struct gguf_form gguf_cohere2 = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .own_keys = own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Cohere's Command R7B and A (cohere2).
 *
 * The head size is always hidden / heads, whatever head_dim says; a checkpoint in which the two
 * differ has tensors of the wrong shape and is refused.
 *
 * Source: transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#define DEFAULT_LOGIT_SCALE 0.0625f

static const char *const model_types[] = {"cohere2", NULL};
static const char *const hf_own_keys[] = {"attention_bias", NULL};
static const struct hf_layer_pattern layer_pattern = {
    .window = 4096, .period = 4, .global_rope = ROPE_NONE, .window_rope = 0};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f};

static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 0);
    checkpoint_keys_expect_neutral(keys, "rotary_pct", 1);
    config->logit_scale = checkpoint_keys_f32_or(
        keys, "logit_scale", (struct f32_range){1e-6f, 1e3f}, DEFAULT_LOGIT_SCALE);
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

static const struct hf_form hf_cohere2 = {
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
    .own_keys = hf_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* A layer's activation tensors after attention; one set for step rows and one for logit rows. */
struct cohere2_tensors {
    plan_tensor_id residual; /* [rows, hidden] */
    plan_tensor_id normed;   /* [rows, hidden] */
    plan_tensor_id attended; /* [rows, heads * head_dim] */
    plan_tensor_id gate_up;  /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;    /* [rows, feed_forward] */
};

static struct cohere2_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                          enum plan_rows rows)
{
    return (struct cohere2_tensors){
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct cohere2_tensors *t, plan_tensor_id qkv)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);

    plan_ops_layer_norm(b, t->residual, norm, t->normed);
    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, qkv);
    if (c->attention_bias)
        plan_ops_bias_add(b, qkv, dense_blocks_qkv_biases(b, c, layer));
    if (c->layer[layer].rope != ROPE_NONE) {
        plan_ops_rope(b, qkv, slices.queries, layer);
        plan_ops_rope(b, qkv, slices.keys, layer);
    }
    plan_ops_kv_write(b, qkv, slices, layer);
    plan_ops_attention(b, qkv, slices, layer, t->attended);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct cohere2_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward, attended = c->heads * c->head_dim;
    plan_weight_id o = plan_builder_matrix(b, hidden, attended, "blk.%u.attn_output.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);

    plan_ops_linear_add(b, t->attended, o, t->residual);
    if (c->output_bias)
        dense_blocks_list_output_bias(b, c, layer, t->residual);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct cohere2_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct cohere2_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);

    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_attention(b, c, layer, &step, qkv);
        list_projections(b, c, layer, &step);
    }
    list_attention(b, c, c->layers - 1, &step, qkv);
    plan_ops_gather_rows(b, step.residual, last.residual);
    plan_ops_gather_rows(b, step.normed, last.normed);
    plan_ops_gather_rows(b, step.attended, last.attended);
    list_projections(b, c, c->layers - 1, &last);

    plan_ops_layer_norm(b, last.residual, norm, last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

const struct model_family family_cohere2 = {
    .architecture = "cohere2",
    .gguf = &gguf_cohere2,
    .hf = &hf_cohere2,
    .list_ops = list_ops,
};
