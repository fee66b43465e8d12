/*
 * A projector file states its kind (clip.projector_type) and the tower's sizes; bases of ropes,
 * filters of the image processor and, in Qwen2.5-VL, the window are fixed by the kind. Some keys
 * are not what their names say, so those facts are read from the tensors: the width of the
 * feed-forward part (Qwen2-VL's file states the text's width), that of LLaVA's features (its file
 * states CLIP's own), and whether ffn_up and ffn_down are swapped (files from before llama.cpp's
 * converter was rewritten). Qwen's towers have one epsilon; their files repeat the text's.
 *
 * The converter stores the two frames of a Qwen patch as two kernels, Gemma 4's patch matrix as a
 * kernel, Gemma 3's projection as the folder has it and its norm with 1 added, Pixtral's queries and
 * keys with the rows of a rotated pair beside each other, and names Qwen3-VL's further mergers by
 * their layers. Whether an image's rows see its whole span is not stated for Gemma 4: they do in the
 * models without per-layer embeddings.
 *
 * Source: llama.cpp, its conversion scripts for what is written, tools/mtmd/clip.cpp and tools/mtmd/models
 * for how it is read.
 */
#include "worker/model/gguf/checkpoint_mmproj.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/checkpoint_vision.h"
#include "worker/model/checkpoint/family_list.h"

#define SECTION         "clip.vision"
#define QWEN_EPSILON    1e-6f
#define QWEN_AXIAL_BASE 10000.0f
#define QWEN_MERGE      2u
#define QWEN_WINDOW     112u /* pixels */
#define GEMMA3_MERGE    4u
#define GEMMA4_MERGE    3u
#define GEMMA4_BASE     100.0f
#define IDEFICS3_MERGE  2u
#define INTERNVL_MERGE  2u
#define PIXTRAL_BASE    10000.0f
#define KIMI_BASE       10000.0f
#define KIMI_MERGE      2u
#define LFM2_MERGE      2u
#define LFM2_EPSILON    1e-5f /* of the norm of joined rows */

/* What a projector's functions read from. */
struct mmproj_reader {
    struct checkpoint_keys *keys;
    const struct model_config *text;
    struct vision_config *config;
    bool swapped; /* ffn_up and ffn_down */
    void (*list_ops)(struct plan_builder *builder, const struct vision_config *config);
};

enum gate { /* of the feed-forward part, by clip.use_silu */
            GATE_IS_GELU,
            GATE_IS_SILU,
            GATE_IS_STATED,
};

struct mmproj_form {
    const char *projector;
    const char *const *architectures; /* of text models, ends with NULL */
    const struct tensor_name *names;
    enum gate gate;
    bool clip_width; /* projection_dim is not the text's width */
    void (*read_config)(struct mmproj_reader *reader);
    void (*list_ops)(struct plan_builder *builder, const struct vision_config *config);
};

/* --- shared ----------------------------------------------------------------------------------- */

static const struct gguf_tensor *find(const struct mmproj_reader *reader, const char *name)
{
    return gguf_file_find_tensor(reader->keys->file, name);
}

