/*
 * The forward pass of Gemma 3n (text).
 *
 *   h[0] = embedding * sqrt(hidden), h[j] = Wj . h[0] at the magnitude of h[0]      (streams)
 *   each layer l:  h  += mix of h by Wm . route(h[0])                               (predict)
 *                  n   = norm(h[0])
 *                  a   = (h[0] + norm(Wo . attention(..n..)) + n + norm(Wr . Wl . n)) / sqrt(2)
 *                  a  += norm(Wdown . (gelu(cut(Wgate . norm(a))) * Wup . norm(a)))
 *                  h[j] += (1 + (Wc . route(a))[j]) * (a - h[0])                    (correct)
 *                  h[j] += norm(Wproj . (gelu(Winp . (scale * h[0])) * p[l]))       for j > 0
 *   logits = cap(Woutput . norm(mean over j of h[0], Uj . h[j] at the magnitude of h[0]))
 *
 * route(x) = tanh(Wroute . norm(x) / hidden). Attention and the per-layer inputs p are those of
 * gemma4. The mean is computed as a sum: the norm after it removes the factor, with an adjusted
 * epsilon.
 *
 * As in llama, only logit rows are computed after the last layer's attention.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/build/family_tensors.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/plan_ops.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_conformer.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

enum { GLOBAL_ROPE, LOCAL_ROPE };

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the gemma3n architecture (text), beyond the sizes that all families have.
 *
 * A list tells sliding layers from global ones, and the last layers share keys. The first layers
 * zero the gates below a threshold, stated in standard deviations (minus infinity: no threshold).
 * The rank of the low-rank residual follows from the shapes of its matrices.
 *
 * Source: llama.cpp's converter; Hugging Face transformers, modeling_gemma3n.py.
 */
#define GGUF_GLOBAL_ROPE_BASE 1000000.0f
#define GGUF_LOCAL_ROPE_BASE  10000.0f
#define MOST_DEVIATIONS       100.0

static const char *const gguf_own_keys[] = {"final_logit_softcapping", NULL};

static void gguf_read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE], *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = local->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GGUF_GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        GGUF_LOCAL_ROPE_BASE);
    local->dims = global->dims;
    if (keys->result == RESULT_OK)
        checkpoint_plain_rope(local, base, 1.0f);
}

static void gguf_read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t sliding[LIMIT_LAYERS];
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t shared = checkpoint_keys_u32_or(keys, "attention.shared_kv_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    if (!checkpoint_keys_u32_each(keys, "attention.sliding_window_pattern",
                                  (struct u32_range){0, 1}, config->layers, sliding)) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma3n.attention.sliding_window_pattern is missing");
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].rope = sliding[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        config->layer[layer].window = sliding[layer] ? window : 0;
    }
    checkpoint_share_caches(keys, config, shared);
}

static void gguf_read_cuts(struct checkpoint_keys *keys, struct model_config *config)
{
    static const char name[] = "gemma3n.activation_sparsity_scale";
    struct gguf_array scales;
    if (keys->result != RESULT_OK || gguf_file_array(keys->file, name, &scales) != RESULT_OK)
        return;
    if (scales.type != GGUF_FLOAT32 || scales.count != config->layers) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s has not one float a layer", name);
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        double deviations = gguf_array_f64(&scales, layer);
        if (isinf(deviations) && deviations < 0.0)
            continue;
        if (!(fabs(deviations) <= MOST_DEVIATIONS))
            checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s: element %u is %g", name, layer,
                                   deviations);
        config->layer[layer].cuts = true;
        config->layer[layer].cut_deviations = (float)deviations;
    }
}

