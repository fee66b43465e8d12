/*
 * The forward pass of Qwen 3.5 (text), dense or with mixtures of experts.
 *
 *   x = embedding
 *   each layer:  x += mix(norm(x))
 *                x += feed(norm(x)), feed(y) = Wdown . (silu(Wgate . y) * Wup . y)
 *   logits = Woutput . norm(x)
 *
 *   mix of an attention layer:   Q|G = Wq . x for each head;
 *       Wo . (attention(rope(norm_per_head(Q|Wk . x)), Wv . x) * sigmoid(G))
 *   mix of a delta layer:        Wout . (norm_per_head(delta(silu(convolution(Wqkv . x)),
 *                                                            Wbeta|Walpha . x)) * silu(Wz . x))
 *
 *   with experts:  x += experts(norm(x)) + feed(norm(x)) * sigmoid(wscore . norm(x))
 *
 * With experts, feed is the expert that every row uses (config.feed_forward), and the weights of
 * the chosen ones are a softmax over all scores, normalized to a sum of one.
 *
 * Three layers of four are gated delta nets (op_list.h, gated_delta). Their state of a sequence is
 * a matrix per head and the last columns of a short convolution, of constant size. Only a part of
 * each attention head is rotated. As in Gemma's folders, stored norm weights lack their 1, except
 * for the norm after the delta net.
 *
 * As in llama, only logit rows are computed after the last layer's mix.
 */
#include <stdio.h>

#include "worker/model/build/ahead_blocks.h"
#include "worker/model/build/dense_blocks.h"
#include "worker/model/build/expert_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_recurrent.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architectures qwen35 and qwen35moe, beyond the sizes that all families have:
 * the rotary embedding over a part of each head, which layers attend, and the sizes of the delta
 * nets, under the key names of a state space model.
 *
 * Converters store the rate itself, -exp(A_log), and order value heads so that neighbours have
 * different key heads; the config states both (struct delta_config). Rotary positions have three
 * dimensions, which pairs use in turn (rope.dimension_sections); files without the key are text
 * alone.
 *
 * With experts, every layer has them and one more that every row uses. Layers that predict several
 * tokens (nextn_predict_layers) are the last of the counted blocks.
 *
 * Source: llama.cpp, conversion/qwen.py, src/models/qwen35.cpp and qwen35moe.cpp.
 */
#define GGUF_QWEN3_5_ROPE_BASE 10000000.0f
#define QWEN3_5_FULL_PERIOD    4u

static const char *const gguf_own_keys[] = {"nextn_predict_layers", NULL};
static const char *const gguf_moe_own_keys[] = {"nextn_predict_layers", "expert_count",
                                                "feed_forward_length", NULL};

static void gguf_read_delta(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range heads = {1, LIMIT_HEADS}, dim = {1, LIMIT_HEAD_DIM};
    struct delta_config *delta = &config->delta;
    delta->key_heads = checkpoint_keys_u32(keys, "ssm.group_count", heads);
    delta->value_heads = checkpoint_keys_u32(keys, "ssm.time_step_rank", heads);
    delta->key_dim = checkpoint_keys_u32(keys, "ssm.state_size", dim);
    uint32_t values = checkpoint_keys_u32(keys, "ssm.inner_size",
                                          (struct u32_range){1, LIMIT_HEADS * LIMIT_HEAD_DIM});
    delta->value_dim = values / delta->value_heads;
    if (keys->result == RESULT_OK &&
        (values % delta->value_heads != 0 || delta->value_dim > LIMIT_HEAD_DIM))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "ssm.inner_size %u is not ssm.time_step_rank %u heads of at most %u",
                               values, delta->value_heads, LIMIT_HEAD_DIM);
    delta->heads_alternate = true;
    config->conv_taps =
        checkpoint_keys_u32(keys, "ssm.conv_kernel", (struct u32_range){2, LIMIT_CONV_TAPS});
    checkpoint_settle_delta(keys, config);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct gguf_array listed;
    char name[64];
    snprintf(name, sizeof name, "%s.attention.recurrent_layers", keys->section);
    bool lists = gguf_file_array(keys->file, name, &listed) == RESULT_OK;
    uint32_t period = checkpoint_keys_u32_or(
        keys, "full_attention_interval", (struct u32_range){1, LIMIT_LAYERS}, QWEN3_5_FULL_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool recurrent = (layer + 1) % period != 0;
        if (lists)
            recurrent = checkpoint_keys_u32_at(keys, "attention.recurrent_layers", layer,
                                               (struct u32_range){0, 1}) != 0;
        config->layer[layer] =
            (struct layer_config){.kind = recurrent ? LAYER_GATED_DELTA : LAYER_ATTENTION};
    }
}