/* Takes the width of the feed-forward part from the first layer's matrices. */
static void read_feed_forward(struct mmproj_reader *reader)
{
    const struct gguf_tensor *up = find(reader, "v.blk.0.ffn_up.weight");
    const struct gguf_tensor *down = find(reader, "v.blk.0.ffn_down.weight");
    uint32_t hidden = reader->config->tower.hidden;
    if (reader->keys->result != RESULT_OK)
        return;
    if (!up || !down) {
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor v.blk.0.ffn_%s.weight is missing", up ? "down" : "up");
        return;
    }
    reader->swapped = up->dimensions[0] != hidden && down->dimensions[0] == hidden;
    uint64_t wide = reader->swapped ? down->dimensions[1] : up->dimensions[1];
    if (wide == 0 || wide > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(reader->keys, RESULT_TOO_LARGE,
                               "tensor v.blk.0.ffn_up.weight: %llu rows, not within 1 to %u",
                               (unsigned long long)wide, LIMIT_FEED_FORWARD);
    else
        reader->config->tower.feed_forward = (uint32_t)wide;
}

/* Reads the sizes that all towers have. Each key must be there. */
static void read_sizes(struct mmproj_reader *reader, float epsilon)
{
    static const char *const required[] = {"embedding_length", "block_count",
                                           "attention.head_count", "patch_size"};
    static const struct vision_terms terms = {.hidden_key = "embedding_length",
                                              .layers_key = "block_count",
                                              .heads_key = "attention.head_count",
                                              .activation = "",
                                              .hidden = 1,
                                              .layers = 1,
                                              .heads = 1,
                                              .patch_side = 1};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        (void)checkpoint_keys_u32(reader->keys, required[i], (struct u32_range){1, UINT32_MAX});
    checkpoint_vision_sizes(reader->keys, &terms, reader->config);
    reader->config->tower.norm_epsilon = epsilon;
    read_feed_forward(reader);
}

static float read_epsilon(struct mmproj_reader *reader)
{
    return checkpoint_keys_f32(reader->keys, "attention.layer_norm_epsilon",
                               (struct f32_range){1e-12f, 1e-1f});
}

static uint32_t read_merge(struct mmproj_reader *reader, const char *key, uint32_t absent)
{
    return checkpoint_keys_u32_or(reader->keys, key, (struct u32_range){1, LIMIT_MERGE_SIDE},
                                  absent);
}

/* --- gemma3, idefics3 ------------------------------------------------------------------------- */

static void read_square(struct mmproj_reader *reader, uint32_t merge)
{
    read_sizes(reader, read_epsilon(reader));
    reader->config->vision.merge_side = merge;
    (void)checkpoint_keys_u32(reader->keys, "image_size", (struct u32_range){1, UINT32_MAX});
    if (reader->keys->result == RESULT_OK)
        checkpoint_vision_square(reader->keys, 0, reader->config);
}

static void read_gemma3(struct mmproj_reader *reader)
{
    read_square(reader, read_merge(reader, "projector.scale_factor", GEMMA3_MERGE));
    reader->config->vision.spans_whole = true;
}

static void read_idefics3(struct mmproj_reader *reader)
{
    read_square(reader, read_merge(reader, "projector.scale_factor", IDEFICS3_MERGE));
}

/* --- internvl --------------------------------------------------------------------------------- */

/* Which norms there are, and biases of q, k and v, is seen by the tensors: no key states it. */
static void read_internvl(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    read_square(reader, read_merge(reader, "projector.scale_factor", INTERNVL_MERGE));
    config->vision.lead_row = true;
    config->rms_norms = !find(reader, "v.blk.0.ln1.bias");
    config->qk_norms = find(reader, "v.blk.0.attn_q_norm.weight") != NULL;
    config->qkv_bias = find(reader, "v.blk.0.attn_q.bias") != NULL ||
                       find(reader, "v.blk.0.attn_qkv.bias") != NULL;
    config->activation = ACTIVATION_GELU_ERF;
}

/* --- lfm2 ------------------------------------------------------------------------------------- */

/* Takes the side of a square table of positions from the tensor; `unused`: of so many rows before it. */
static void read_table_after(struct mmproj_reader *reader, uint32_t unused)
{
    const struct gguf_tensor *table = find(reader, "v.position_embd.weight");
    uint64_t positions = table && table->dimensions[1] > unused ? table->dimensions[1] - unused : 0;
    uint32_t side =
        positions <= LIMIT_PATCH_POSITIONS ? (uint32_t)lround(sqrt((double)positions)) : 0;
    if (reader->keys->result == RESULT_OK && (side == 0 || (uint64_t)side * side != positions))
        checkpoint_keys_refuse(
            reader->keys, RESULT_INVALID,
            "tensor v.position_embd.weight: %llu positions are no square of 1 to %u",
            (unsigned long long)positions, LIMIT_PATCH_POSITIONS);
    reader->config->table_side = side;
    reader->config->unused_positions = unused;
}

static void read_table(struct mmproj_reader *reader)
{
    read_table_after(reader, 0);
}

/* Takes the width of the projection's first matrix from the tensor. */
static void read_projector(struct mmproj_reader *reader)
{
    const struct gguf_tensor *first = find(reader, "mm.1.weight");
    uint64_t wide = first ? first->dimensions[1] : 0;
    if (reader->keys->result == RESULT_OK && (wide == 0 || wide > LIMIT_FEED_FORWARD))
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor mm.1.weight: %llu rows, not within 1 to %u",
                               (unsigned long long)wide, LIMIT_FEED_FORWARD);
    reader->config->projector_wide = (uint32_t)wide;
    reader->config->projector_bias = find(reader, "mm.1.bias") != NULL;
}