static void read_laurel(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct gguf_tensor *left = gguf_file_find_tensor(keys->file, "blk.0.laurel_l.weight");
    uint64_t rank = left ? left->dimensions[1] : 0;
    if (rank == 0 || rank > LIMIT_HIDDEN)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "tensor blk.0.laurel_l.weight: rank %llu, not within 1 to %u",
                               (unsigned long long)rank, LIMIT_HIDDEN);
    config->laurel_rank = (uint32_t)rank;
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    config->streams = checkpoint_keys_u32(keys, "altup.num_inputs", (struct u32_range){2, 4});
    config->active_stream = checkpoint_keys_u32_or(keys, "altup.active_idx",
                                                   (struct u32_range){0, config->streams - 1}, 0);
    config->scale_corrected = true;
    checkpoint_gguf_read_per_layer(keys, config);
    if (keys->result == RESULT_OK && config->per_layer_columns == 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma3n.embedding_length_per_layer_input is missing or 0");
    read_laurel(keys, config);
    gguf_read_ropes(keys, config);
    if (keys->result == RESULT_OK)
        gguf_read_layers(keys, config);
    gguf_read_cuts(keys, config);
}

static const struct gguf_form gguf_gemma3n = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Gemma 3n, text only or the text part of a multimodal model.
 *
 * activation_sparsity_pattern states for each layer which share of its gates is zeroed. Gates are
 * taken to be normally distributed, so a share becomes a threshold in standard deviations.
 * altup_coef_clip is used in training only. Norm weights are stored whole. The active stream must
 * be the first.
 *
 * Source: transformers, configuration_gemma3n.py and modeling_gemma3n.py.
 */
#define HF_GLOBAL_ROPE_BASE 1000000.0f
#define HF_LOCAL_ROPE_BASE  10000.0f
#define DEFAULT_PERIOD      5u
#define DEFAULT_WINDOW      512u
#define DEFAULT_SHARED      15u
#define DEFAULT_PER_LAYER   256u
#define DEFAULT_TABLE       262144u
#define DEFAULT_RANK        64u
#define DEFAULT_CUTS        10u   /* layers, in models with more layers than that */
#define DEFAULT_CUT         0.95f /* share of their gates */
#define DEFAULT_SOFT_CAP    30.0f
#define BISECTIONS          80u

static const char *const model_types[] = {"gemma3n_text", "gemma3n", NULL};
static const char *const tying_wholes[] = {"gemma3n", NULL};
static const char *const hf_own_keys[] = {"final_logit_softcapping", NULL};