static bool gguf_has_sections(const struct checkpoint_keys *keys)
{
    struct gguf_array listed;
    char name[64];
    snprintf(name, sizeof name, "%s.rope.dimension_sections", keys->section);
    return gguf_file_array(keys->file, name, &listed) == RESULT_OK;
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GGUF_QWEN3_5_ROPE_BASE, &config->ropes[0]);
    if (gguf_has_sections(keys))
        checkpoint_gguf_read_sections(keys, true, &config->ropes[0]);
    gguf_read_delta(keys, config);
    config->ahead_layers = checkpoint_keys_u32_or(keys, "nextn_predict_layers",
                                                  (struct u32_range){0, config->layers - 1}, 0);
    config->layers -= config->ahead_layers;
    read_layers(keys, config);
}

static void gguf_read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD};
    gguf_read_config(keys, config);
    config->feed_forward = checkpoint_keys_u32(keys, "expert_shared_feed_forward_length", wide);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = checkpoint_keys_u32(keys, "expert_feed_forward_length", wide),
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

static const struct gguf_form gguf_qwen3_5 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

static const struct gguf_form gguf_qwen3_5_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Qwen 3.5, dense and with mixtures of experts: the text part of a
 * multimodal model, or the text model alone. Rotary positions have three dimensions, which pairs
 * use in turn (mrope_section). The tower is that of Qwen3-VL.
 *
 * With experts, every layer has them and one more that every row uses; the chosen experts' weights
 * always add up to one, whatever norm_topk_prob says. They are stored as in qwen3_moe.
 *
 * MLX saves convolution kernels in another shape, and norm weights with their 1 added. The kernel's
 * shape tells which program saved the folder, as it does in MLX's own loading.
 *
 * Attention without an output gate is not supported.
 *
 * Source: mlx-lm, models/qwen3_5.py and qwen3_5_moe.py; transformers, configuration_qwen3_5.py,
 * modeling_qwen3_5.py and their siblings of qwen3_5_moe.
 */
#define HF_QWEN3_5_ROPE_BASE 10000.0f
#define QWEN3_5_ROPE_PART    0.25f
#define DEFAULT_WIDE         512u /* width of an expert */

static const char *const model_types[] = {"qwen3_5", "qwen3_5_text", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "partial_rotary_factor", NULL};
static const char *const moe_model_types[] = {"qwen3_5_moe", "qwen3_5_moe_text", NULL};
static const char *const hf_moe_own_keys[] = {"attention_bias", "partial_rotary_factor",
                                              "num_experts", NULL};

static const struct tensor_name hf_names[] = {
    {"blk.*.attn_qkv.weight", "^layers.*.linear_attn.in_proj_qkv.weight"},
    {"blk.*.attn_gate.weight", "^layers.*.linear_attn.in_proj_z.weight"},
    {"blk.*.ssm_beta.weight", "^layers.*.linear_attn.in_proj_b.weight"},
    {"blk.*.ssm_alpha.weight", "^layers.*.linear_attn.in_proj_a.weight"},
    {"blk.*.ssm_conv1d.weight", "^layers.*.linear_attn.conv1d.weight"},
    {"blk.*.ssm_a", "^layers.*.linear_attn.A_log"},
    {"blk.*.ssm_dt.bias", "^layers.*.linear_attn.dt_bias"},
    {"blk.*.ssm_norm.weight", "^layers.*.linear_attn.norm.weight"},
    {"blk.*.ssm_out.weight", "^layers.*.linear_attn.out_proj.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate_inp_shexp.weight", "^layers.*.mlp.shared_expert_gate.weight"},
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_expert.gate_proj.weight"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_expert.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_expert.down_proj.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {"model.visual.",       "visual.", "vision_tower.", "mtp.",
                                          "language_model.mtp.", NULL};