static void read_lfm2(struct mmproj_reader *reader)
{
    read_sizes(reader, read_epsilon(reader));
    reader->config->vision.merge_side = read_merge(reader, "projector.scale_factor", LFM2_MERGE);
    reader->config->activation = ACTIVATION_GELU_TANH;
    reader->config->projector_epsilon = find(reader, "mm.input_norm.weight") ? LFM2_EPSILON : 0.0f;
    read_table(reader);
    read_projector(reader);
}

/* --- mlp -------------------------------------------------------------------------------------- */

/* feature_layer names the layers whose outputs are features, counted from 1; if the key is absent, the
 * last one is it. */
static void read_feature_layer(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    struct gguf_array layers;
    if (gguf_file_array(reader->keys->file, SECTION ".feature_layer", &layers) == RESULT_NOT_FOUND)
        return;
    uint32_t layer = checkpoint_keys_u32_at(reader->keys, "feature_layer", 0,
                                            (struct u32_range){1, config->layers});
    if (gguf_file_array(reader->keys->file, SECTION ".feature_layer", &layers) == RESULT_OK &&
        layers.count != 1)
        checkpoint_keys_refuse(reader->keys, RESULT_UNSUPPORTED,
                               "key " SECTION ".feature_layer names several layers");
    if (reader->keys->result != RESULT_OK)
        return;
    config->unused_layers = config->layers - layer;
    config->layers = layer;
}

/* LLaVA's file is CLIP's if it has a class row, else SigLIP's; with a list of grids it is LLaVA 1.6's. */
static void read_mlp(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    struct checkpoint_keys clip = {
        .file = reader->keys->file, .section = "clip", .error = reader->keys->error};
    struct gguf_array grids;
    read_square(reader, 1);
    bool gelu = checkpoint_keys_bool_or(&clip, "use_gelu", false);
    checkpoint_keys_leave(reader->keys, &clip);
    config->vision.lead_row = find(reader, "v.class_embd") != NULL;
    config->activation = !config->vision.lead_row ? ACTIVATION_GELU_TANH
                         : gelu                   ? ACTIVATION_GELU_ERF
                                                  : ACTIVATION_GELU_QUICK;
    config->projector_bias = find(reader, "mm.0.bias") != NULL;
    config->vision.mosaic = gguf_file_array(reader->keys->file, SECTION ".image_grid_pinpoints",
                                            &grids) != RESULT_NOT_FOUND;
    struct gguf_string merge = checkpoint_keys_string_or_empty(reader->keys, "mm_patch_merge_type");
    if (config->vision.mosaic && merge.length > 0 && !checkpoint_keys_is(merge, "spatial_unpad"))
        checkpoint_keys_refuse(reader->keys, RESULT_UNSUPPORTED,
                               "key " SECTION ".mm_patch_merge_type is not \"spatial_unpad\"");
    if (find(reader, "v.post_ln.weight"))
        checkpoint_keys_refuse(reader->keys, RESULT_UNSUPPORTED,
                               "tensor v.post_ln.weight: a norm after LLaVA's last layer");
    read_feature_layer(reader);
}

/* --- pixtral ---------------------------------------------------------------------------------- */