static const struct tensor_name names[] = {
    {"per_layer_token_embd.weight", "^embed_tokens_per_layer.weight"},
    {"hard.vision.embedding.weight", "model.embed_vision.embedding.weight"},
    {"hard.vision.norm.weight", "model.embed_vision.hard_embedding_norm.weight"},
    {"hard.vision.projection.weight", "model.embed_vision.embedding_projection.weight"},
    {"hard.audio.embedding.weight", "model.embed_audio.embedding.weight"},
    {"hard.audio.norm.weight", "model.embed_audio.hard_embedding_norm.weight"},
    {"hard.audio.projection.weight", "model.embed_audio.embedding_projection.weight"},
    {"per_layer_model_proj.weight", "^per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "^per_layer_projection_norm.weight"},
    {"altup_proj.*.weight", "^altup_projections.*.weight"},
    {"altup_unembd_proj.*.weight", "^altup_unembed_projections.*.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {"blk.*.inp_gate.weight", "^layers.*.per_layer_input_gate.weight"},
    {"blk.*.proj.weight", "^layers.*.per_layer_projection.weight"},
    {"blk.*.post_norm.weight", "^layers.*.post_per_layer_input_norm.weight"},
    {"blk.*.altup_correct_coef.weight", "^layers.*.altup.correction_coefs.weight"},
    {"blk.*.altup_correct_scale.weight", "^layers.*.altup.correct_output_scale"},
    {"blk.*.altup_predict_coef.weight", "^layers.*.altup.prediction_coefs.weight"},
    {"blk.*.altup_router.weight", "^layers.*.altup.modality_router.weight"},
    {"blk.*.altup_router_norm.weight", "^layers.*.altup.router_norm.weight"},
    {"blk.*.laurel_l.weight", "^layers.*.laurel.linear_left.weight"},
    {"blk.*.laurel_r.weight", "^layers.*.laurel.linear_right.weight"},
    {"blk.*.laurel_post_norm.weight", "^layers.*.laurel.post_laurel_norm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {
    "vision_tower.",       "audio_tower.",        "embed_vision.",
    "embed_audio.",        "model.vision_tower.", "model.audio_tower.",
    "model.embed_vision.", "model.embed_audio.",  NULL};

static void hf_read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range range = {1.0f, 1e12f};
    float global_base = checkpoint_keys_f32_or(keys, "rope_theta", range, HF_GLOBAL_ROPE_BASE);
    float local_base =
        checkpoint_keys_f32_or(keys, "rope_local_base_freq", range, HF_LOCAL_ROPE_BASE);
    struct checkpoint_keys parameters = checkpoint_keys_enter(keys, "rope_parameters");
    checkpoint_keys_leave(keys, &parameters);
    bool stated = json_value_type(parameters.object) != JSON_ABSENT;
    struct checkpoint_keys global = stated ? checkpoint_keys_enter(&parameters, "full_attention")
                                           : checkpoint_keys_enter(keys, "rope_scaling");
    struct checkpoint_keys local = checkpoint_keys_enter(&parameters, "sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope(&global, config, global_base, &config->ropes[GLOBAL_ROPE]);
    checkpoint_keys_leave(keys, &global);
    checkpoint_hf_read_rope(&local, config, local_base, &config->ropes[LOCAL_ROPE]);
    checkpoint_keys_leave(keys, &local);
}

static void hf_read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t shared = checkpoint_keys_u32_or(keys, "num_kv_shared_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, DEFAULT_SHARED);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        slides[layer] = (layer + 1) % DEFAULT_PERIOD != 0;
    (void)checkpoint_hf_layer_slides(keys, config, slides);
    if (keys->result != RESULT_OK)
        return;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].rope = slides[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        config->layer[layer].window = slides[layer] ? window : 0;
    }
    checkpoint_share_caches(keys, config, shared);
}

/* The distance from the mean of a normal distribution, in standard deviations, below which a share
 * `part` of it lies. */
static float deviations_of(float part)
{
    double low = -40.0, high = 40.0;
    for (uint32_t i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2.0;
        if (0.5 * erfc(-middle / sqrt(2.0)) < (double)part)
            low = middle;
        else
            high = middle;
    }
    return (float)high;
}

static void set_cut(struct checkpoint_keys *keys, struct model_config *config, uint32_t layer,
                    float part)
{
    if (!(part >= 0.0f && part < 1.0f))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "activation_sparsity_pattern: element %u is %g, not below 1", layer,
                               (double)part);
    else if (layer < config->layers && part > 0.0f) {
        config->layer[layer].cuts = true;
        config->layer[layer].cut_deviations = deviations_of(part);
    }
}

static void hf_read_cuts(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value list = json_value_member(keys->object, "activation_sparsity_pattern"), part;
    uint32_t count = 0;
    if (keys->result != RESULT_OK)
        return;
    if (json_value_type(list) == JSON_ABSENT) {
        for (; config->layers > DEFAULT_CUTS && count < DEFAULT_CUTS; count++)
            set_cut(keys, config, count, DEFAULT_CUT);
        return;
    }
    if (json_value_type(list) != JSON_ARRAY)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key activation_sparsity_pattern is not an array");
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &part); count++) {
        float value = -1.0f;
        (void)json_value_f32(part, &value); /* a value that is not a number stays out of range */
        set_cut(keys, config, count, value);
    }
    if (count != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "activation_sparsity_pattern has %u elements for %u layers", count,
                               config->layers);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(
        keys, "final_logit_softcapping", (struct f32_range){0.0f, 1e6f}, DEFAULT_SOFT_CAP);
    config->streams = checkpoint_keys_u32_or(keys, "altup_num_inputs", (struct u32_range){2, 4}, 4);
    config->active_stream = checkpoint_keys_u32_or(keys, "altup_active_idx",
                                                   (struct u32_range){0, config->streams - 1}, 0);
    config->scale_corrected = checkpoint_keys_bool_or(keys, "altup_correct_scale", true);
    config->laurel_rank = checkpoint_keys_u32_or(keys, "laurel_rank",
                                                 (struct u32_range){1, LIMIT_HIDDEN}, DEFAULT_RANK);
    checkpoint_hf_read_per_layer(keys, 1, DEFAULT_PER_LAYER, DEFAULT_TABLE, config);
    hf_read_ropes(keys, config);
    hf_read_layers(keys, config);
    hf_read_cuts(keys, config);
}

