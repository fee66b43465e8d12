/*
 * The forward pass of LFM2. In lfm2_moe the second half of all layers but the first ones is a mixture of experts,
 * chosen by sigmoid and a bias.
 *
 *   x = embedding
 *   each layer:  x += mix(norm(x))
 *                x += Wdown . (silu(Wgate . norm(x)) * Wup . norm(x))
 *   logits = Woutput . norm(x)
 *
 *   mix of an attention layer:    Wo . attention(rope(norm_per_head(Wq|Wk . x)), Wv . x)
 *   mix of a convolution layer:   B|C|X = Win . x;  Wout . (C * convolution(B * X))
 *
 * Most layers convolve each channel with its own last few inputs; those inputs are the layer's
 * whole state of a sequence. As in llama, only logit rows are computed after the last layer's mix.
 */
#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_recurrent.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the lfm2 architecture, beyond the sizes that all families have: one rotary
 * embedding, the taps of the convolutions, and which layers attend. The number of key-value heads
 * is a list, with 0 for every layer that convolves.
 *
 * Source: llama.cpp, conversion/lfm2.py and src/models/lfm2.cpp.
 */
#define GGUF_LFM2_ROPE_BASE 1000000.0f

static const char *const own_keys[] = {"attention.head_count_kv", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GGUF_LFM2_ROPE_BASE, &config->ropes[0]);
    config->conv_taps =
        checkpoint_keys_u32(keys, "shortconv.l_cache", (struct u32_range){2, LIMIT_CONV_TAPS});
    config->conv_channels = config->hidden;
    (void)checkpoint_gguf_read_attending(keys, LAYER_SHORT_CONV, config);
}

static const struct gguf_form gguf_lfm2 = {
    .own_keys = own_keys,
    .read_config = gguf_read_config,
};

#define WEIGHT_EPSILON 1e-6f

static const char *const moe_own_keys[] = {"attention.head_count_kv", GGUF_EXPERT_KEYS, NULL};

static void gguf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct gguf_expert_terms terms = {
        .sigmoid = true, .normalized = true, .epsilon = WEIGHT_EPSILON};
    gguf_read_config(keys, config);
    checkpoint_gguf_read_experts(keys, &terms, config);
}

