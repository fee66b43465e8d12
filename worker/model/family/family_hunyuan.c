/*
 * Hunyuan 1, dense and with experts: the decoder of llama with norms of heads after the rotation. Every row
 * uses an expert beside those that are chosen by the softmax of their scores. HunyuanOCR (hunyuan_vl) has the dense
 * text, of which the two columns of a rotated pair have axes of their own, and a tower.
 */
#include <math.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define ROPE_BASE    10000.0f
#define SECTIONS_MAX 4u

/* Sets the rope of whole heads whose base is alpha^(d / (d - 2)) times `base`. */
static void stretch_rope(struct checkpoint_keys *keys, float base, float alpha,
                         struct model_config *config)
{
    uint32_t dims = config->head_dim;
    if (dims % 2 != 0 || dims < 4)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "heads of %u columns cannot rotate", dims);
    if (keys->result != RESULT_OK)
        return;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    config->ropes[0].dims = dims;
    double factor = pow((double)alpha, (double)dims / (dims - 2));
    checkpoint_plain_rope(&config->ropes[0], (float)((double)base * factor), 1.0f);
}

/*
 * Gives every column of a head an axis: twice as many columns as a section's count, section after section. The last
 * three axes are width, height and the number of the image (rope_config.axis has them as positions), and
 * one before them is the row's own position.
 */
static void divide_rope(struct checkpoint_keys *keys, const uint32_t *sections, uint32_t count,
                        struct rope_config *rope)
{
    static const enum rope_axis axes[] = {ROPE_ROW, ROPE_WIDTH, ROPE_HEIGHT, ROPE_TIME};
    uint32_t pairs = rope->dims / 2, column = 0, sum = 0;
    if (keys->result != RESULT_OK)
        return;
    for (uint32_t i = 0; i < count; i++)
        sum += sections[i] <= pairs ? sections[i] : pairs + 1;
    if ((count != SECTIONS_MAX && count != SECTIONS_MAX - 1) || sum != pairs) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "sections of the rope are no three or four counts that share %u "
                               "pairs",
                               pairs);
        return;
    }
    rope->divided = true;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t end = column + 2 * sections[i]; column < end; column++) {
            uint8_t axis = (uint8_t)axes[SECTIONS_MAX - count + i];
            if (column < pairs)
                rope->axis[column] = axis;
            else
                rope->second_axis[column - pairs] = axis;
        }
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of hunyuan-dense and hunyuan-moe: the converter has put alpha into the base of the rotation.
 *
 * Source: llama.cpp, conversion/hunyuan.py and src/models/hunyuan-moe.cpp.
 */
static const char *const gguf_moe_own_keys[] = {GGUF_EXPERT_KEYS, NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static void gguf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_config(keys, config);
    checkpoint_gguf_read_experts(keys, &(const struct gguf_expert_terms){.normalized = true},
                                 config);
}

static const struct gguf_form gguf_hunyuan = {
    .read_config = gguf_read_config,
};

static const struct gguf_form gguf_hunyuan_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe,
};

/*
 * GGUF metadata of hunyuan_vl, which states alpha, and as many sections as config.json.
 *
 * Source: llama.cpp, conversion/hunyuan.py and src/models/hunyuan-vl.cpp.
 */
static void gguf_read_vl(struct checkpoint_keys *keys, struct model_config *config)
{
    struct gguf_array stated;
    uint32_t sections[SECTIONS_MAX], count = SECTIONS_MAX;
    float base =
        checkpoint_keys_f32_or(keys, "rope.freq_base", (struct f32_range){1.0f, 1e12f}, ROPE_BASE);
    float alpha =
        checkpoint_keys_f32_or(keys, "rope.scaling.alpha", (struct f32_range){1.0f, 1e6f}, 0.0f);
    gguf_read_config(keys, config);
    if (alpha > 0.0f)
        stretch_rope(keys, base, alpha, config);
    if (gguf_file_array(keys->file, "hunyuan_vl.rope.dimension_sections", &stated) == RESULT_OK &&
        stated.count < SECTIONS_MAX)
        count = (uint32_t)stated.count;
    for (uint32_t i = 0; i < count; i++)
        sections[i] = checkpoint_keys_u32_at(keys, "rope.dimension_sections", i,
                                             (struct u32_range){0, ROPE_DIMS_MAX / 2});
    divide_rope(keys, sections, count, &config->ropes[0]);
}