static void hf_read_delta(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range heads = {1, LIMIT_HEADS}, dim = {1, LIMIT_HEAD_DIM};
    config->delta = (struct delta_config){
        .key_heads = checkpoint_keys_u32_or(keys, "linear_num_key_heads", heads, 16),
        .value_heads = checkpoint_keys_u32_or(keys, "linear_num_value_heads", heads, 32),
        .key_dim = checkpoint_keys_u32_or(keys, "linear_key_head_dim", dim, 128),
        .value_dim = checkpoint_keys_u32_or(keys, "linear_value_head_dim", dim, 128),
        .rate_is_log = true,
    };
    config->conv_taps = checkpoint_keys_u32_or(keys, "linear_conv_kernel_dim",
                                               (struct u32_range){2, LIMIT_CONV_TAPS}, 4);
    checkpoint_settle_delta(keys, config);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {.base = HF_QWEN3_5_ROPE_BASE,
                                        .partial = true,
                                        .part = QWEN3_5_ROPE_PART,
                                        .mrope = true,
                                        .interleaved = true,
                                        .sections = {11, 11, 10}};
    checkpoint_hf_read_only_rope(keys, config, &terms);
    checkpoint_keys_expect_neutral(keys, "attn_output_gate", 1);
    checkpoint_hf_read_biases(keys, config);
    config->norm_weight_offset = 1.0f;
    hf_read_delta(keys, config);
    checkpoint_hf_read_layer_kinds(keys, config,
                                   &(const struct hf_recurrent_layers){
                                       .word = "linear_attention",
                                       .kind = LAYER_GATED_DELTA,
                                       .period = "full_attention_interval",
                                       .default_period = 4,
                                   });
}

static void hf_read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD};
    hf_read_config(keys, config);
    config->feed_forward =
        checkpoint_keys_u32_or(keys, "shared_expert_intermediate_size", wide, DEFAULT_WIDE);
    checkpoint_hf_read_experts(keys,
                               &(const struct hf_expert_terms){
                                   .least = 1,
                                   .count = 256,
                                   .chosen = 8,
                                   .feed_forward = DEFAULT_WIDE,
                                   .normalized = true,
                               },
                               config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

/* Fastest dimension first, the kernel is [taps, 1, channels] in transformers and [1, taps,
 * channels] in MLX. */
static void look_at_tensors(const struct tensor_table *tensors, const char *prefix,
                            struct model_config *config)
{
    uint32_t layer = 0;
    struct stored_name name;
    while (layer < config->layers && config->layer[layer].kind == LAYER_ATTENTION)
        layer++;
    snprintf(name.text, sizeof name.text, "%slayers.%u.linear_attn.conv1d.weight", prefix, layer);
    const struct checkpoint_tensor *taps = tensor_table_find(tensors, name.text);
    if (taps && taps->dimensions[0] == 1)
        config->norm_weight_offset = 0.0f;
}

static const struct hf_form hf_qwen3_5 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 12288,
                 .heads = 16,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 248320,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_own_keys,
    .naming = {hf_names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = hf_read_config,
    .look_at_tensors = look_at_tensors,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};

static const struct hf_form hf_qwen3_5_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 40,
                 .hidden = 2048,
                 .feed_forward = DEFAULT_WIDE,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocab_tokens = 248320,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_moe_own_keys,
    .naming = {hf_names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = hf_read_moe_config,
    .look_at_tensors = look_at_tensors,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* Activation tensors of a layer's second half; one set for step rows and one for logit rows. */
struct qwen3_5_tensors {
    plan_tensor_id residual; /* [rows, hidden] */
    plan_tensor_id normed;   /* [rows, hidden] */
    plan_tensor_id attended; /* [rows, heads * head_dim] */
    plan_tensor_id answered; /* [rows, value heads * value dim], normed and gated */
    plan_tensor_id gate_up;  /* [rows, 2 * feed_forward] */
    plan_tensor_id gated;    /* [rows, feed_forward] */
    /* Set if there are experts. */
    struct expert_tensors experts;
    plan_tensor_id shared; /* [rows, hidden], output of the expert that every row uses */
    plan_tensor_id score;  /* [rows, 1], score of that expert */
};

/* Activation tensors of a layer's first half, for step rows. */
struct qwen3_5_inputs {
    plan_tensor_id gated_qkv; /* heads of query | gate, keys, values */
    plan_tensor_id qkv;
    plan_tensor_id qkvz;  /* queries, keys and values of the delta net, gates */
    plan_tensor_id conv;  /* queries, keys and values after the convolution */
    plan_tensor_id rates; /* beta | alpha */
    plan_tensor_id delta; /* [rows, value heads * value dim] */
};

/* Columns of a delta net's tensors. */
struct delta_columns {
    uint32_t conv;
    uint32_t values;
};

static struct delta_columns delta_columns(const struct model_config *c)
{
    uint32_t values = c->delta.value_heads * c->delta.value_dim;
    return (struct delta_columns){2 * c->delta.key_heads * c->delta.key_dim + values, values};
}

static struct qwen3_5_tensors add_tensors(struct plan_builder *b, const struct model_config *c,
                                          enum plan_rows rows)
{
    struct qwen3_5_tensors t = {
        .residual = plan_builder_tensor(b, rows, c->hidden),
        .normed = plan_builder_tensor(b, rows, c->hidden),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .answered = plan_builder_tensor(b, rows, delta_columns(c).values),
        .gate_up = plan_builder_tensor(b, rows, 2 * c->feed_forward),
        .gated = plan_builder_tensor(b, rows, c->feed_forward),
    };
    if (c->experts.count > 0) {
        t.experts = expert_blocks_add_tensors(b, c, rows);
        t.shared = plan_builder_tensor(b, rows, c->hidden);
        t.score = plan_builder_tensor(b, rows, 1);
    }
    return t;
}

static struct qwen3_5_inputs add_inputs(struct plan_builder *b, const struct model_config *c)
{
    uint32_t qkv = plan_ops_qkv_slices(c).columns;
    struct delta_columns columns = delta_columns(c);
    return (struct qwen3_5_inputs){
        .gated_qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, qkv + c->heads * c->head_dim),
        .qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, qkv),
        .qkvz = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.conv + columns.values),
        .conv = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.conv),
        .rates = plan_builder_tensor(b, PLAN_ROWS_STEP, 2 * c->delta.value_heads),
        .delta = plan_builder_tensor(b, PLAN_ROWS_STEP, columns.values),
    };
}