/* Checks the embedding of [IMG_BREAK], which is taken from the text model: the token is in the prompt. */
static void check_break(struct mmproj_reader *reader)
{
    const struct gguf_tensor *row = find(reader, "v.token_embd.img_break");
    if (!row)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor v.token_embd.img_break is missing");
    else if (row->dimensions[0] != reader->text->hidden)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor v.token_embd.img_break: %llu columns, not %u",
                               (unsigned long long)row->dimensions[0], reader->text->hidden);
}

/* Rows of q and k are in Mistral's order, in which the two of a rotated pair are adjacent. */
static void read_pixtral_rope(struct mmproj_reader *reader, struct checkpoint_keys *clip)
{
    struct vision_config *config = reader->config;
    float base = checkpoint_keys_f32_or(clip, "rope.freq_base", (struct f32_range){1.0f, 1e12f},
                                        PIXTRAL_BASE);
    checkpoint_keys_leave(reader->keys, clip);
    checkpoint_vision_rope_shared(reader->keys, base, config);
    config->tower.ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

/* Mistral 3's file has a matrix that merges squares, Pixtral's has none. */
static void read_pixtral(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    struct checkpoint_keys clip = {
        .file = reader->keys->file, .section = "clip", .error = reader->keys->error};
    read_sizes(reader, read_epsilon(reader));
    bool silu = checkpoint_keys_bool_or(&clip, "use_silu", false);
    config->activation = silu ? ACTIVATION_SILU : ACTIVATION_GELU_ERF;
    read_pixtral_rope(reader, &clip);
    config->vision.merge_side = read_merge(reader, "spatial_merge_size", 1);
    config->projector_bias = find(reader, "mm.1.bias") != NULL;
    config->text_epsilon = reader->text->norm_epsilon;
    if (find(reader, "mm.patch_merger.weight"))
        reader->list_ops = tower_mistral3_list_ops;
    else if (reader->keys->result == RESULT_OK && config->vision.merge_side > 1)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor mm.patch_merger.weight is missing");
    check_break(reader);
}

/* --- gemma4 ----------------------------------------------------------------------------------- */

static void read_gemma4(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    const struct gguf_tensor *table = find(reader, "v.position_embd.weight");
    read_sizes(reader, read_epsilon(reader));
    checkpoint_vision_rope_halves(reader->keys, GEMMA4_BASE, config);
    config->tower.attention_scale = 1.0f;
    config->vision.merge_side = read_merge(reader, "projector.scale_factor", GEMMA4_MERGE);
    uint64_t side = table ? table->dimensions[1] : 0;
    if (side == 0 || side > LIMIT_PATCH_POSITIONS) {
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor v.position_embd.weight: %llu positions, not within 1 to %u",
                               (unsigned long long)side, LIMIT_PATCH_POSITIONS);
        return;
    }
    config->table_side = (uint32_t)side;
    config->vision.max_side = config->table_side;
    config->vision.spans_whole = reader->text->per_layer_columns == 0;
    config->clipped = find(reader, "v.blk.0.attn_q.input_min") != NULL;
    config->standardized = find(reader, "v.std_bias") != NULL;
}

/* --- qwen ------------------------------------------------------------------------------------- */

static void read_qwen(struct mmproj_reader *reader)
{
    read_sizes(reader, QWEN_EPSILON);
    reader->config->vision.merge_side = read_merge(reader, "spatial_merge_size", QWEN_MERGE);
    checkpoint_vision_rope(reader->keys, QWEN_AXIAL_BASE, reader->config);
    reader->config->vision.frames = find(reader, "v.patch_embd.weight.1") ? 2 : 1;
    reader->config->vision.grid_positions = true;
}

static void read_qwen2_5(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    read_qwen(reader);
    uint32_t period =
        checkpoint_keys_u32(reader->keys, "n_wa_pattern", (struct u32_range){1, LIMIT_LAYERS});
    uint32_t pixels = checkpoint_keys_u32_or(
        reader->keys, "window_size", (struct u32_range){1, LIMIT_PATCH_SIDE * LIMIT_PATCH_ROWS},
        QWEN_WINDOW);
    if (reader->keys->result != RESULT_OK)
        return;
    config->vision.window_side = pixels / config->vision.merge_side / config->vision.patch_side;
    if (config->vision.window_side == 0)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "window_size %u has no room for a square", pixels);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->sees_all[layer] = (layer + 1) % period == 0;
}