static const struct gguf_form gguf_hunyuan_vl = {
    .read_config = gguf_read_vl,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * The kind "dynamic" with alpha means a base of alpha^(d / (d - 2)) times the stated one, whatever the context.
 * Counts may be lists with an element for each layer, which must be equal.
 *
 * Source: transformers, modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py with their configuration
 * files; for keys that these ignore, the modeling_hunyuan.py that tencent publishes.
 */
static const char *const model_types[] = {"hunyuan_v1_dense", NULL};
static const char *const moe_model_types[] = {"hunyuan_v1_moe", NULL};
static const char *const own_keys[] = {"attention_bias", "num_experts", NULL};
static const char *const moe_own_keys[] = {"attention_bias", "num_experts", "num_local_experts",
                                           NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.query_layernorm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.key_layernorm.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.gate.wg.weight"},
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_mlp.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_mlp.down_proj.weight"},
    {NULL, NULL},
};

/* A number, or a list of equal ones. */
static uint32_t read_count(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                           const struct model_config *config, uint32_t absent)
{
    uint32_t each[LIMIT_LAYERS];
    if (!checkpoint_keys_u32_each(keys, name, range, config->layers, each))
        return absent;
    for (uint32_t layer = 1; layer < config->layers; layer++)
        if (each[layer] != each[0])
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s differs between layers", name);
    return each[0];
}

/* Whether the rotary embedding is of the kind with alpha; if so, sets it. */
static bool read_alpha(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range bases = {1.0f, 1e12f};
    struct checkpoint_keys scaling = checkpoint_keys_enter(keys, "rope_parameters");
    if (json_value_type(scaling.object) == JSON_ABSENT && scaling.result == RESULT_OK)
        scaling = checkpoint_keys_enter(keys, "rope_scaling");
    struct gguf_string type = checkpoint_keys_string_or_empty(&scaling, "rope_type");
    if (type.length == 0)
        type = checkpoint_keys_string_or_empty(&scaling, "type");
    float alpha = checkpoint_keys_f32_or(&scaling, "alpha", (struct f32_range){1.0f, 1e6f}, 0.0f);
    float base = checkpoint_keys_f32_or(keys, "rope_theta", bases, ROPE_BASE);
    base = checkpoint_keys_f32_or(&scaling, "rope_theta", bases, base);
    bool stretched =
        alpha > 0.0f && (checkpoint_keys_is(type, "dynamic") || checkpoint_keys_is(type, "xdrope"));
    checkpoint_keys_leave(keys, &scaling);
    if (stretched)
        stretch_rope(keys, base, alpha, config);
    return stretched;
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 1);
    checkpoint_keys_expect_neutral(keys, "use_cla", 0);
    checkpoint_hf_read_biases(keys, config);
    if (!read_alpha(keys, config))
        checkpoint_hf_read_only_rope(keys, config,
                                     &(const struct hf_rope_terms){.base = ROPE_BASE});
}

/* Configs of small models state one expert, and mean none. */
static void hf_read_dense(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "num_experts", 1);
    hf_read_config(keys, config);
}

static void hf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD}, counts = {1, LIMIT_EXPERTS};
    struct u32_range chosen = {1, LIMIT_EXPERTS_CHOSEN};
    hf_read_config(keys, config);
    config->experts = (struct expert_config){
        .count = read_count(keys, "num_experts", counts, config, 1),
        .chosen = read_count(keys, "moe_topk", chosen, config, 1),
        .feed_forward =
            read_count(keys, "moe_intermediate_size", wide, config, config->feed_forward),
        .weighed = true,
        .normalized = true,
    };
    uint64_t shared =
        (uint64_t)config->feed_forward * read_count(keys, "num_shared_expert", counts, config, 1);
    if (shared > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "shared experts of %llu columns",
                               (unsigned long long)shared);
    config->experts.shared = (uint32_t)shared;
    checkpoint_settle_experts(keys, config);
    checkpoint_hf_use_experts(config, 0);
}

static const struct hf_form hf_hunyuan = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 290943,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_dense,
};

static const struct hf_form hf_hunyuan_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 290943,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_moe,
};