/* The tokens of images and sounds, of which all checkpoints of the whole class have tensors. */
static void read_whole(struct checkpoint_keys *root, struct model_config *config)
{
    static const struct {
        const char *part;
        struct modality_tokens absent;
    } rows[MODALITIES] = {{"vision_config", {262144, 128, 2048, 1e-6f}},
                          {"audio_config", {262272, 128, 1536, 1e-6f}}};
    for (uint32_t i = 0; i < MODALITIES; i++) {
        struct checkpoint_keys keys = checkpoint_keys_enter(root, rows[i].part);
        checkpoint_hf_modality_tokens(&keys, &rows[i].absent, &config->modality_tokens[i]);
        checkpoint_keys_leave(root, &keys);
    }
}

static const struct hf_form hf_gemma3n = {
    .model_types = model_types,
    .defaults = {.layers = 35,
                 .hidden = 2048,
                 .feed_forward = 16384,
                 .heads = 8,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocab_tokens = 262400,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = hf_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .tying_wholes = tying_wholes,
    .read_config = hf_read_config,
    .read_whole = read_whole,
    .vision = &checkpoint_hf_gemma3n_sound,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* Activation tensors of the layers; one set for step rows and one for logit rows. */
struct gemma3n_rows {
    enum plan_rows rows;
    plan_tensor_id streams;      /* [rows, streams * hidden] */
    plan_tensor_id predicted;    /* the same; the next layer's streams */
    plan_tensor_id active;       /* [rows, hidden] */
    plan_tensor_id inner;        /* [rows, hidden] */
    plan_tensor_id other;        /* [rows, hidden] */
    plan_tensor_id low;          /* [rows, laurel_rank] */
    plan_tensor_id routed;       /* [rows, streams] */
    plan_tensor_id coefficients; /* [rows, streams * streams] */
    plan_tensor_id corrections;  /* [rows, streams] */
    plan_tensor_id attended;     /* [rows, heads * head_dim] */
    plan_tensor_id narrow;       /* [rows, per_layer_columns] */
    plan_tensor_id per_layer;    /* [rows, layers * per_layer_columns] */
};

static struct gemma3n_rows add_rows(struct plan_builder *b, const struct model_config *c,
                                    enum plan_rows rows)
{
    uint32_t n = c->streams;
    return (struct gemma3n_rows){
        .rows = rows,
        .streams = plan_builder_tensor(b, rows, n * c->hidden),
        .predicted = plan_builder_tensor(b, rows, n * c->hidden),
        .active = plan_builder_tensor(b, rows, c->hidden),
        .inner = plan_builder_tensor(b, rows, c->hidden),
        .other = plan_builder_tensor(b, rows, c->hidden),
        .low = plan_builder_tensor(b, rows, c->laurel_rank),
        .routed = plan_builder_tensor(b, rows, n),
        .coefficients = plan_builder_tensor(b, rows, n * n),
        .corrections = plan_builder_tensor(b, rows, n),
        .attended = plan_builder_tensor(b, rows, c->heads * c->head_dim),
        .narrow = plan_builder_tensor(b, rows, c->per_layer_columns),
        .per_layer = plan_builder_tensor(b, rows, c->layers * c->per_layer_columns),
    };
}

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* Matrix `stream` of the first or the last projections: a stack in GGUF, separate tensors in
 * folders. */
static plan_weight_id stream_matrix(struct plan_builder *b, const struct model_config *c,
                                    bool unembed, uint32_t stream)
{
    const char *stack = unembed ? "altup_unembd_proj.weight" : "altup_proj.weight";
    if (plan_builder_has(b, "%s", stack))
        return plan_builder_part(b, c->streams - 1, stream - 1, c->hidden, c->hidden, stack);
    return unembed
               ? plan_builder_matrix(b, c->hidden, c->hidden, "altup_unembd_proj.%u.weight",
                                     stream - 1)
               : plan_builder_matrix(b, c->hidden, c->hidden, "altup_proj.%u.weight", stream - 1);
}

/* Fills the streams; the embedding is in r->active. */
static void list_streams(struct plan_builder *b, const struct model_config *c,
                         const struct gemma3n_rows *r)
{
    plan_ops_stream_match(b, r->active, r->active, (struct stream_match_params){0, 0, false},
                          r->streams);
    for (uint32_t stream = 1; stream < c->streams; stream++) {
        plan_ops_linear(b, r->active, one(stream_matrix(b, c, false, stream)), r->inner);
        plan_ops_stream_match(b, r->inner, r->active,
                              (struct stream_match_params){0, stream, false}, r->streams);
    }
}

static void list_route(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                       const struct gemma3n_rows *r)
{
    plan_weight_id norm =
        plan_builder_vector(b, c->hidden, "blk.%u.altup_router_norm.weight", layer);
    plan_weight_id route =
        plan_builder_matrix(b, c->streams, c->hidden, "blk.%u.altup_router.weight", layer);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, one(route), r->routed);
    plan_ops_tanh(b, r->routed, 1.0f / (float)c->hidden);
}

/* Leaves the active stream in r->active and its norm in r->inner. */
static void list_attention(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           struct family_tensors *pool, const struct gemma3n_rows *r)
{
    const struct qkv_slices slices = plan_ops_layer_slices(c, layer);
    uint32_t n = c->streams, q_rows = c->heads * c->head_dim, kv_rows = c->kv_heads * c->head_dim;
    bool stores = c->layer[layer].cache_back == 0;
    plan_tensor_id qkv = family_tensors_get(pool, b, FAMILY_QKV, r->rows, slices.columns);
    plan_weight_id predict =
        plan_builder_matrix(b, n * n, n, "blk.%u.altup_predict_coef.weight", layer);
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "blk.%u.attn_norm.weight", layer);
    plan_weight_id q_norm = plan_builder_vector(b, c->head_dim, "blk.%u.attn_q_norm.weight", layer);
    struct linear_weights weights =
        one(plan_builder_matrix(b, q_rows, c->hidden, "blk.%u.attn_q.weight", layer));
    if (stores) {
        weights.second = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_k.weight", layer);
        weights.third = plan_builder_matrix(b, kv_rows, c->hidden, "blk.%u.attn_v.weight", layer);
    }
    plan_ops_stream_take(b, r->streams, c->active_stream, r->active);
    list_route(b, c, layer, r);
    plan_ops_linear(b, r->routed, one(predict), r->coefficients);
    plan_ops_stream_mix(b, r->streams, r->coefficients, n, r->predicted);
    plan_ops_stream_take(b, r->predicted, c->active_stream, r->active);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, weights, qkv);
    plan_ops_head_norm(b, qkv, slices.queries, q_norm);
    if (stores) {
        gemma_blocks_keys(b, layer, slices, qkv);
    } else {
        gemma_blocks_pass_over_keys(b, layer);
        plan_ops_rope(b, qkv, slices.queries, layer);
    }
    plan_ops_attention(b, qkv, slices, layer, r->attended);
}