static void read_deepstack(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    uint32_t each[LIMIT_LAYERS], count = 0;
    if (checkpoint_keys_u32_each(reader->keys, "is_deepstack_layers", (struct u32_range){0, 1},
                                 config->layers, each))
        for (uint32_t layer = 0; layer < config->layers; layer++) {
            if (each[layer] == 0)
                continue;
            if (count == VISION_DEEPSTACK_MAX) {
                checkpoint_keys_refuse(reader->keys, RESULT_TOO_LARGE,
                                       "key " SECTION ".is_deepstack_layers names more than %u "
                                       "layers",
                                       VISION_DEEPSTACK_MAX);
                return;
            }
            config->deepstack[count++] = layer;
        }
    config->vision.deepstack_layers = count;
    config->deepstack_by_layer = true;
    if (reader->keys->result == RESULT_OK && count != reader->text->deepstack_layers)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "key " SECTION
                               ".is_deepstack_layers names %u layers, the text model "
                               "takes the features of %u",
                               count, reader->text->deepstack_layers);
}

static void read_qwen3(struct mmproj_reader *reader)
{
    read_qwen(reader);
    uint32_t pixels =
        checkpoint_keys_u32(reader->keys, "image_size",
                            (struct u32_range){1, LIMIT_PATCH_SIDE * LIMIT_PATCH_POSITIONS});
    if (reader->keys->result != RESULT_OK)
        return;
    uint32_t side = pixels / reader->config->vision.patch_side;
    if (side == 0 || (uint64_t)side * side > LIMIT_PATCH_POSITIONS)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "key " SECTION
                               ".image_size %u in patches of %u: not 1 to %u patches",
                               pixels, reader->config->vision.patch_side, LIMIT_PATCH_POSITIONS);
    reader->config->table_side = side;
    read_deepstack(reader);
}

/* --- glm4v ------------------------------------------------------------------------------------ */

/* GLM-OCR's file has norms of queries and keys, and no table of positions. */
static void read_glm4v(struct mmproj_reader *reader)
{
    struct vision_config *config = reader->config;
    const struct gguf_tensor *gate = find(reader, "mm.gate.weight");
    uint64_t wide = gate ? gate->dimensions[1] : 0;
    read_sizes(reader, read_epsilon(reader));
    config->vision.merge_side = read_merge(reader, "spatial_merge_size", QWEN_MERGE);
    checkpoint_vision_rope(reader->keys, QWEN_AXIAL_BASE, config);
    config->vision.grid_positions = true;
    config->qkv_bias = find(reader, "v.blk.0.attn_qkv.bias") != NULL;
    if (wide == 0 || wide > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor mm.gate.weight: %llu rows, not within 1 to %u",
                               (unsigned long long)wide, LIMIT_FEED_FORWARD);
    config->projector_wide = (uint32_t)wide;
    if (find(reader, "v.blk.0.attn_q_norm.weight"))
        reader->list_ops = tower_glm_ocr_list_ops;
    else
        read_table(reader);
}

/* --- paddleocr -------------------------------------------------------------------------------- */

static void read_paddleocr(struct mmproj_reader *reader)
{
    read_sizes(reader, read_epsilon(reader));
    reader->config->vision.merge_side = read_merge(reader, "spatial_merge_size", QWEN_MERGE);
    reader->config->activation = ACTIVATION_GELU_TANH;
    checkpoint_vision_rope(reader->keys, QWEN_AXIAL_BASE, reader->config);
    reader->config->vision.grid_positions = true;
    read_table(reader);
}

/* --- janus_pro -------------------------------------------------------------------------------- */

static void read_janus(struct mmproj_reader *reader)
{
    read_square(reader, 1);
    reader->config->qkv_bias = find(reader, "v.blk.0.attn_q.bias") != NULL;
    reader->config->activation = ACTIVATION_GELU_ERF;
}

/* --- hunyuanvl, hunyuanocr --------------------------------------------------------------------- */