/*
 * hunyuan_vl: published folders have the text's keys beside vision_config and names of their own in the tower;
 * transformers has others. Both are read.
 *
 * Source: transformers, configuration_hunyuan_vl.py, modeling_hunyuan_vl.py, conversion_mapping.py.
 */
#define VL_IMAGE 2048u
#define VL_WIDE  4304u

static const char *const vl_types[] = {"hunyuan_vl", "hunyuan_vl_text", NULL};
static const char *const vl_wholes[] = {"hunyuan_vl", NULL};
static const char *const vl_own_keys[] = {"attention_bias", "num_experts", NULL};
static const char *const vl_texts[] = {"model.language_model.", "model.", NULL};
static const char *const vl_parts[] = {"vit.", "model.vit.", "model.vision_tower.", NULL};

static const struct tensor_name vl_names[] = {
    {"v.blk.*.ln1.weight", "^layers.*.layer_norm1.weight"},
    {"v.blk.*.ln1.weight", "^layers.*.input_layernorm.weight"},
    {"v.blk.*.ln1.bias", "^layers.*.layer_norm1.bias"},
    {"v.blk.*.ln1.bias", "^layers.*.input_layernorm.bias"},
    {"v.blk.*.ln2.weight", "^layers.*.layer_norm2.weight"},
    {"v.blk.*.ln2.weight", "^layers.*.post_attention_layernorm.weight"},
    {"v.blk.*.ln2.bias", "^layers.*.layer_norm2.bias"},
    {"v.blk.*.ln2.bias", "^layers.*.post_attention_layernorm.bias"},
    {"v.blk.*.attn_q.weight", "^layers.*.self_attn.q_proj.weight"},
    {"v.blk.*.attn_q.bias", "^layers.*.self_attn.q_proj.bias"},
    {"v.blk.*.attn_k.weight", "^layers.*.self_attn.k_proj.weight"},
    {"v.blk.*.attn_k.bias", "^layers.*.self_attn.k_proj.bias"},
    {"v.blk.*.attn_v.weight", "^layers.*.self_attn.v_proj.weight"},
    {"v.blk.*.attn_v.bias", "^layers.*.self_attn.v_proj.bias"},
    {"v.blk.*.attn_out.weight", "^layers.*.self_attn.o_proj.weight"},
    {"v.blk.*.attn_out.bias", "^layers.*.self_attn.o_proj.bias"},
    {"v.blk.*.ffn_up.weight", "^layers.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.weight", "^layers.*.mlp.dense_h_to_4h.weight"},
    {"v.blk.*.ffn_up.bias", "^layers.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_up.bias", "^layers.*.mlp.dense_h_to_4h.bias"},
    {"v.blk.*.ffn_down.weight", "^layers.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.weight", "^layers.*.mlp.dense_4h_to_h.weight"},
    {"v.blk.*.ffn_down.bias", "^layers.*.mlp.fc2.bias"},
    {"v.blk.*.ffn_down.bias", "^layers.*.mlp.dense_4h_to_h.bias"},
    {"mm.pre_norm.weight", "^patch_merger.before_rms.weight"},
    {"mm.pre_norm.weight", "^perceive.before_rms.weight"},
    {"mm.0.weight", "^patch_merger.proj_conv.weight"},
    {"mm.0.weight", "^perceive.proj.0.weight"},
    {"mm.0.bias", "^patch_merger.proj_conv.bias"},
    {"mm.0.bias", "^perceive.proj.0.bias"},
    {"mm.2.weight", "^patch_merger.proj_out.weight"},
    {"mm.2.weight", "^perceive.proj.2.weight"},
    {"mm.2.bias", "^patch_merger.proj_out.bias"},
    {"mm.2.bias", "^perceive.proj.2.bias"},
    {"mm.model.fc.weight", "^patch_merger.mlp.weight"},
    {"mm.model.fc.weight", "^perceive.mlp.weight"},
    {"mm.model.fc.bias", "^patch_merger.mlp.bias"},
    {"mm.model.fc.bias", "^perceive.mlp.bias"},
    {"mm.post_norm.weight", "^patch_merger.after_rms.weight"},
    {"mm.post_norm.weight", "^perceive.after_rms.weight"},
    {"v.image_newline", "^patch_merger.image_newline"},
    {"v.image_newline", "^perceive.image_newline"},
    {"mm.image_begin", "^patch_merger.image_begin"},
    {"mm.image_begin", "^perceive.image_begin"},
    {"mm.image_end", "^patch_merger.image_end"},
    {"mm.image_end", "^perceive.image_end"},
    {"v.view_seperator", "^patch_merger.image_sep"},
    {"v.view_seperator", "^perceive.image_sep"},
    {NULL, NULL},
};

