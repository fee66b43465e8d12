/*
 * ERNIE 4.5: llama with queries and keys rotated in adjacent pairs, and, in the dense models, biases of all
 * matrices of the layers or of none. The mixtures (ernie4_5_moe) choose experts by the softmax of all scores
 * plus a bias, and divide the chosen ones' by their sum. PaddleOCR-VL has the same layers with three positions a token, of which
 * halves of a head rotate by sections, and a tower.
 */
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

#define ROPE_BASE 500000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/* GGUF metadata of the ernie4_5 architecture: rows are not permuted, since pairs are adjacent already. */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_ernie4_5 = {
    .read_config = gguf_read_config,
};

/*
 * The same of the ernie4_5-moe architecture. The key of the shared experts' width is theirs together.
 *
 * Source: llama.cpp, conversion/ernie.py and src/models/ernie4-5-moe.cpp.
 */
static const char *const gguf_moe_own_keys[] = {GGUF_EXPERT_KEYS, NULL};

static void gguf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct gguf_expert_terms terms = {.normalized = true,
                                                   .epsilon = ERNIE_WEIGHT_EPSILON};
    gguf_read_config(keys, config);
    checkpoint_keys_expect_neutral(keys, "interleave_moe_layer_step", 1);
    checkpoint_gguf_read_experts(keys, &terms, config);
}

static const struct gguf_form gguf_ernie4_5_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe,
};

/* The same of the paddleocr architecture, whose pairs are a head's halves with a section for each axis. */
static void gguf_read_paddle(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_config(keys, config);
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_sections(keys, false, &config->ropes[0]);
}

static const struct gguf_form gguf_paddleocr = {
    .read_config = gguf_read_paddle,
};

/* --- config.json ------------------------------------------------------------------------------ */

/* Source: transformers, configuration_ernie4_5.py and modeling_ernie4_5.py. */
static const char *const model_types[] = {"ernie4_5", NULL};
static const char *const own_keys[] = {"use_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void read_biases(struct checkpoint_keys *keys, struct model_config *config)
{
    bool biases = checkpoint_keys_bool_or(keys, "use_bias", false);
    config->attention_bias = config->output_bias = config->feed_forward_bias = biases;
}

static void read_adjacent_rope(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    read_biases(keys, config);
    read_adjacent_rope(keys, config);
}

static const struct hf_form hf_ernie4_5 = {
    .model_types = model_types,
    .defaults = {.layers = 18,
                 .hidden = 1024,
                 .feed_forward = 3072,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocab_tokens = 103424,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/*
 * ernie4_5_moe: layers from moe_layer_start_index to moe_layer_end_index whose number, counted from 1, is a
 * multiple of moe_layer_interval have experts. The layers that predict further tokens (mtp) are left out.
 *
 * Source: transformers, configuration_ernie4_5_moe.py and modeling_ernie4_5_moe.py.
 */
static const char *const moe_model_types[] = {"ernie4_5_moe", NULL};
static const char *const moe_own_keys[] = {"num_experts", NULL};
static const char *const moe_other_parts[] = {"model.mtp_", "mtp_", NULL};

static const struct tensor_name moe_names[] = {
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.moe_statics.e_score_correction_bias"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.gate.moe_statics.e_score_correction_bias"},
    HF_SHARED_EXPERT_NAMES,
    {NULL, NULL},
};

static void hf_read_moe_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range any = {0, LIMIT_LAYERS};
    uint32_t first = checkpoint_keys_u32_or(keys, "moe_layer_start_index", any, 1);
    uint32_t step =
        checkpoint_keys_u32_or(keys, "moe_layer_interval", (struct u32_range){1, LIMIT_LAYERS}, 1);
    float last = checkpoint_keys_f32_or(keys, "moe_layer_end_index",
                                        (struct f32_range){-1.0f, LIMIT_LAYERS}, -1.0f);
    for (uint32_t layer = first; layer < config->layers; layer++)
        config->layer[layer].experts =
            (last < 0.0f || (float)layer <= last) && (layer + 1) % step == 0;
}

static void hf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD}, counts = {1, LIMIT_EXPERTS};
    checkpoint_keys_expect_neutral(keys, "use_bias", 0);
    read_adjacent_rope(keys, config);
    checkpoint_hf_read_ernie_experts(
        keys, checkpoint_keys_u32_or(keys, "moe_num_experts", counts, 64),
        checkpoint_keys_u32_or(keys, "moe_intermediate_size", wide, 1536), config);
    hf_read_moe_layers(keys, config);
}