/* Older files, of the projector hunyuanocr, have the row that nothing uses before the table. */
static void read_hunyuan(struct mmproj_reader *reader, uint32_t unused)
{
    struct vision_config *config = reader->config;
    read_sizes(reader, read_epsilon(reader));
    config->vision.merge_side = read_merge(reader, "spatial_merge_size", QWEN_MERGE);
    config->vision.grid_positions = config->vision.framed = true;
    config->activation = ACTIVATION_GELU_ERF;
    read_table_after(reader, unused);
}

static void read_hunyuan_vl(struct mmproj_reader *reader)
{
    read_hunyuan(reader, 0);
}

static void read_hunyuan_ocr(struct mmproj_reader *reader)
{
    read_hunyuan(reader, 1);
}

/* --- kimivl, kimik25 -------------------------------------------------------------------------- */

static void read_kimi(struct mmproj_reader *reader, bool in_turn)
{
    struct vision_config *config = reader->config;
    read_sizes(reader, read_epsilon(reader));
    config->vision.merge_side = read_merge(reader, "projector.scale_factor", KIMI_MERGE);
    config->activation = ACTIVATION_GELU_TANH;
    config->projector_epsilon = config->tower.norm_epsilon;
    checkpoint_vision_rope_adjacent(reader->keys, KIMI_BASE, in_turn, config);
}

/* The published rows, as three matrices. */
static void read_kimi_vl(struct mmproj_reader *reader)
{
    read_kimi(reader, true);
    read_table(reader);
}

/* Rows of queries and keys are reordered, so that those for columns come first; the table has its lines
 * as a dimension. */
static void read_kimi_k25(struct mmproj_reader *reader)
{
    const struct gguf_tensor *table = find(reader, "v.position_embd.weight");
    uint64_t side = table && table->dimension_count == 3 ? table->dimensions[1] : 0;
    read_kimi(reader, false);
    if (side == 0 || side * side > LIMIT_PATCH_POSITIONS || table->dimensions[2] != side)
        checkpoint_keys_refuse(reader->keys, RESULT_INVALID,
                               "tensor v.position_embd.weight is no square table");
    reader->config->table_side = (uint32_t)side;
}

/* --- the projectors --------------------------------------------------------------------------- */

static const struct tensor_name gemma3_names[] = {
    {"mm.norm.weight", "mm.soft_emb_norm.weight"},
    {"mm.weight", "mm.input_projection.weight"},
    {NULL, NULL},
};
static const struct tensor_name gemma4_names[] = {
    {"mm.weight", "mm.input_projection.weight"},
    {NULL, NULL},
};
static const struct tensor_name idefics3_names[] = {
    {"mm.weight", "mm.model.fc.weight"},
    {NULL, NULL},
};
static const struct tensor_name internvl_names[] = {
    {"mm.norm.weight", "mm.model.mlp.0.weight"},
    {"mm.norm.bias", "mm.model.mlp.0.bias"},
    {"mm.1.weight", "mm.model.mlp.1.weight"},
    {"mm.1.bias", "mm.model.mlp.1.bias"},
    {"mm.3.weight", "mm.model.mlp.3.weight"},
    {"mm.3.bias", "mm.model.mlp.3.bias"},
    {NULL, NULL},
};
static const struct tensor_name mlp_names[] = {
    {"v.image_newline", "v.image_newline"},
    {"v.image_newline", "model.image_newline"},
    {NULL, NULL},
};
static const struct tensor_name pixtral_names[] = {
    {"mm.norm.weight", "mm.input_norm.weight"},
    {"mm.merge.weight", "mm.patch_merger.weight"},
    {NULL, NULL},
};
/* The file's names are the ones that towers ask for. */
static const struct tensor_name plain_names[] = {
    {NULL, NULL},
};
static const struct tensor_name qwen3_names[] = {
    {"mm.norm.weight", "v.post_ln.weight"},
    {"mm.norm.bias", "v.post_ln.bias"},
    {"mm.fc1.weight", "mm.0.weight"},
    {"mm.fc1.bias", "mm.0.bias"},
    {"mm.fc2.weight", "mm.2.weight"},
    {"mm.fc2.bias", "mm.2.bias"},
    {NULL, NULL},
};
static const struct tensor_name swapped_names[] = {
    {"v.blk.*.ffn_up.weight", "v.blk.*.ffn_down.weight"},
    {"v.blk.*.ffn_up.bias", "v.blk.*.ffn_down.bias"},
    {"v.blk.*.ffn_down.weight", "v.blk.*.ffn_up.weight"},
    {"v.blk.*.ffn_down.bias", "v.blk.*.ffn_up.bias"},
    {NULL, NULL},
};
/* An encoder for sound, which is not read. */
static const char *const other_parts[] = {"a.", "mm.a.", NULL};