/* Published configs call the sections xdrope_section. */
static void read_vl_sections(struct checkpoint_keys *keys, struct model_config *config)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    static const char *const key_names[] = {"mrope_section", "xdrope_section"};
    uint32_t sections[SECTIONS_MAX], count = 0;
    for (size_t i = 0; i < 4 && count == 0 && keys->result == RESULT_OK; i++) {
        struct checkpoint_keys scaling = checkpoint_keys_enter(keys, places[i / 2]);
        (void)checkpoint_hf_vision_list(&scaling, key_names[i % 2], ROPE_DIMS_MAX, SECTIONS_MAX,
                                        sections, &count);
        checkpoint_keys_leave(keys, &scaling);
    }
    divide_rope(keys, sections, count, &config->ropes[0]);
}

static void hf_read_vl(struct checkpoint_keys *keys, struct model_config *config)
{
    hf_read_dense(keys, config);
    read_vl_sections(keys, config);
}

static void read_vl_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                          struct vision_config *config)
{
    const struct f32_range epsilons = {1e-12f, 1e-1f};
    (void)root;
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_ERF);
    checkpoint_hf_clip_sizes(
        keys, (struct vision_terms){.hidden = 1152, .layers = 27, .heads = 16, .patch_side = 16},
        config);
    config->tower.norm_epsilon = checkpoint_keys_f32_or(keys, "rms_norm_eps", epsilons, 1e-5f);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, VL_WIDE);
    config->vision.merge_side = checkpoint_keys_u32_or(keys, "spatial_merge_size",
                                                       (struct u32_range){1, LIMIT_MERGE_SIDE}, 2);
    checkpoint_keys_expect_neutral(keys, "temporal_patch_size", 1);
    checkpoint_keys_expect_neutral(keys, "cat_extra_token", 1);
    struct gguf_string mode = checkpoint_keys_string_or_empty(keys, "interpolate_mode");
    uint32_t heads = checkpoint_keys_u32_or(
        keys, "num_key_value_heads", (struct u32_range){1, LIMIT_HEADS}, config->tower.heads);
    if (keys->result != RESULT_OK)
        return;
    if (heads != config->tower.heads)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "num_key_value_heads %u of %u heads",
                               heads, config->tower.heads);
    if (mode.length > 0 && !checkpoint_keys_is(mode, "bilinear"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "interpolate_mode is not \"bilinear\"");
    config->vision.grid_positions = config->vision.framed = true;
    config->unused_positions = 1;
    checkpoint_vision_table(keys, "max_image_size", VL_IMAGE, config);
}

static const struct hf_vision_form hf_vl_tower = {
    .naming = {vl_names, checkpoint_hf_clip_names, vl_parts, NULL},
    .probe = "v.patch_embd.weight",
    .parts = vl_parts,
    .read_config = read_vl_tower,
};

static const struct hf_form hf_hunyuan_vl = {
    .model_types = vl_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 290943,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = vl_own_keys,
    .naming = {names, checkpoint_hf_usual_names, vl_texts, vl_parts},
    .read_config = hf_read_vl,
    .tying_wholes = vl_wholes,
    .vision = &hf_vl_tower,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true,
                                   .norms_after_rope = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}

const struct model_family family_hunyuan = {
    .architecture = "hunyuan-dense",
    .gguf = &gguf_hunyuan,
    .hf = &hf_hunyuan,
    .list_ops = list_ops,
};

const struct model_family family_hunyuan_moe = {
    .architecture = "hunyuan-moe",
    .gguf = &gguf_hunyuan_moe,
    .hf = &hf_hunyuan_moe,
    .list_ops = list_ops,
};

const struct model_family family_hunyuan_vl = {
    .architecture = "hunyuan_vl",
    .gguf = &gguf_hunyuan_vl,
    .hf = &hf_hunyuan_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_hunyuan_vl_list_ops,
};