static const struct gguf_form gguf_lfm2_moe = {
    .own_keys = moe_own_keys,
    .read_config = gguf_read_moe,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of LFM2 (dense): which layers attend and which convolve, and the width
 * of the feed-forward. `intermediate_size` (older: `block_ff_dim`) is the width of a feed-forward
 * without a gate; the gated one has two thirds of it, times a multiplier, rounded up. conv_bias
 * gives convolutions and their projections biases.
 *
 * Source: transformers, configuration_lfm2.py and modeling_lfm2.py (Lfm2MLP).
 */
#define HF_LFM2_ROPE_BASE 1000000.0f

static const char *const model_types[] = {"lfm2", NULL};

static const struct tensor_name names[] = {
    {"token_embd_norm.weight", "^embedding_norm.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.operator_norm.weight"},
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.q_layernorm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.k_layernorm.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.out_proj.weight"},
    {"blk.*.shortconv.in_proj.weight", "^layers.*.conv.in_proj.weight"},
    {"blk.*.shortconv.conv.weight", "^layers.*.conv.conv.weight"},
    {"blk.*.shortconv.out_proj.weight", "^layers.*.conv.out_proj.weight"},
    {"blk.*.shortconv.in_proj.bias", "^layers.*.conv.in_proj.bias"},
    {"blk.*.shortconv.conv.bias", "^layers.*.conv.conv.bias"},
    {"blk.*.shortconv.out_proj.bias", "^layers.*.conv.out_proj.bias"},
    {"blk.*.ffn_norm.weight", "^layers.*.ffn_norm.weight"},
    {"blk.*.ffn_gate.weight", "^layers.*.feed_forward.w1.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.feed_forward.w3.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.feed_forward.w2.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.feed_forward.gate.weight"},
    {"blk.*.exp_probs_b.bias", "^layers.*.feed_forward.expert_bias"},
    {"blk.*.ffn_gate.*.weight", "^layers.*.feed_forward.experts.*.w1.weight"},
    {"blk.*.ffn_up.*.weight", "^layers.*.feed_forward.experts.*.w3.weight"},
    {"blk.*.ffn_down.*.weight", "^layers.*.feed_forward.experts.*.w2.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.feed_forward.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.feed_forward.experts.down_proj"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.feed_forward.switch_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.feed_forward.switch_mlp.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.feed_forward.switch_mlp.down_proj.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_feed_forward(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range range = {1, LIMIT_FEED_FORWARD};
    uint32_t plain = checkpoint_keys_u32_or(keys, "block_ff_dim", range, config->feed_forward);
    uint32_t multiple = checkpoint_keys_u32_or(keys, "block_multiple_of", range, 256);
    float multiplier = checkpoint_keys_f32_or(keys, "block_ffn_dim_multiplier",
                                              (struct f32_range){1e-3f, 1e3f}, 1.0f);
    config->feed_forward = plain;
    if (!checkpoint_keys_bool_or(keys, "block_auto_adjust_ff_dim", true))
        return;
    uint64_t narrow = (uint64_t)((double)multiplier * (double)(2ull * plain / 3));
    narrow = (narrow + multiple - 1) / multiple * multiple;
    if (narrow == 0 || narrow > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE,
                               "a feed-forward of %llu columns is not within 1 to %u",
                               (unsigned long long)narrow, LIMIT_FEED_FORWARD);
    else
        config->feed_forward = (uint32_t)narrow;
}

/* What both classes state alike. */
static void hf_read_mixing(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = HF_LFM2_ROPE_BASE});
    config->conv_bias = checkpoint_keys_bool_or(keys, "conv_bias", false);
    config->tied_embeddings =
        checkpoint_keys_bool_or(keys, "tie_embedding", config->tied_embeddings);
    config->conv_taps =
        checkpoint_keys_u32_or(keys, "conv_L_cache", (struct u32_range){2, LIMIT_CONV_TAPS}, 3);
    config->conv_channels = config->hidden;
    checkpoint_hf_read_layer_kinds(keys, config,
                                   &(const struct hf_recurrent_layers){.word = "conv",
                                                                       .kind = LAYER_SHORT_CONV,
                                                                       .indices = "full_attn_idxs",
                                                                       .default_period = 1});
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    read_feed_forward(keys, config);
    hf_read_mixing(keys, config);
}

static const struct hf_form hf_lfm2 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 2560,
                 .feed_forward = 12288,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 65536,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/*
 * lfm2_moe: intermediate_size is the width of the dense layers, num_dense_layers of them.
 *
 * Source: transformers, configuration_lfm2_moe.py and modeling_lfm2_moe.py.
 */
static const char *const moe_model_types[] = {"lfm2_moe", NULL};
static const char *const hf_moe_own_keys[] = {"num_experts", NULL};

static void hf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    hf_read_mixing(keys, config);
    checkpoint_hf_read_experts(
        keys,
        &(const struct hf_expert_terms){
            .least = 1,
            .count = 32,
            .chosen = 4,
            .feed_forward = 1792,
            .normalized = checkpoint_keys_bool_or(keys, "norm_topk_prob", true),
        },
        config);
    struct expert_config *e = &config->experts;
    e->weighed = e->sigmoid = true;
    e->choice_bias = checkpoint_keys_bool_or(keys, "use_expert_bias", true);
    e->epsilon = WEIGHT_EPSILON;
    e->scale = checkpoint_keys_f32_or(keys, "routed_scaling_factor",
                                      (struct f32_range){1e-4f, 1e4f}, 1.0f);
    checkpoint_hf_use_experts(
        config,
        checkpoint_keys_u32_or(keys, "num_dense_layers", (struct u32_range){0, LIMIT_LAYERS}, 2));
}

static const struct hf_form hf_lfm2_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 32,
                 .hidden = 2048,
                 .feed_forward = 7168,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 65536,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_moe_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_moe,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* Activation tensors of a layer's second half; one set for step rows and one for logit rows. */
struct lfm2_tensors {
    plan_tensor_id residual;       /* [rows, hidden] */
    plan_tensor_id normed;         /* [rows, hidden] */
    plan_tensor_id attended;       /* [rows, heads * head_dim] */
    plan_tensor_id mixed;          /* [rows, hidden], output of a convolution */
    plan_tensor_id gate_up;        /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;          /* [rows, feed_forward] */
    struct expert_tensors experts; /* of lfm2_moe */
};

/* Activation tensors of a layer's first half, for step rows. */
struct lfm2_inputs {
    plan_tensor_id qkv; /* [rows, (heads + 2 * kv_heads) * head_dim] */
    plan_tensor_id bcx; /* [rows, 3 * hidden] */
    plan_tensor_id c;   /* [rows, hidden], if convolutions have biases */
};

static struct lfm2_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                       enum plan_rows rows)
{
    struct lfm2_tensors tensors = {
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .mixed = plan_builder_tensor(b, rows, c->hidden),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
    if (c->experts.count > 0)
        tensors.experts = expert_blocks_add_tensors(b, c, rows);
    return tensors;
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct lfm2_tensors *t, plan_tensor_id qkv)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    plan_weight_id k_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_k_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    plan_ops_head_norm(b, qkv, slices.keys, k_norm);
    plan_ops_rope(b, qkv, slices.queries, layer);
    plan_ops_rope(b, qkv, slices.keys, layer);
    plan_ops_kv_write(b, qkv, slices, layer);
    plan_ops_attention(b, qkv, slices, layer, t->attended);
}