/* Sums the attention output, the low-rank residual and the active stream into r->active. */
static void list_join(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, rank = c->laurel_rank;
    plan_weight_id o =
        plan_builder_matrix(b, hidden, c->heads * c->head_dim, "blk.%u.attn_output.weight", layer);
    plan_weight_id o_norm =
        plan_builder_vector(b, hidden, "blk.%u.post_attention_norm.weight", layer);
    plan_weight_id left = plan_builder_matrix(b, rank, hidden, "blk.%u.laurel_l.weight", layer);
    plan_weight_id right = plan_builder_matrix(b, hidden, rank, "blk.%u.laurel_r.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.laurel_post_norm.weight", layer);
    plan_ops_linear(b, r->inner, one(left), r->low);
    plan_ops_linear(b, r->low, one(right), r->other);
    plan_ops_rms_norm_add(b, r->other, post, r->inner);
    plan_ops_linear(b, r->attended, one(o), r->other);
    plan_ops_rms_norm_add(b, r->other, o_norm, r->active);
    plan_ops_add_rows(b, r->active, r->inner, sqrtf(0.5f), r->active);
}

static void list_feed_forward(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              struct family_tensors *pool, const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, wide = model_config_feed_forward(c, layer);
    plan_tensor_id gate_up = family_tensors_get(pool, b, FAMILY_GATE_UP, r->rows, 2 * wide);
    plan_tensor_id gated = family_tensors_get(pool, b, FAMILY_GATED, r->rows, wide);
    plan_weight_id norm = plan_builder_vector(b, hidden, "blk.%u.ffn_norm.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_gate.weight", layer);
    plan_weight_id up = plan_builder_matrix(b, wide, hidden, "blk.%u.ffn_up.weight", layer);
    plan_weight_id down = plan_builder_matrix(b, hidden, wide, "blk.%u.ffn_down.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_ffw_norm.weight", layer);
    plan_ops_rms_norm(b, r->active, norm, r->inner);
    plan_ops_linear(b, r->inner, (struct linear_weights){gate, up, PLAN_NONE}, gate_up);
    if (c->layer[layer].cuts)
        plan_ops_stream_cut(b, gate_up, 2, c->layer[layer].cut_deviations);
    plan_ops_gate(b, gate_up, GATE_GELU_TANH, gated);
    plan_ops_linear(b, gated, one(down), r->inner);
    plan_ops_rms_norm_add(b, r->inner, post, r->active);
}