static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    struct qkv_slices slices = plan_ops_qkv_slices(c);
    uint32_t q_rows = 2 * c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    plan_weight_id q = plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer);
    plan_weight_id k = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
    plan_weight_id v = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    plan_weight_id k_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_k_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){q, k, v}, in->gated_qkv);
    if (c->attention_bias)
        plan_ops_bias_add(
            b, in->gated_qkv,
            (struct linear_weights){plan_builder_vector(b, q_rows, "blk.%u.attn_q.bias", layer),
                                    plan_builder_vector(b, kv_rows, "blk.%u.attn_k.bias", layer),
                                    plan_builder_vector(b, kv_rows, "blk.%u.attn_v.bias", layer)});
    plan_ops_take_queries(b, in->gated_qkv, in->qkv);
    plan_ops_head_norm(b, in->qkv, slices.queries, q_norm);
    plan_ops_head_norm(b, in->qkv, slices.keys, k_norm);
    plan_ops_rope(b, in->qkv, slices.queries, layer);
    plan_ops_rope(b, in->qkv, slices.keys, layer);
    plan_ops_kv_write(b, in->qkv, slices, layer);
    plan_ops_attention(b, in->qkv, slices, layer, t->attended);
    plan_ops_gate_heads(b, in->gated_qkv, t->attended);
}