static const char *const gemma3_texts[] = {"gemma3", NULL};
static const char *const gemma4_texts[] = {"gemma4", NULL};
static const char *const llama_texts[] = {"llama", NULL};
static const char *const qwen2_texts[] = {"qwen2vl", NULL};
static const char *const qwen3_texts[] = {"qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", NULL};

static const char *const lfm2_texts[] = {"lfm2", NULL};
static const char *const internvl_texts[] = {"qwen2", "qwen3", "qwen3moe", "llama", NULL};
static const char *const kimi_texts[] = {"deepseek2", NULL};
static const char *const glm4v_texts[] = {"glm4", "glm4moe", NULL};
static const char *const hunyuan_texts[] = {"hunyuan_vl", NULL};
static const char *const paddleocr_texts[] = {"paddleocr", NULL};
static const char *const mlp_texts[] = {"llama", "qwen2", "phi3", "gemma", NULL};
static const char *const pixtral_texts[] = {"llama", "mistral3", NULL};

static const struct mmproj_form forms[] = {
    {"gemma3", gemma3_texts, gemma3_names, GATE_IS_GELU, false, read_gemma3, tower_gemma3_list_ops},
    {"gemma4v", gemma4_texts, gemma4_names, GATE_IS_GELU, false, read_gemma4,
     tower_gemma4_list_ops},
    {"glm4v", glm4v_texts, plain_names, GATE_IS_SILU, false, read_glm4v, tower_glm4v_list_ops},
    {"paddleocr", paddleocr_texts, plain_names, GATE_IS_GELU, false, read_paddleocr,
     tower_paddleocr_vl_list_ops},
    {"hunyuanvl", hunyuan_texts, plain_names, GATE_IS_GELU, false, read_hunyuan_vl,
     tower_hunyuan_vl_list_ops},
    {"hunyuanocr", hunyuan_texts, plain_names, GATE_IS_GELU, false, read_hunyuan_ocr,
     tower_hunyuan_vl_list_ops},
    {"idefics3", llama_texts, idefics3_names, GATE_IS_GELU, false, read_idefics3,
     tower_idefics3_list_ops},
    {"internvl", internvl_texts, internvl_names, GATE_IS_GELU, false, read_internvl,
     tower_internvl_list_ops},
    {"janus_pro", llama_texts, plain_names, GATE_IS_GELU, false, read_janus, tower_janus_list_ops},
    {"kimivl", kimi_texts, plain_names, GATE_IS_GELU, false, read_kimi_vl, tower_kimi_vl_list_ops},
    {"kimik25", kimi_texts, plain_names, GATE_IS_GELU, false, read_kimi_k25,
     tower_kimi_vl_list_ops},
    {"lfm2", lfm2_texts, plain_names, GATE_IS_GELU, false, read_lfm2, tower_lfm2_vl_list_ops},
    {"mlp", mlp_texts, mlp_names, GATE_IS_GELU, true, read_mlp, tower_llava_list_ops},
    {"pixtral", pixtral_texts, pixtral_names, GATE_IS_STATED, false, read_pixtral,
     tower_pixtral_list_ops},
    {"qwen2vl_merger", qwen2_texts, plain_names, GATE_IS_GELU, false, read_qwen,
     tower_qwen2_vl_list_ops},
    {"qwen2.5vl_merger", qwen2_texts, plain_names, GATE_IS_SILU, false, read_qwen2_5,
     tower_qwen2_5_vl_list_ops},
    {"qwen3vl_merger", qwen3_texts, qwen3_names, GATE_IS_GELU, false, read_qwen3,
     tower_qwen3_vl_list_ops},
};

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static const struct mmproj_form *
find_form(const struct gguf_file *file, const struct model_config *text, struct error_text *error)
{
    struct gguf_string name;
    if (gguf_file_string(file, "general.architecture", &name) != RESULT_OK ||
        !checkpoint_keys_is(name, "clip")) {
        (void)error_set(error, RESULT_INVALID, "key general.architecture is not \"clip\"");
        return NULL;
    }
    if (gguf_file_string(file, "clip.vision.projector_type", &name) != RESULT_OK &&
        gguf_file_string(file, "clip.projector_type", &name) != RESULT_OK) {
        (void)error_set(error, RESULT_INVALID, "key clip.projector_type is missing");
        return NULL;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!checkpoint_keys_is(name, forms[i].projector))
            continue;
        if (is_listed(forms[i].architectures, text->architecture))
            return &forms[i];
        (void)error_set(error, RESULT_UNSUPPORTED,
                        "projector \"%s\" does not belong to a text model of architecture %s",
                        forms[i].projector, text->architecture);
        return NULL;
    }
    (void)error_set(error, RESULT_UNSUPPORTED, "projector_type \"%.*s\" is not supported",
                    (int)(name.length < 40 ? name.length : 40), name.bytes);
    return NULL;
}