static struct linear_weights bias_of(struct plan_builder *b, uint32_t columns, const char *part,
                                     uint32_t layer)
{
    plan_weight_id bias = plan_builder_vector(b, columns, "blk.%u.shortconv.%s.bias", layer, part);
    return (struct linear_weights){bias, PLAN_NONE, PLAN_NONE};
}

/* With a bias, the output is C * (convolution + bias) = C * convolution + C * bias. */
static void list_convolution(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct lfm2_tensors *t, const struct lfm2_inputs *inputs)
{
    plan_weight_id in =
        plan_builder_matrix(b, 3 * c->hidden, c->hidden, "blk.%u.shortconv.in_proj.weight", layer);
    plan_weight_id taps =
        plan_builder_taps(b, c->conv_channels, c->conv_taps, "blk.%u.shortconv.conv.weight", layer);
    plan_ops_linear(b, t->normed, (struct linear_weights){in, PLAN_NONE, PLAN_NONE}, inputs->bcx);
    if (c->conv_bias)
        plan_ops_bias_add(b, inputs->bcx, bias_of(b, 3 * c->hidden, "in_proj", layer));
    plan_ops_short_conv(b, inputs->bcx, taps,
                        (struct short_conv_params){.form = SHORT_CONV_GATED, .layer = layer},
                        t->mixed);
    if (!c->conv_bias)
        return;
    plan_ops_stream_take(b, inputs->bcx, 1, inputs->c);
    plan_ops_scale_columns(b, inputs->c, bias_of(b, c->hidden, "conv", layer).first);
    plan_ops_add_rows(b, t->mixed, inputs->c, 1.0f, t->mixed);
}

/* Computes the mix from the residual, before its last projection. */
static void list_mixing(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                        const struct lfm2_tensors *t, const struct lfm2_inputs *inputs)
{
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].kind == LAYER_ATTENTION)
        list_attention(b, c, layer, t, inputs->qkv);
    else
        list_convolution(b, c, layer, t, inputs);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              const struct lfm2_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    plan_ops_rms_norm(b, t->residual,
                      plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer), t->normed);
    if (c->layer[layer].experts) {
        expert_blocks_list(b, c, &(const struct expert_form){.gate = {.activation = GATE_SILU}},
                           layer, t->normed, &t->experts, t->residual);
        return;
    }
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct lfm2_tensors *t)
{
    uint32_t hidden = c->hidden, attended = c->heads * c->head_dim;
    bool attends = c->layer[layer].kind == LAYER_ATTENTION;
    if (attends)
        plan_ops_linear_add(
            b, t->attended,
            plan_builder_matrix(b, hidden, attended, "blk.%u.attn_output.weight", layer),
            t->residual);
    else
        plan_ops_linear_add(
            b, t->mixed,
            plan_builder_matrix(b, hidden, hidden, "blk.%u.shortconv.out_proj.weight", layer),
            t->residual);
    if (!attends && c->conv_bias)
        plan_ops_bias_add(b, t->residual, bias_of(b, hidden, "out_proj", layer));
    list_feed_forward(b, c, layer, t);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct lfm2_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct lfm2_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    struct lfm2_inputs inputs = {
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, plan_ops_qkv_slices(c).columns),
        .bcx = plan_builder_tensor(b, PLAN_ROWS_STEP, 3 * c->hidden),
        .c = c->conv_bias ? plan_builder_tensor(b, PLAN_ROWS_STEP, c->hidden)
                          : (plan_tensor_id)PLAN_NONE};
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    /* The GGUF name token_embd_norm is the norm before the output matrix. */
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "token_embd_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);
    bool attends = c->layer[c->layers - 1].kind == LAYER_ATTENTION;

    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_mixing(b, c, layer, &step, &inputs);
        list_projections(b, c, layer, &step);
    }
    list_mixing(b, c, c->layers - 1, &step, &inputs);
    plan_ops_gather_rows(b, step.residual, last.residual);
    if (attends)
        plan_ops_gather_rows(b, step.attended, last.attended);
    else
        plan_ops_gather_rows(b, step.mixed, last.mixed);
    list_projections(b, c, c->layers - 1, &last);

    plan_ops_rms_norm(b, last.residual, norm, last.normed);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}

const struct model_family family_lfm2 = {
    .architecture = "lfm2",
    .gguf = &gguf_lfm2,
    .hf = &hf_lfm2,
    .list_ops = list_ops,
};

const struct model_family family_lfm2_moe = {
    .architecture = "lfm2moe",
    .gguf = &gguf_lfm2_moe,
    .hf = &hf_lfm2_moe,
    .list_ops = list_ops,
};