static const struct hf_form hf_ernie4_5_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 28,
                 .hidden = 2560,
                 .feed_forward = 12288,
                 .heads = 20,
                 .kv_heads = 4,
                 .vocab_tokens = 103424,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {moe_names, checkpoint_hf_usual_names, prefixes, moe_other_parts},
    .read_config = hf_read_moe,
};

/*
 * paddleocr_vl: published folders have the text's keys beside vision_config, and tensors of a table and
 * of a pooling head that nothing uses.
 *
 * Source: transformers, configuration_paddleocr_vl.py, modeling_paddleocr_vl.py, conversion_mapping.py.
 */
#define PADDLE_PIXELS     384u
#define PADDLE_WIDE       4304u
#define PADDLE_AXIAL_BASE 10000.0f

static const char *const paddle_types[] = {"paddleocr_vl", "paddleocr_vl_text", NULL};
static const char *const paddle_wholes[] = {"paddleocr_vl", NULL};
static const char *const paddle_texts[] = {"model.language_model.", "model.", NULL};
static const char *const paddle_parts[] = {"model.visual.", "visual.", "model.projector.",
                                           "mlp_AR.", NULL};
static const char *const paddle_towers[] = {"model.visual.vision_model.", "visual.vision_model.",
                                            NULL};

static const struct tensor_name paddle_names[] = {
    {"v.packing_embd.weight", "^embeddings.packing_position_embedding.weight"},
    {"mm.input_norm.weight", "model.projector.pre_norm.weight"},
    {"mm.input_norm.weight", "mlp_AR.pre_norm.weight"},
    {"mm.input_norm.bias", "model.projector.pre_norm.bias"},
    {"mm.input_norm.bias", "mlp_AR.pre_norm.bias"},
    {"mm.1.weight", "model.projector.linear_1.weight"},
    {"mm.1.weight", "mlp_AR.linear_1.weight"},
    {"mm.1.bias", "model.projector.linear_1.bias"},
    {"mm.1.bias", "mlp_AR.linear_1.bias"},
    {"mm.2.weight", "model.projector.linear_2.weight"},
    {"mm.2.weight", "mlp_AR.linear_2.weight"},
    {"mm.2.bias", "model.projector.linear_2.bias"},
    {"mm.2.bias", "mlp_AR.linear_2.bias"},
    {NULL, NULL},
};

static void read_paddle(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct hf_rope_terms terms = {
        .base = ROPE_BASE, .mrope = true, .sections = {16, 24, 24}};
    read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &terms);
}

static void read_paddle_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                              struct vision_config *config)
{
    (void)root;
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_TANH);
    checkpoint_hf_clip_sizes(
        keys, (struct vision_terms){.hidden = 1152, .layers = 27, .heads = 16, .patch_side = 14},
        config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, PADDLE_WIDE);
    checkpoint_hf_vision_merging(keys, config);
    /* published folders state two, of which the class knows nothing */
    config->frames = config->vision.frames = 1;
    checkpoint_vision_rope(keys, PADDLE_AXIAL_BASE, config);
    config->vision.grid_positions = true;
    checkpoint_vision_table(keys, "image_size", PADDLE_PIXELS, config);
}

static const struct hf_vision_form hf_paddle_tower = {
    .naming = {paddle_names, checkpoint_hf_clip_names, paddle_towers, NULL},
    .probe = "v.patch_embd.weight",
    .parts = paddle_parts,
    .read_config = read_paddle_tower,
};

static const struct hf_form hf_paddleocr_vl = {
    .model_types = paddle_types,
    .defaults = {.layers = 18,
                 .hidden = 1024,
                 .feed_forward = 3072,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocab_tokens = 103424,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, paddle_texts, paddle_parts},
    .read_config = read_paddle,
    .tying_wholes = paddle_wholes,
    .vision = &hf_paddle_tower,
};

const struct model_family family_ernie4_5_moe = {
    .architecture = "ernie4_5-moe",
    .gguf = &gguf_ernie4_5_moe,
    .hf = &hf_ernie4_5_moe,
    .list_ops = dense_blocks_list_mixture,
};

const struct model_family family_ernie4_5 = {
    .architecture = "ernie4_5",
    .gguf = &gguf_ernie4_5,
    .hf = &hf_ernie4_5,
    .list_ops = dense_blocks_list_plain,
};

const struct model_family family_paddleocr_vl = {
    .architecture = "paddleocr",
    .gguf = &gguf_paddleocr,
    .hf = &hf_paddleocr_vl,
    .list_ops = dense_blocks_list_plain,
    .list_vision_ops = tower_paddleocr_vl_list_ops,
};