/* Keys that say which text model and which activation the tower is for. */
static void check_whole(const struct mmproj_form *form, struct mmproj_reader *reader)
{
    struct checkpoint_keys *keys = reader->keys;
    uint32_t hidden = checkpoint_keys_u32_or(
        keys, "projection_dim", (struct u32_range){form->clip_width ? 0 : 1, LIMIT_HIDDEN},
        reader->text->hidden);
    if (keys->result == RESULT_OK && hidden != reader->text->hidden && !form->clip_width)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key " SECTION ".projection_dim is %u, the text model's hidden size "
                               "%u: the file belongs to another model",
                               hidden, reader->text->hidden);
    struct checkpoint_keys clip = {.file = keys->file, .section = "clip", .error = keys->error};
    bool vision = checkpoint_keys_bool_or(&clip, "has_vision_encoder", true);
    bool expected = form->gate == GATE_IS_SILU;
    bool silu = checkpoint_keys_bool_or(&clip, "use_silu", expected);
    if (!vision)
        checkpoint_keys_refuse(&clip, RESULT_UNSUPPORTED, "key clip.has_vision_encoder is false");
    if (silu != expected && form->gate != GATE_IS_STATED)
        checkpoint_keys_refuse(
            &clip, RESULT_UNSUPPORTED, "key clip.use_silu is %s, but projector \"%s\" has %s",
            silu ? "true" : "false", form->projector, expected ? "silu" : "gelu");
    checkpoint_keys_leave(keys, &clip);
}

enum result checkpoint_mmproj_read(const struct gguf_file *file, const struct model_config *text,
                                   struct mmproj_tower *tower, struct error_text *error)
{
    struct checkpoint_keys keys = {.file = file, .section = SECTION, .error = error};
    struct mmproj_reader reader = {.keys = &keys, .text = text, .config = &tower->config};
    memset(tower, 0, sizeof *tower);
    const struct mmproj_form *form = find_form(file, text, error);
    if (!form)
        return RESULT_UNSUPPORTED;
    reader.list_ops = form->list_ops;
    snprintf(tower->config.tower.architecture, sizeof tower->config.tower.architecture, "%s",
             form->projector);
    tower->config.vision.text_hidden = text->hidden;
    check_whole(form, &reader);
    form->read_config(&reader);
    tower->list_ops = reader.list_ops;
    tower->naming = (struct tensor_naming){.names = form->names,
                                           .usual = reader.swapped ? swapped_names : NULL,
                                           .other_parts = other_parts};
    return keys.result;
}