static void list_delta(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    const struct delta_config *d = &c->delta;
    struct delta_columns columns = delta_columns(c);
    struct column_slice gates = {columns.conv, d->value_heads, d->value_dim};
    uint32_t hidden = c->hidden, heads = d->value_heads;
    plan_weight_id qkv =
        plan_builder_matrix(b, columns.conv, hidden, "blk.%u.attn_qkv.weight", layer);
    plan_weight_id z =
        plan_builder_matrix(b, columns.values, hidden, "blk.%u.attn_gate.weight", layer);
    plan_weight_id beta = plan_builder_matrix(b, heads, hidden, "blk.%u.ssm_beta.weight", layer);
    plan_weight_id alpha = plan_builder_matrix(b, heads, hidden, "blk.%u.ssm_alpha.weight", layer);
    plan_weight_id taps =
        plan_builder_taps(b, c->conv_channels, c->conv_taps, "blk.%u.ssm_conv1d.weight", layer);
    plan_weight_id rate = plan_builder_vector(b, heads, "blk.%u.ssm_a", layer);
    plan_weight_id bias = plan_builder_vector(b, heads, "blk.%u.ssm_dt.bias", layer);
    plan_weight_id norm = plan_builder_vector(b, d->value_dim, "blk.%u.ssm_norm.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){qkv, z, PLAN_NONE}, in->qkvz);
    plan_ops_linear(b, t->normed, (struct linear_weights){beta, alpha, PLAN_NONE}, in->rates);
    plan_ops_short_conv(b, in->qkvz, taps,
                        (struct short_conv_params){.form = SHORT_CONV_SILU, .layer = layer},
                        in->conv);
    plan_ops_gated_delta(b, in->conv, in->rates, (struct linear_weights){rate, bias, PLAN_NONE},
                         layer, in->delta);
    plan_ops_head_norm_gate(b, in->delta, in->qkvz, gates, norm, t->answered);
}

/* Computes the mix from the residual, before its last projection. */
static void list_mixing(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                        const struct qwen3_5_tensors *t, const struct qwen3_5_inputs *in)
{
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].kind == LAYER_ATTENTION)
        list_attention(b, c, layer, t, in);
    else
        list_delta(b, c, layer, t, in);
}

static void list_dense(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct qwen3_5_tensors *t)
{
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);

    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear_add(b, t->gated, down, t->residual);
}

static void list_experts(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                         const struct qwen3_5_tensors *t)
{
    static const struct expert_form form = {.gate = {.activation = GATE_SILU}};
    uint32_t hidden = c->hidden, wide = c->feed_forward;
    plan_weight_id score =
        plan_builder_matrix(b, 1, hidden, "blk.%u.ffn_gate_inp_shexp.weight", layer);
    plan_weight_id gate =
        plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate_shexp.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up_shexp.weight", layer);
    plan_weight_id down =
        plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down_shexp.weight", layer);

    expert_blocks_list(b, c, &form, layer, t->normed, &t->experts, t->residual);
    plan_ops_linear(b, t->normed, (struct linear_weights){score, PLAN_NONE, PLAN_NONE}, t->score);
    plan_ops_linear(b, t->normed, (struct linear_weights){gate, up, PLAN_NONE}, t->gate_up);
    plan_ops_gate(b, t->gate_up, GATE_SILU, t->gated);
    plan_ops_linear(b, t->gated, (struct linear_weights){down, PLAN_NONE, PLAN_NONE}, t->shared);
    plan_ops_moe_shared(b, t->shared, t->score, t->residual);
}

static void list_projections(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                             const struct qwen3_5_tensors *t)
{
    bool attends = c->layer[layer].kind == LAYER_ATTENTION;
    uint32_t hidden = c->hidden;
    uint32_t mixed = attends ? c->heads * c->head_dim : delta_columns(c).values;
    plan_weight_id out =
        attends ? plan_builder_matrix(b, hidden, mixed, "blk.%u.attn_output.weight", layer)
                : plan_builder_matrix(b, hidden, mixed, "blk.%u.ssm_out.weight", layer);
    plan_weight_id norm =
        plan_builder_vector(b, hidden, "blk.%u.post_attention_norm.weight", layer);

    plan_ops_linear_add(b, attends ? t->attended : t->answered, out, t->residual);
    if (attends && c->output_bias)
        dense_blocks_list_output_bias(b, c, layer, t->residual);
    plan_ops_rms_norm(b, t->residual, norm, t->normed);
    if (c->layer[layer].experts)
        list_experts(b, c, layer, t);
    else
        list_dense(b, c, layer, t);
}

/* Marks the weights of layers that predict further tokens as used; GGUF has them. */
static void leave_ahead_layers(struct plan_builder *b, const struct model_config *c)
{
    static const char *const names[] = {
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
        "attn_q_norm",
        "attn_k_norm",
        "post_attention_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
        "ffn_gate_inp",
        "ffn_gate_exps",
        "ffn_up_exps",
        "ffn_gate_up_exps",
        "ffn_down_exps",
        "ffn_gate_inp_shexp",
        "ffn_gate_shexp",
        "ffn_up_shexp",
        "ffn_down_shexp",
        "nextn.eh_proj",
        "nextn.enorm",
        "nextn.hnorm",
        "nextn.embed_tokens",
        "nextn.shared_head_head",
        "nextn.shared_head_norm",
    };
    for (uint32_t layer = c->layers; layer < c->layers + c->ahead_layers; layer++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct stored_name name;
            snprintf(name.text, sizeof name.text, "blk.%u.%s.weight", layer, names[i]);
            plan_builder_use_in_config(b, name.text);
        }
    }
}

