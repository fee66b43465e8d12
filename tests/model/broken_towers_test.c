/*
 * Towers that cannot be used: a setting out of range or unknown, tensors that are missing, surplus
 * or of another shape. The text of the checkpoint is still served, and the reason is kept. A defect
 * in the text itself refuses the whole checkpoint.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"

#define GOLDEN "tests/golden/towers/"

/* Replaces `from` by `to` in the golden folder's config.json, or in its tensor header. */
struct breakage {
    const char *family;
    const char *from;
    const char *to;
    const char *words; /* in model_no_vision_reason() */
};

static char *read_golden(const char *family, const char *name, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s/%s", family, name);
    FILE *file = fopen(path, "rb");
    must(file && fseek(file, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *contents = must_alloc(*bytes + 1, 1);
    must(fread(contents, 1, *bytes, file) == *bytes);
    fclose(file);
    return contents;
}

static void write_file(const struct tiny_folder *folder, const char *name, const char *contents,
                       size_t bytes)
{
    FILE *file = fopen(tiny_folder_file(folder, name), "wb");
    must(file && fwrite(contents, 1, bytes, file) == bytes);
    must(fclose(file) == 0);
}

/* Replaces the first `from`, in bytes that may hold zeros; the length may only change if there are
 * none. */
static bool replace(char **contents, size_t *bytes, const char *from, const char *to)
{
    size_t from_bytes = strlen(from), to_bytes = strlen(to);
    for (size_t at = 0; at + from_bytes <= *bytes; at++) {
        if (memcmp(*contents + at, from, from_bytes) != 0)
            continue;
        char *made = must_alloc(*bytes + to_bytes + 1, 1);
        memcpy(made, *contents, at);
        memcpy(made + at, to, to_bytes);
        memcpy(made + at + to_bytes, *contents + at + from_bytes, *bytes - at - from_bytes);
        *bytes = *bytes - from_bytes + to_bytes;
        free(*contents);
        *contents = made;
        return true;
    }
    return false;
}

static enum result open_broken(const struct breakage *broken, struct model **model,
                               struct error_text *error)
{
    struct tiny_folder folder;
    size_t config_bytes = 0, weight_bytes = 0;
    char *config = read_golden(broken->family, "config.json", &config_bytes);
    char *weights = read_golden(broken->family, "model.safetensors", &weight_bytes);
    if (!replace(&config, &config_bytes, broken->from, broken->to)) {
        must(strlen(broken->from) == strlen(broken->to)); /* the file states the header's length */
        if (!replace(&weights, &weight_bytes, broken->from, broken->to))
            fail_msg("%s is nowhere in %s", broken->from, broken->family);
    }
    tiny_folder_create(&folder);
    write_file(&folder, "config.json", config, config_bytes);
    write_file(&folder, "model.safetensors", weights, weight_bytes);
    enum result result = model_open(folder.path, model, error);
    tiny_folder_destroy(&folder);
    free(config);
    free(weights);
    return result;
}

/* The checkpoint opens without a tower, for the stated reason. */
static void expect_text_only(const struct breakage *broken)
{
    struct model *model = NULL;
    struct error_text error = {""};
    if (open_broken(broken, &model, &error) != RESULT_OK)
        fail_msg("%s -> %s: %s", broken->from, broken->to, error.text);
    assert_null(model_vision(model));
    assert_null(model_vision_plan(model));
    if (!strstr(model_no_vision_reason(model), broken->words))
        fail_msg("%s -> %s: \"%s\" does not say \"%s\"", broken->from, broken->to,
                 model_no_vision_reason(model), broken->words);
    model_close(model);
}

static void test_text_goes_on_beside_mllama(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"mllama", "\"max_num_tiles\": 4", "\"max_num_tiles\": 3", "not all canvases of 3 tiles"},
        {"mllama", "[\n    2,\n    2\n   ]", "[\n    2,\n    3\n   ]",
         "not all canvases of 4 tiles"},
        {"mllama", "\"vision_output_dim\": 72", "\"vision_output_dim\": 73", "not 3 times 24"},
        {"mllama", "\"intermediate_layers_indices\": [\n   0",
         "\"intermediate_layers_indices\": [\n   3", "intermediate_layers_indices"},
        {"mllama", "\"intermediate_layers_indices\": [\n   0,",
         "\"intermediate_layers_indices\": [", "vision_output_dim 72 is not 2 times 24"},
        {"mllama", "\"image_size\": 12", "\"image_size\": 16", "gated_positional_embedding"},
        {"mllama", "\"image_size\": 12", "\"image_size\": 400", "4 tiles of 100 x 100"},
        {"mllama", "\"attention_heads\": 2", "\"attention_heads\": 7", "no 7 heads"},
        {"mllama", "\"num_global_layers\": 2", "\"num_global_layers\": 3",
         "global_transformer.layers.2"},
        {"mllama", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "transformer.layers.3"},
        {"mllama", "pre_tile_positional_embedding.gate", "pre_tile_positional_embedding.gait",
         "pre_tile_positional_embedding.gate"},
        {"mllama", "1.gate_ffn", "1.gate_fan", "global_transformer.layers.1.gate_f"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on_beside_gemma3n(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"gemma3n_sound", "\"conf_attention_context_left\": 5",
         "\"conf_attention_context_left\": 0", "conf_attention_context_left"},
        {"gemma3n_sound", "\"conf_attention_context_left\": 5",
         "\"conf_attention_context_right\": 1", "conf_attention_context_right"},
        {"gemma3n_sound", "\"conf_conv_kernel_size\": 5", "\"conf_conv_kernel_size\": 16",
         "conf_conv_kernel_size"},
        {"gemma3n_sound", "\"conf_conv_kernel_size\": 5",
         "\"sscp_conv_kernel_size\": [[3, 3], [3, 5]]",
         "sscp_conv_kernel_size is not two pairs of 3"},
        {"gemma3n_sound", "\"conf_conv_kernel_size\": 5", "\"sscp_conv_stride_size\": 2",
         "sscp_conv_stride_size is not two pairs of 2"},
        {"gemma3n_sound", "\"input_feat_size\": 16", "\"input_feat_size\": 24", "input_proj"},
        {"gemma3n_sound", "\"vocab_offset\": 88", "\"vocab_offset\": 96", "is none of a sound's 8"},
        {"gemma3n_sound", "embed_audio.soft_embedding_norm", "embed_audio.soft_embedding_nord",
         "soft_embedding_norm"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"qwen2_vl", "\"num_heads\": 2", "\"num_heads\": 3", "no 3 heads"},
        {"qwen2_vl", "\"num_heads\": 2", "\"num_heads\": 0", "num_heads"},
        {"qwen2_vl", "\"depth\": 2", "\"depth\": 9", "is missing"},
        {"qwen2_vl", "\"depth\": 2", "\"depth\": 1", "is not part of"},
        {"qwen2_vl", "\"depth\": 2", "\"depth\": 99999", "depth"},
        {"qwen2_vl", "\"patch_size\": 4", "\"patch_size\": 5", "is [4, 4, 2, 3], not [150, 32]"},
        {"qwen2_vl", "\"patch_size\": 4", "\"patch_size\": 4000000000", "patch_size"},
        {"qwen2_vl", "\"quick_gelu\"", "\"relu\"", "hidden_act \"relu\""},
        {"qwen2_vl", "\"in_channels\": 3", "\"in_channels\": 4", "in_channels"},
        {"qwen2_vl", "\"mlp_ratio\": 2", "\"mlp_ratio\": 3", "not [32, 96]"},
        {"qwen2_vl", "visual.merger.mlp.2.bias", "visual.merger.mlp.3.bias", "mlp.2.bias"},
        {"qwen2_vl", "visual.patch_embed.proj", "visual.patch_embed.porj", "no tensors of one"},
        {"qwen2_5_vl", "\"window_size\": 16", "\"window_size\": 4", "no room for a square"},
        {"qwen2_5_vl", "\"fullatt_block_indexes\": [\n   1", "\"fullatt_block_indexes\": [\n   3",
         "fullatt_block_indexes"},
        {"qwen3_vl", "\"num_position_embeddings\": 25", "\"num_position_embeddings\": 24",
         "no square"},
        {"qwen3_vl", "\"num_position_embeddings\": 25", "\"num_position_embeddings\": 36",
         "pos_embed.weight"},
        {"paddleocr_vl", "\"image_size\": 22", "\"image_size\": 24", "position_embedding"},
        {"paddleocr_vl", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3", "linear_1"},
        {"paddleocr_vl", "mlp_AR.pre_norm.bias", "mlp_AR.pre_norm.boas", "pre_norm.bias"},
        {"lfm2_vl", "\"num_patches\": 25", "\"num_patches\": 26", "no square"},
        {"qwen2_audio", "\"num_mel_bins\": 16", "\"num_mel_bins\": 0", "num_mel_bins"},
        {"qwen2_audio", "\"num_mel_bins\": 16", "\"num_mel_bins\": 17", "conv1"},
        {"qwen2_audio", "\"max_source_positions\": 20", "\"max_source_positions\": 21", "odd"},
        {"qwen2_audio", "\"max_source_positions\": 20", "\"max_source_positions\": 22",
         "embed_positions"},
        {"qwen2_audio", "\"num_mel_bins\": 16", "\"activation_function\": \"relu\"",
         "activation_function"},
        {"qwen2_audio", "\"encoder_layers\": 2", "\"encoder_layers\": 1", "layers.1"},
        {"lfm2_vl", "\"num_patches\": 25", "\"num_patches\": 36", "position_embedding"},
        {"lfm2_vl", "\"downsample_factor\": 2", "\"downsample_factor\": 1", "layer_norm"},
        {"lfm2_vl", "\"projector_hidden_size\": 56", "\"projector_hidden_size\": 48", "linear_1"},
        {"lfm2_vl_wide", "\"projector_bias\": false", "\"projector_bias\": true ", "linear_1.bias"},
        {"lfm2_vl", "\"projector_hidden_size\": 56", "\"projector_hidden_act\": \"silu\"",
         "projector_hidden_act"},
        {"gemma3", "\"mm_tokens_per_image\": 9", "\"mm_tokens_per_image\": 8", "no square"},
        {"gemma3", "\"mm_tokens_per_image\": 9", "\"mm_tokens_per_image\": 16", "no square"},
        {"gemma3", "\"image_size\": 24", "\"image_size\": 3", "image_size 3"},
        {"smolvlm", "\"scale_factor\": 2", "\"scale_factor\": 4", "squares of 4"},
        {"smolvlm", "\"scale_factor\": 2", "\"scale_factor\": 3", "proj.weight"},
        {"gemma4", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1",
         "1 key heads of 16, not 2 of 16"},
        {"gemma4", "\"pooling_kernel_size\": 3", "\"pooling_kernel_size\": 0",
         "pooling_kernel_size"},
        {"gemma4", "\"pooling_kernel_size\": 3", "\"pooling_kernel_size\": 4000000000",
         "pooling_kernel_size"},
        {"gemma4", "\"position_embedding_size\": 64", "\"position_embedding_size\": 65",
         "not [32, 130]"},
        {"gemma4", "\"position_embedding_size\": 64", "\"position_embedding_size\": 0",
         "position_embedding_size"},
        {"gemma4", "\"rope_theta\": 100.0", "\"rope_theta\": 0.0", "rope_theta"},
        {"gemma4", "\"patch_size\": 4", "\"patch_size\": 5", "input_proj.weight"},
        {"gemma4", "\"use_clipped_linears\": true", "\"use_clipped_linears\": false",
         "is not part of"},
        {"gemma4", "0.self_attn.q_proj.input_max", "0.self_attn.q_proj.input_mix",
         "input_max is missing"},
        {"gemma4", "\"standardize\": false", "\"standardize\": true", "std_bias is missing"},
        {"gemma4_moe", "\"standardize\": true", "\"standardize\": false", "is not part of"},
        {"gemma4_moe", "\"use_clipped_linears\": false", "\"use_clipped_linears\": true",
         "input_min is missing"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

/* Towers beside any text. */
/* Towers of any size whose merger ends at the text's width. */
static void test_text_goes_on_beside_mergers(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"glm4v", "\"out_hidden_size\": 32", "\"out_hidden_size\": 48", "is not the text's 32"},
        {"glm4v", "\"image_size\": 24", "\"image_size\": 32", "position_embedding"},
        {"glm4v", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3", "downsample.weight"},
        {"glm_ocr", "\"attention_bias\": true\n }\n", "\"attention_bias\": false\n }\n",
         "is not part of"},
        {"glm_ocr", "\"intermediate_size\": 40", "\"intermediate_size\": 48", "gate_proj.weight"},
        {"glm4v_wide", "\"attention_bias\": true\n }\n", "\"attention_bias\": false\n }\n",
         "is not part of"},
        {"glm4v_moe", "\"out_hidden_size\": 32", "\"out_hidden_size\": 48", "is not the text's 32"},
        {"glm4v_moe", "\"attention_bias\": true\n }\n", "\"attention_bias\": false\n }\n",
         "is not part of"},
        {"hunyuan_vl", "\"max_image_size\": 22", "\"max_image_size\": 24", "position_embedding"},
        {"hunyuan_vl", "\"max_image_size\": 22", "\"max_image_size\": 3", "not 1 to"},
        {"hunyuan_vl", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3", "perceive.proj.0"},
        {"hunyuan_vl", "\"bilinear\"", "\"bicubic\"", "interpolate_mode"},
        {"hunyuan_vl", "\"temporal_patch_size\": 1", "\"temporal_patch_size\": 2",
         "temporal_patch"},
        {"hunyuan_vl", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act"},
        {"hunyuan_vl", "\"out_hidden_size\": 32", "\"num_key_value_heads\": 1", "num_key_value"},
        {"hunyuan_vl", "\"out_hidden_size\": 32", "\"cat_extra_token\": 0", "cat_extra_token"},
        {"hunyuan_vl", "vit.perceive.image_begin", "vit.perceive.image_bagin", "image_begin"},
        {"hunyuan_vl", "vit.perceive.image_newline", "vit.perceive.image_newlike", "image_newline"},
        {"hunyuan_vl_wide", "patch_merger.proj_out.bias", "patch_merger.proj_out.boas",
         "proj_out.bias"},
        {"ernie4_5_vl_moe", "\"mlp_ratio\": 1.25", "\"mlp_ratio\": 2.25", "mlp.fc1"},
        {"ernie4_5_vl_moe", "\"temporal_merge_size\": 2", "\"temporal_merge_size\": 4",
         "temporal_merge"},
        {"ernie4_5_vl_moe", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3",
         "spatial_linear.0"},
        {"ernie4_5_vl_moe", "\"quick_gelu\"", "\"relu\"", "hidden_act"},
        {"ernie4_5_vl_moe", "resampler_model.after_norm.weight",
         "resampler_model.after_norm.waight", "after_norm.weight"},
        {"ernie4_5_vl_moe_wide", "\"num_heads\": 3", "\"num_heads\": 5", "no 5 heads"},
        {"glm4v_moe_wide", "\"image_size\": 30", "\"image_size\": 45", "position_embedding"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on_beside_other_towers(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"llava", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": -9",
         "-9 is not one of"},
        {"llava", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": [-2]", "is a list"},
        {"llava", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": 1.5", "is no layer"},
        {"llava", "\"default\"", "\"full\"", "\"full\" of a tower with a class row"},
        {"llava", "\"default\"", "\"class\"", "neither default nor full"},
        {"llava", "\"gelu\"", "\"relu\"", "projector_hidden_act \"relu\""},
        {"llava", "\"image_size\": 24", "\"image_size\": 20",
         "position_embedding.weight is [32, 37"},
        {"llava", "clip_vision_model", "dino_vision_model", "tower \"dino_vision_model\""},
        {"llava", "class_embedding", "klass_embedding", "class_embedding is missing"},
        {"llava_siglip", "\"full\"", "\"default\"", "without a class row"},
        {"internvl", "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.3", "is not 1 / n"},
        {"internvl", "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.0", "downsample_ratio"},
        {"internvl", "\"downsample_ratio\": 0.5", "\"downsample_ratio\": 0.25",
         "no square of squares"},
        {"internvl", "24,\n   24", "24,\n   20", "two different sides"},
        {"internvl", "\"attention_bias\": true", "\"attention_bias\": false", "is not part of"},
        {"internvl", "lambda_1", "lambda_9", "lambda_1 is missing"},
        {"internvl_wide", "rms_norm\"", "xxx_norm\"", "norm_type"},
        {"internvl_wide", "\"use_qk_norm\": true", "\"use_qk_norm\": false", "is not part of"},
        {"aya_vision", "\"downsample_factor\": 2", "\"downsample_factor\": 5",
         "no square of squares"},
        {"aya_vision", "\"downsample_factor\": 2", "\"downsample_factor\": 0", "downsample_factor"},
        {"aya_vision", "size\": 88", "size\": 87", "alignment_intermediate_size 87 is odd"},
        {"aya_vision", "size\": 88", "size\": 86", "linear_1.weight is [128, 88"},
        {"aya_vision", "\"full\"", "\"default\"", "without a class row"},
        {"aya_vision", "projector.layernorm", "projector.layer_nor", "layernorm.bias is missing"},
        {"aya_vision_wide", "head.probe", "head.prope", "is not part of"},
        {"cohere2_vision", "post_layernorm", "past_layernorm", "post_layernorm.bias is missing"},
        {"cohere2_vision", "siglip_vision_model", "clipxx_vision_model", "clipxx_vision_model"},
        {"mistral3", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 3",
         "merging_layer.weight is [128, 32"},
        {"mistral3", "\"spatial_merge_size\": 2", "\"spatial_merge_size\": 0",
         "spatial_merge_size"},
        {"mistral3", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act \"relu\""},
        {"mistral3", "\"rope_theta\": 10000.0", "\"rope_theta\": 0.5", "rope_theta"},
        {"mistral3", "patch_merger.merging", "patch_murger.merging",
         "merging_layer.weight is missing"},
        {"mistral3", "ln_pre", "ln_prs", "ln_pre.weight is missing"},
        {"pixtral", "\"full\"", "\"default\"", "without a class row"},
        {"pixtral", "\"vision_feature_layer\": -1", "\"vision_feature_layer\": -4",
         "-4 is not one of"},
        {"llava_next", "\"vision_feature_select_strategy\": \"default\"",
         "\"vision_feature_select_strategy\": \"full\"", "with a class row"},
        {"llava_next", "\"vision_feature_layer\": -2", "\"vision_feature_layer\": [-2, -1]",
         "is a list"},
        {"llava_onevision", "\"vision_feature_layer\": -1", "\"vision_feature_layer\": 4",
         "not one of 3 layers"},
        {"llava_onevision", "\"image_size\": 15", "\"image_size\": 20", "position_embedding"},
        {"internvl_chat", "\"qkv_bias\": true", "\"qkv_bias\": false", "is not part of"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on_beside_moonvit(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"kimi_vl", "\"init_pos_emb_height\": 16", "\"init_pos_emb_height\": 15",
         "table of 15 by 16 positions"},
        {"kimi_vl", "kernel_size\": [\n   2,\n   2", "kernel_size\": [\n   2,\n   3",
         "merge_kernel_size is no square"},
        {"kimi_vl", "kernel_size\": [\n   2,\n   2", "kernel_size\": [\n   3,\n   3",
         "linear_1.weight is [192, 192"},
        {"kimi_vl", "\"moonvit\"", "\"moonwit\"", "tower \"moonwit\""},
        {"kimi_vl", "\"num_attention_heads\": 4,\n  \"patch",
         "\"num_attention_heads\": 5,\n  \"patch", "no 5 heads"},
        {"kimi_k25", "\"vt_num_hidden_layers\": 2", "\"vt_num_hidden_layers\": 3", "is missing"},
        {"kimi_k25", "\"vt_num_attention_heads\": 2", "\"vt_num_attention_heads\": 0",
         "vt_num_attention_heads"},
        {"kimi_k25", "init_pos_emb_width\": 5", "init_pos_emb_width\": 0", "init_pos_emb_width"},
        {"kimi_k25", "mm_projector.pre_norm.bias", "mm_projector.pre_narm.bias",
         "pre_norm.bias is missing"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on_beside_janus(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"janus", "\"depth\": 2", "\"depth\": 3", "depth"},
        {"janus", "\"projection_dim\": 32,\n  \"layer", "\"projection_dim\": 48,\n  \"layer",
         "is not the text's 32"},
        {"janus", "\"mlp_ratio\": 1.5", "\"mlp_ratio\": 2.5", "mlp.fc1"},
        {"janus", "\"mlp_ratio\": 1.5", "\"mlp_ratio\": 1e-3", "mlp_ratio"},
        {"janus", "\"attention_bias\": true", "\"attention_bias\": false", "is not part of"},
        {"janus", "\"image_size\": 20", "\"image_size\": 24", "position_embedding"},
        {"janus", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act"},
        {"janus", "\"attention_bias\": true", "\"use_qk_norm\": true", "use_qk_norm"},
        {"janus", "aligner.hidden_layers.0.bias", "aligner.hidden_layers.0.boas",
         "hidden_layers.0.bias"},
        {"janus", "\"janus_vision_model\"", "\"janus_vision_madel\"", "janus_vision_madel"},
        {"multi_modality", "siglip_large_patch16_384", "siglip_large_patch12_384", "model_name"},
        {"multi_modality", "\"select_feature\": \"same\"", "\"select_feature\": \"cls\"",
         "select_feature"},
        {"multi_modality", "\"mlp_gelu\"", "\"linear\"", "projector_type"},
        {"multi_modality", "\"depth\": 2", "\"depth\": 4", "depth"},
        {"multi_modality", "\"n_embed\": 48", "\"n_embed\": 32", "is not the text's 48"},
        {"multi_modality", "\"image_size\": 15", "\"image_size\": 20", "pos_embed"},
        {"multi_modality", "\"patch_size\": 5", "\"patch_size\": 3", "patch_embed"},
        {"multi_modality", "vision_model.vision_tower.pos_embed",
         "vision_model.vision_tower.pos_embad", "pos_embed"},
        {"multi_modality", "\"model_type\": \"vision\"", "\"model_type\": \"visual\"", "visual"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void test_text_goes_on_beside_deepseek(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"deepseek_vl_v2", "downsample_mlp_gelu", "downsample_mlp_silu", "projector_type"},
        {"deepseek_vl_v2", "\"depth\": 2", "\"depth\": 3", "depth"},
        {"deepseek_vl_v2", "\"token_pooling\": false", "\"token_pooling\": true", "token_pooling"},
        {"deepseek_vl_v2", "\"n_embed\": 32", "\"n_embed\": 48", "n_embed 48"},
        {"deepseek_vl_v2", "\"input_dim\": 24", "\"input_dim\": 32", "input_dim 32"},
        {"deepseek_vl_v2", "\"mlp_ratio\": 1,", "\"mlp_ratio\": 3,", "projector.layers.0"},
        {"deepseek_vl_v2", "\"mlp_ratio\": 1,", "\"mlp_ratio\": 0,", "mlp_ratio"},
        {"deepseek_vl_v2", "\"downsample_ratio\": 2", "\"downsample_ratio\": 3",
         "projector.layers.0"},
        {"deepseek_vl_v2", "\"downsample_ratio\": 2", "\"downsample_ratio\": 0",
         "downsample_ratio"},
        {"deepseek_vl_v2", "\"tile_tag\": \"2D\"", "\"tile_tag\": \"1D\"", "tile_tag"},
        {"deepseek_vl_v2", "\"head\"", "\"tail\"", "global_view_pos"},
        {"deepseek_vl_v2", "patch14_384", "patch16_384", "model_name"},
        {"deepseek_vl_v2", "\"width\": 24", "\"width\": 30", "input_dim 24"},
        {"deepseek_vl_v2", "\"mlp_ratio\": 1.5", "\"mlp_ratio\": 2.5", "mlp.fc1"},
        {"deepseek_vl_v2", "\"image_size\": 20", "\"image_size\": 24", "pos_embed"},
        {"deepseek_vl_v2", "\"image_size\": 20", "\"image_size\": 3", "image_size"},
        {"deepseek_vl_v2", "\"patch_size\": 4", "\"patch_size\": 5", "patch_embed"},
        {"deepseek_vl_v2", "\"num_attention_heads\": 3", "\"num_attention_heads\": 5", "heads"},
        {"deepseek_vl_v2", "\"model_type\": \"vision\"", "\"model_type\": \"visual\"", "visual"},
        {"deepseek_vl_v2", "view_seperator", "view_seporator", "view_sep"},
        {"deepseek_vl_v2", "image_newline", "image_newlime", "image_newline"},
        {"deepseek_vl_v2", "vision.norm.bias", "vision.narm.bias", "norm.bias"},
        {"deepseek_ocr", "\"linear\"", "\"linaer\"", "projector_type"},
        {"deepseek_ocr", "\"input_dim\": 64", "\"input_dim\": 56", "input_dim 56"},
        {"deepseek_ocr", "\"n_embed\": 32", "\"n_embed\": 48", "n_embed 48"},
        {"deepseek_ocr", "\"window_size\": 5", "\"window_size\": 4", "rel_pos_h"},
        {"deepseek_ocr", "\"window_size\": 5", "\"window_size\": 65", "window_size"},
        {"deepseek_ocr", "\"global_attn_indexes\": [\n     1", "\"global_attn_indexes\": [\n     0",
         "rel_pos_h"},
        {"deepseek_ocr", "\"global_attn_indexes\": [\n     1", "\"global_attn_indexes\": [\n     3",
         "global_attn_indexes"},
        {"deepseek_ocr", "\"downsample_channels\": [\n     20,\n     32",
         "\"downsample_channels\": [\n     20,\n     30", "features of 30 columns"},
        {"deepseek_ocr", "\"downsample_channels\": [\n     20",
         "\"downsample_channels\": [\n     21", "net_2"},
        {"deepseek_ocr", "\"output_channels\": 12", "\"output_channels\": 13", "neck.0"},
        {"deepseek_ocr", "\"image_size\": 24", "\"image_size\": 20", "image_size 20"},
        {"deepseek_ocr", "\"image_size\": 24", "\"image_size\": 32", "pos_embed"},
        {"deepseek_ocr", "\"image_size\": 8", "\"image_size\": 10", "position_embedding"},
        {"deepseek_ocr", "\"tile_tag\": \"2D\"", "\"tile_tag\": \"1D\"", "tile_tag"},
        {"deepseek_ocr", "attn.rel_pos_w", "attn.rel_pos_x", "rel_pos_w"},
        {"deepseek_ocr", "class_embedding", "klass_embedding", "class_embedding"},
        {"deepseek_ocr", "view_seperator", "view_seporator", "view_sep"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_text_only(&breakages[i]);
}

static void expect_refused(const struct breakage *broken)
{
    struct model *model = NULL;
    struct error_text error = {""};
    assert_int_not_equal(open_broken(broken, &model, &error), RESULT_OK);
    assert_null(model);
    if (!strstr(error.text, broken->words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, broken->words);
}

static void test_text_is_refused(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"deepseek_vl_v2_wide", "\"scoring_func\": \"sigmoid\"", "\"scoring_func\": \"softmax\"",
         "scoring_func \"softmax\" with topk_method \"noaux_tc\""},
        {"deepseek_vl_v2_tiny", "\"hidden_size\": 32", "\"hidden_size\": 33",
         "a hidden size of 33 has no 2 heads"},
        {"deepseek_vl_v2_tiny", "\"use_mla\": false", "\"use_mla\": \"no\"", "use_mla"},
        {"deepseek_vl_v2_wide", "\"noaux_tc\"", "\"greedy\"", "scoring_func"},
        {"deepseek_vl_v2_wide", "gate.e_score_correction_bias", "gate.e_score_correction_boas",
         "e_score_correction_bias"},
        {"ernie4_5_vl_moe", "\"freq_allocation\": 2", "\"freq_allocation\": 3", "freq_allocation"},
        {"ernie4_5_vl_moe", "\"moe_layer_interval\": 1", "\"moe_layer_interval\": 2",
         "moe_layer_interval"},
        {"ernie4_5_vl_moe", "\"moe_intermediate_size\": [\n  24,\n  8",
         "\"moe_intermediate_size\": [\n  24,\n  9", "experts.6."},
        {"ernie4_5_vl_moe", "\"moe_num_experts\": [\n  6,\n  6",
         "\"moe_num_experts\": [\n  6,\n  5", "moe_num_experts"},
        {"ernie4_5_vl_moe", "experts.11.down_proj", "experts.21.down_proj", "experts.11.down_proj"},
        {"ernie4_5_vl_moe", "mlp.gate.weight_1", "mlp.gate.weight_2", "gate.weight_1"},
        {"ernie4_5_vl_moe", "\"moe_layer_end_index\": [\n  29", "\"moe_layer_end_index\": [\n  1",
         "moe_layer_end_index"},
        {"ernie4_5_vl_moe_wide", "\"dense\"", "\"danse\"", "mlp_layer_types"},
        {"ernie4_5_vl_moe_wide", "\"mrope_section\": [\n    1", "\"mrope_section\": [\n    2",
         "mrope_section"},
        {"qwen2_vl", "4,\n    2,\n    2", "4,\n    2,\n    3", "mrope_section"},
        {"qwen2_vl", "4,\n    2,\n    2", "4,\n    4", "mrope_section"},
        {"qwen3_vl", "\"deepstack_visual_indexes\": [\n   0",
         "\"deepstack_visual_indexes\": [\n   0, 2", "deepstack_visual_indexes are 3"},
        {"qwen3_vl_moe", "\"num_experts\": 5", "\"num_experts\": 6", "not [32, 6]"},
        {"qwen3_vl_moe", "\"num_experts\": 5", "\"num_experts\": 4294967295", "num_experts"},
        {"qwen3_vl_moe", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 6",
         "6 experts of 5 cannot be chosen"},
        {"qwen3_vl_moe", "\"mlp_only_layers\": [\n   1", "\"mlp_only_layers\": [\n   3",
         "mlp_only_layers"},
        {"qwen3_vl_moe", "[5, 24, 32]", "[5, 32, 24]", "not [32, 24, 5]"},
        {"gemma4", "\"pad_token_id\": 7", "\"pad_token_id\": 96", "pad_token_id"},
        {"qwen3_vl_moe", "0.mlp.experts.down_proj", "0.mlp.experts.down_porj",
         "experts.down_proj is missing"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_refused(&breakages[i]);
}

static void test_text_that_attends_to_features_is_refused(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"mllama", "\"cross_attention_layers\": [\n   1", "\"cross_attention_layers\": [\n   3",
         "layers.1"},
        {"mllama", "\"cross_attention_layers\": [\n   1", "\"cross_attention_layers\": [\n   4",
         "cross_attention_layers"},
        {"mllama", "\"vocab_size\": 88", "\"vocab_size\": 96", "embed_tokens"},
        {"mllama", "1.cross_attn_attn_gate", "1.cross_attn_atta_gate", "cross_attn_attn_gate"},
        {"mllama", "2.cross_attn.q_norm", "2.cross_attn.q_morn", "cross_attn.q_norm"},
        {"mllama", "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2", "k_proj"},
        {"mllama", "1.cross_attn.k_norm", "1.cross_attn.k_morn", "cross_attn.k_morn"},
        {"whisper", "\"num_mel_bins\": 16", "\"num_mel_bins\": 17", "conv1"},
        {"whisper", "\"encoder_layers\": 2", "\"encoder_layers\": 1", "layers.1"},
        {"whisper", "\"encoder_attention_heads\": 2", "\"encoder_attention_heads\": 3",
         "no 3 heads"},
        {"whisper", "\"decoder_layers\": 2", "\"decoder_layers\": 1", "layers.1"},
        {"whisper", "\"decoder_layers\": 2", "\"decoder_layers\": 3", "layers.2"},
        {"whisper", "\"decoder_attention_heads\": 2", "\"decoder_attention_heads\": 3", "3 heads"},
        {"whisper", "\"decoder_ffn_dim\": 56", "\"decoder_ffn_dim\": 57", "fc1"},
        {"whisper", "\"d_model\": 32", "\"d_model\": 48", "not [48, 96]"},
        {"whisper", "\"max_target_positions\": 48", "\"max_target_positions\": 49",
         "embed_positions"},
        {"whisper", "\"max_target_positions\": 48", "\"max_target_positions\": 0", "max_"},
        {"whisper", "\"max_source_positions\": 20", "\"max_source_positions\": 22",
         "embed_positions"},
        {"whisper", "\"gelu\"", "\"relu\"", "activation_function"},
        {"whisper", "0.encoder_attn.v_proj.bias", "0.encoder_attn.v_prog.bias", "v_prog.bias"},
        {"whisper", "0.encoder_attn.q_proj.bias", "0.encoder_attn.q_prog.bias", "q_proj.bias"},
    };
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++)
        expect_refused(&breakages[i]);
}

/* A tower of sounds that cannot be used leaves that of images. */
static void test_images_go_on(void **state)
{
    (void)state;
    static const struct breakage breakages[] = {
        {"qwen2_5_omni", "\"num_mel_bins\": 16", "\"num_mel_bins\": 17", ""},
        {"qwen2_5_omni", "\"n_window\": 10", "\"n_window\": 11", ""},
        {"qwen2_5_omni", "\"n_window\": 10", "\"n_window\": 22", ""},
        {"qwen2_5_omni", "\"output_dim\": 32", "\"output_dim\": 33", ""},
        {"qwen2_5_omni", "\"d_model\": 32", "\"d_model\": 2", ""},
        {"qwen2_5_omni", "\"encoder_layers\": 2", "\"encoder_layers\": 1", ""},
        {"qwen2_5_omni", "audio_tower.ln_post.bias", "audio_tower.ln_past.bias", ""},
        {"gemma4_sound", "\"attention_context_right\": 0", "\"attention_context_right\": 1", ""},
        {"gemma4_sound", "\"attention_context_left\": 5", "\"attention_context_left\": 1", ""},
        {"gemma4_sound", "\"attention_context_left\": 5", "\"attention_context_left\": 99", ""},
        {"gemma4_sound", "\"conv_kernel_size\": 5", "\"conv_kernel_size\": 4", ""},
        {"gemma4_sound", "\"output_proj_dims\": 40", "\"output_proj_dims\": 41", ""},
        {"gemma4_sound", "self_attn.per_dim_scale", "self_attn.per_dim_scald", ""},
    };
    struct model *model = NULL;
    struct error_text error = {""};
    for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++) {
        if (open_broken(&breakages[i], &model, &error) != RESULT_OK)
            fail_msg("%s: %s", breakages[i].to, error.text);
        assert_non_null(model_vision(model));
        if (model_vision(model)->sounds || model_vision_plan(model)->sound)
            fail_msg("%s is taken", breakages[i].to);
        model_close(model);
    }
    must(model_open(GOLDEN "qwen2_5_omni", &model, &error) == RESULT_OK);
    assert_ptr_equal(model_vision(model)->sounds, &model_vision_plan(model)->sound->vision);
    model_close(model);
}

static void test_text_alone(void **state)
{
    (void)state;
    struct model *model = NULL;
    struct error_text error = {""};
    assert_int_equal(model_open("tests/golden/checkpoints/gemma3", &model, &error), RESULT_OK);
    assert_null(model_vision(model));
    assert_string_equal(model_no_vision_reason(model), "takes text only");
    model_close(model);
    assert_int_equal(model_open(GOLDEN "gemma3", &model, &error), RESULT_OK);
    assert_non_null(model_vision(model));
    assert_string_equal(model_no_vision_reason(model), "");
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_goes_on),
        cmocka_unit_test(test_text_goes_on_beside_mllama),
        cmocka_unit_test(test_text_goes_on_beside_gemma3n),
        cmocka_unit_test(test_text_goes_on_beside_mergers),
        cmocka_unit_test(test_text_goes_on_beside_other_towers),
        cmocka_unit_test(test_text_goes_on_beside_moonvit),
        cmocka_unit_test(test_text_goes_on_beside_janus),
        cmocka_unit_test(test_text_goes_on_beside_deepseek),
        cmocka_unit_test(test_text_is_refused),
        cmocka_unit_test(test_text_that_attends_to_features_is_refused),
        cmocka_unit_test(test_images_go_on),
        cmocka_unit_test(test_text_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