static void list_per_layer(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                           const struct gemma3n_rows *r)
{
    uint32_t hidden = c->hidden, columns = c->per_layer_columns;
    plan_weight_id scale =
        plan_builder_vector(b, hidden, "blk.%u.altup_correct_scale.weight", layer);
    plan_weight_id gate = plan_builder_matrix(b, columns, hidden, "blk.%u.inp_gate.weight", layer);
    plan_weight_id back = plan_builder_matrix(b, hidden, columns, "blk.%u.proj.weight", layer);
    plan_weight_id post = plan_builder_vector(b, hidden, "blk.%u.post_norm.weight", layer);
    plan_ops_stream_take(b, r->predicted, c->active_stream, r->inner);
    if (c->scale_corrected)
        plan_ops_scale_columns(b, r->inner, scale);
    plan_ops_linear(b, r->inner, one(gate), r->narrow);
    plan_ops_gate_with(b, r->narrow, r->per_layer, layer * columns, GATE_GELU_TANH, r->narrow);
    plan_ops_linear(b, r->narrow, one(back), r->other);
    plan_ops_rms_norm(b, r->other, post, r->inner);
    plan_ops_stream_add(b, r->inner, 1, r->predicted);
}

/* Lists the rest of the layer after attention; the next layer's streams are r->streams. */
static void list_rest(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                      struct family_tensors *pool, struct gemma3n_rows *r)
{
    plan_weight_id correct =
        plan_builder_matrix(b, c->streams, c->streams, "blk.%u.altup_correct_coef.weight", layer);
    list_join(b, c, layer, r);
    list_feed_forward(b, c, layer, pool, r);
    list_route(b, c, layer, r);
    plan_ops_linear(b, r->routed, one(correct), r->corrections);
    plan_ops_stream_correct(b, r->active, r->corrections,
                            (struct stream_correct_params){c->streams, c->active_stream},
                            r->predicted);
    list_per_layer(b, c, layer, r);
    plan_tensor_id done = r->predicted;
    r->predicted = r->streams;
    r->streams = done;
}