/* The last layer's second half and the final norm, for logit rows or, with keeps_hidden, for all. */
static void list_end(struct plan_builder *b, const struct model_config *c,
                     const struct qwen3_5_tensors *step, const struct qwen3_5_tensors *last,
                     plan_weight_id norm)
{
    uint32_t layer = c->layers - 1;
    if (c->keeps_hidden) {
        list_projections(b, c, layer, step);
        plan_ops_rms_norm(b, step->residual, norm, step->normed);
        plan_builder_hidden_out(b, step->normed);
        plan_ops_gather_rows(b, step->normed, last->normed);
        return;
    }
    plan_ops_gather_rows(b, step->residual, last->residual);
    if (c->layer[layer].kind == LAYER_ATTENTION)
        plan_ops_gather_rows(b, step->attended, last->attended);
    else
        plan_ops_gather_rows(b, step->answered, last->answered);
    list_projections(b, c, layer, last);
    plan_ops_rms_norm(b, last->residual, norm, last->normed);
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct qwen3_5_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct qwen3_5_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    struct qwen3_5_inputs inputs = add_inputs(b, c);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);

    leave_ahead_layers(b, c);
    plan_ops_embed_rows(b, embedding, step.residual);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_mixing(b, c, layer, &step, &inputs);
        list_projections(b, c, layer, &step);
    }
    list_mixing(b, c, c->layers - 1, &step, &inputs);
    list_end(b, c, &step, &last, norm);
    plan_ops_linear(b, last.normed, (struct linear_weights){output, PLAN_NONE, PLAN_NONE}, logits);
    return logits;
}

/*
 * The layer that predicts a further token (ahead_blocks.h): an attention layer, after which its own state is
 * normed.
 *
 * Source: vLLM, models/qwen3_5_mtp.py; mlx-vlm, speculative/drafters/qwen3_5_mtp; llama.cpp,
 * conversion/qwen.py.
 */
static const struct tensor_name ahead_hf_names[] = {
    {"token_embd.weight", "model.language_model.embed_tokens.weight"},
    {"token_embd.weight", "language_model.model.embed_tokens.weight"},
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"nextn.eh_proj.weight", "^fc.weight"},
    {"nextn.enorm.weight", "^pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "^pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "^norm.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate_inp_shexp.weight", "^layers.*.mlp.shared_expert_gate.weight"},
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_expert.gate_proj.weight"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_expert.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_expert.down_proj.weight"},
    {NULL, NULL},
};
static const char *const ahead_prefixes[] = {"mtp.", "language_model.mtp.", "model.mtp.", NULL};

static plan_tensor_id list_ahead_ops(struct plan_builder *b, const struct model_config *c)
{
    struct qwen3_5_tensors step = add_tensors(b, c, PLAN_ROWS_STEP);
    struct qwen3_5_tensors last = add_tensors(b, c, PLAN_ROWS_LOGITS);
    struct qwen3_5_inputs inputs = add_inputs(b, c);
    ahead_blocks_list_input(b, c, step.normed, step.residual);
    list_mixing(b, c, 0, &step, &inputs);
    plan_ops_gather_rows(b, step.residual, last.residual);
    plan_ops_gather_rows(b, step.attended, last.attended);
    list_projections(b, c, 0, &last);
    return ahead_blocks_list_end(b, c, true, last.residual, last.normed);
}

static const struct ahead_form ahead = {
    .hf = {ahead_hf_names, checkpoint_hf_usual_names, ahead_prefixes, NULL},
    .list_ops = list_ahead_ops,
};

const struct model_family family_qwen3_5 = {
    .architecture = "qwen35",
    .gguf = &gguf_qwen3_5,
    .hf = &hf_qwen3_5,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
    .ahead = &ahead,
};

const struct model_family family_qwen3_5_moe = {
    .architecture = "qwen35moe",
    .gguf = &gguf_qwen3_5_moe,
    .hf = &hf_qwen3_5_moe,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
    .ahead = &ahead,
};