/* Sums the streams into r->other. */
static void list_merge(struct plan_builder *b, const struct model_config *c,
                       const struct gemma3n_rows *r)
{
    plan_ops_stream_take(b, r->streams, 0, r->active);
    plan_ops_stream_match(b, r->active, r->active, (struct stream_match_params){0, 0, false},
                          r->other);
    plan_tensor_id projected = plan_builder_tensor(b, r->rows, c->hidden);
    for (uint32_t stream = 1; stream < c->streams; stream++) {
        plan_ops_stream_take(b, r->streams, stream, r->inner);
        plan_ops_linear(b, r->inner, one(stream_matrix(b, c, true, stream)), projected);
        plan_ops_stream_match(b, projected, r->active, (struct stream_match_params){0, 0, true},
                              r->other);
    }
}

/* Tokens of images and sounds have tables of their own, if the checkpoint has them as floats. */
static void list_modality_tokens(struct plan_builder *b, const struct model_config *c,
                                 plan_tensor_id x)
{
    static const char *const stems[MODALITIES] = {"vision", "audio"};
    for (uint32_t i = 0; i < MODALITIES; i++) {
        const struct modality_tokens *tokens = &c->modality_tokens[i];
        char table[48], matrix[48];
        (void)snprintf(table, sizeof table, "hard.%s.embedding.weight", stems[i]);
        (void)snprintf(matrix, sizeof matrix, "hard.%s.projection.weight", stems[i]);
        if (tokens->rows == 0 || !plan_builder_has_floats(b, table) ||
            !plan_builder_has_floats(b, matrix))
            continue;
        const struct modality_rows rows = {stems[i], *tokens, 0, tokens->rows, c->hidden};
        plan_ops_embed_over(b, gemma_blocks_modality_rows(b, &rows), tokens->first, x);
    }
}

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    struct family_tensors pool = {0};
    struct gemma3n_rows step = add_rows(b, c, PLAN_ROWS_STEP);
    struct gemma3n_rows last = add_rows(b, c, PLAN_ROWS_LOGITS);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, c->vocab_tokens);
    plan_weight_id embedding =
        plan_builder_matrix(b, c->vocab_tokens, c->hidden, "token_embd.weight");
    plan_weight_id norm = plan_builder_vector(b, c->hidden, "output_norm.weight");
    plan_weight_id output = plan_builder_output_matrix(b, c, embedding);

    plan_ops_embed_rows(b, embedding, step.active);
    list_modality_tokens(b, c, step.active);
    gemma_blocks_per_layer_inputs(b, c, step.active, step.per_layer);
    list_streams(b, c, &step);
    for (uint32_t layer = 0; layer + 1 < c->layers; layer++) {
        list_attention(b, c, layer, &pool, &step);
        list_rest(b, c, layer, &pool, &step);
    }
    list_attention(b, c, c->layers - 1, &pool, &step);
    plan_ops_gather_rows(b, step.predicted, last.predicted);
    plan_ops_gather_rows(b, step.active, last.active);
    plan_ops_gather_rows(b, step.inner, last.inner);
    plan_ops_gather_rows(b, step.attended, last.attended);
    plan_ops_gather_rows(b, step.per_layer, last.per_layer);
    list_rest(b, c, c->layers - 1, &pool, &last);
    list_merge(b, c, &last);

    plan_ops_rms_norm_scaled(b, last.other, norm, 1.0f / (float)c->streams, last.inner);
    plan_ops_linear(b, last.inner, one(output), logits);
    plan_ops_soft_cap(b, logits);
    return logits;
}

const struct model_family family_gemma3n = {
    .architecture = "gemma3n",
    .gguf = &gguf_gemma3n,
    .hf = &hf_gemma3n,
    .list_ops = list_ops,
    .list_vision_ops = tower_gemma3n_sound_list_ops,
};
