/*
 * image_processor_open: which of several files counts, what is absent or null, what the texts of
 * tokens are, and settings that are refused, each with words that name it. Hashes of contents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/image_processor.h"
#include "proto/must.h"
#include "tests/support/drawn_image.h"

#define QWEN  "{\"model_type\":\"qwen2_5_vl\",\"vision_config\":{}}"
#define GLM   "{\"model_type\":\"glm4v\",\"vision_config\":{}}"
#define JANUS "{\"model_type\":\"janus\",\"vision_config\":{}}"
#define MODALITY                                                                                   \
    "{\"model_type\":\"multi_modality\",\"vision_config\":{\"params\":{\"image_size\":384,"        \
    "\"model_name\":\"siglip_so400m_patch14_384\"}}}"
#define ERNIE           "{\"model_type\":\"ernie4_5_vl_moe\",\"vision_config\":{}}"
#define ERNIE_PUBLISHED "{\"model_type\":\"ernie4_5_moe_vl\",\"vision_config\":{}}"
#define HUNYUAN         "{\"model_type\":\"hunyuan_vl\",\"vision_config\":{}}"
#define GLM_MOE         "{\"model_type\":\"glm4v_moe\",\"vision_config\":{}}"
#define PADDLE          "{\"model_type\":\"paddleocr_vl\",\"vision_config\":{}}"
#define GEMMA3                                                                                     \
    "{\"model_type\":\"gemma3\",\"vision_config\":{\"image_size\":56,\"patch_size\":14},"          \
    "\"mm_tokens_per_image\":4}"
#define LLAVA "{\"model_type\":\"llava\",\"vision_config\":{\"image_size\":336,\"patch_size\":14}}"
#define AYA                                                                                        \
    "{\"model_type\":\"aya_vision\",\"vision_config\":{\"image_size\":364,\"patch_size\":14}}"
#define COHERE                                                                                     \
    "{\"model_type\":\"cohere2_vision\",\"vision_config\":{\"image_size\":512,\"patch_size\":16}}"
#define NEXT                                                                                       \
    "{\"model_type\":\"llava_next\",\"image_grid_pinpoints\":[[336,672],[336,336]],"               \
    "\"vision_config\":{\"image_size\":336,\"patch_size\":14}}"
#define OCR(side)                                                                                  \
    "{\"model_type\":\"deepseek_vl_v2\",\"vision_config\":{\"model_name\":\"deeplip_b_l\","        \
    "\"image_size\":" side "}}"
#define DEEPSEEK "{\"model_type\":\"deepseek_vl_v2\",\"vision_config\":{\"patch_size\":14}}"
#define ONEVISION                                                                                  \
    "{\"model_type\":\"llava_onevision\",\"image_grid_pinpoints\":[[384,384]],"                    \
    "\"vision_config\":{\"image_size\":384,\"patch_size\":14}}"
#define MLLAMA "{\"model_type\":\"mllama\",\"vision_config\":{\"image_size\":560}}"
#define LFM2                                                                                       \
    "{\"model_type\":\"lfm2_vl\",\"downsample_factor\":2,\"vision_config\":{\"patch_size\":16}}"
#define MISTRAL3 "{\"model_type\":\"mistral3\",\"vision_config\":{\"patch_size\":14}}"
#define PIXTRAL                                                                                    \
    "{\"model_type\":\"llava\",\"vision_config\":{\"model_type\":\"pixtral\",\"patch_size\":16}}"
#define KIMI_VL  "{\"model_type\":\"kimi_vl\",\"vision_config\":{\"model_type\":\"moonvit\"}}"
#define KIMI     "{\"model_type\":\"kimi_k25\",\"vision_config\":{\"merge_kernel_size\":[2,2]}}"
#define INTERNVL "{\"model_type\":\"internvl\",\"vision_config\":{}}"
#define GEMMA4   "{\"model_type\":\"gemma4\",\"vision_config\":{}}"
#define SMOLVLM                                                                                    \
    "{\"model_type\":\"smolvlm\",\"scale_factor\":2,"                                              \
    "\"vision_config\":{\"image_size\":32,\"patch_size\":8}}"
#define TILE "\"max_image_size\":{\"longest_edge\":32}"

static struct json_value value_of(const char *text)
{
    struct json_value value = {0};
    struct error_text error;
    if (text)
        must(json_value_open(text, strlen(text), LIMIT_CONFIG_BYTES, &value, &error) == RESULT_OK);
    return value;
}

static enum result open_texts(const char *config, const char *preprocessor, const char *processor,
                              const char *tokenizer, struct image_processor *out,
                              struct error_text *error)
{
    struct image_processor_files files = {value_of(config), value_of(preprocessor),
                                          value_of(processor), value_of(tokenizer)};
    error->text[0] = '\0';
    return image_processor_open(&files, out, error);
}

static void open_well(const char *config, const char *preprocessor, const char *processor,
                      const char *tokenizer, struct image_processor *out)
{
    struct error_text error;
    if (open_texts(config, preprocessor, processor, tokenizer, out, &error) != RESULT_OK)
        fail_msg("%s %s: %s", config, preprocessor, error.text);
}

static void test_what_is_missing_is_the_default(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(QWEN, NULL, NULL, NULL, &p);
    assert_int_equal(p.family, IMAGE_FAMILY_QWEN);
    assert_int_equal(p.patch, 14);
    assert_int_equal(p.merge, 2);
    assert_int_equal(p.min_pixels, 56 * 56);
    assert_int_equal(p.max_pixels, 28 * 28 * 1280);
    assert_int_equal(p.filter, IMAGE_FILTER_BICUBIC);
    assert_string_equal(p.tokens.marker, "<|image_pad|>");
    open_well(QWEN, "{\"patch_size\":null,\"min_pixels\":null,\"size\":null,\"image_mean\":null}",
              NULL, NULL, &p);
    assert_int_equal(p.patch, 14);
    assert_int_equal(p.min_pixels, 56 * 56);
    open_well("{\"model_type\":\"llama\"}", NULL, NULL, NULL, &p);
    assert_int_equal(p.family, IMAGE_FAMILY_NONE);
}

static void test_which_file_counts(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(QWEN, "{\"size\":{\"shortest_edge\":4000,\"longest_edge\":9000},\"max_pixels\":8000}",
              NULL, NULL, &p);
    assert_int_equal(p.min_pixels, 4000);
    assert_int_equal(p.max_pixels, 8000);
    open_well(QWEN, "{\"max_pixels\":8000}", "{\"image_processor\":{\"max_pixels\":7000}}", NULL,
              &p);
    assert_int_equal(p.max_pixels, 7000);
    open_well(QWEN, "{\"size\":{\"min_pixels\":5000,\"max_pixels\":6000}}",
              "{\"image_processor\":null}", NULL, &p);
    assert_int_equal(p.min_pixels, 5000);
    assert_int_equal(p.max_pixels, 6000);
    open_well("{\"model_type\":\"qwen3_vl\",\"vision_config\":{\"patch_size\":16}}", NULL, NULL,
              NULL, &p);
    assert_int_equal(p.patch, 16);
}

static void test_texts_of_tokens(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(GEMMA4, NULL, NULL, NULL, &p);
    assert_string_equal(p.tokens.begin, "<|image>");
    assert_string_equal(p.tokens.soft, "<|image|>");
    assert_string_equal(p.tokens.end, "<image|>");
    open_well(GEMMA4, NULL, NULL, "{\"boi_token\":\"<a>\",\"eoi_token\":{\"content\":\"<b>\"}}",
              &p);
    assert_string_equal(p.tokens.begin, "<a>");
    assert_string_equal(p.tokens.end, "<b>");
    open_well(GEMMA4, NULL, NULL,
              "{\"extra_special_tokens\":{\"boi_token\":\"<c>\"},"
              "\"model_specific_special_tokens\":{\"image_token\":\"<d>\"}}",
              &p);
    assert_string_equal(p.tokens.begin, "<c>");
    assert_string_equal(p.tokens.marker, "<d>");
}

/* The publishers' files, and transformers'. */
static void test_kimi(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(KIMI_VL, "{\"in_token_limit\":300,\"merge_kernel_size\":[2,2],\"pad_input\":true}",
              NULL, NULL, &p);
    assert_int_equal(p.family, IMAGE_FAMILY_PADDED);
    assert_int_equal(p.arithmetic, IMAGE_ARITHMETIC_PIL);
    assert_int_equal(p.max_patches, 300);
    assert_int_equal(p.fit_side, 0);
    assert_int_equal(p.most_side, 511);
    open_well(KIMI,
              "{\"media_proc_cfg\":{\"in_patch_limit\":500,\"merge_kernel_size\":2,"
              "\"patch_limit_on_one_side\":60,\"fixed_output_tokens\":null,\"image_std\":[1,1,1]}}",
              NULL, NULL, &p);
    assert_int_equal(p.arithmetic, IMAGE_ARITHMETIC_TORCH);
    assert_int_equal(p.patch, 14);
    assert_int_equal(p.merge, 2);
    assert_int_equal(p.max_patches, 500);
    assert_int_equal(p.fit_side, 60);
    assert_true(p.bias[0] == -0.5f);
    open_well(KIMI, "{\"max_patches\":400,\"size\":{\"max_height\":50,\"max_width\":50}}", NULL,
              NULL, &p);
    assert_int_equal(p.max_patches, 400);
    assert_int_equal(p.fit_side, 50);
    open_well(KIMI, NULL, NULL, NULL, &p);
    assert_int_equal(p.max_patches, 16384);
    assert_int_equal(p.fit_side, 512);
    assert_string_equal(p.tokens.marker, "<|media_pad|>");
}

struct refusal {
    const char *config, *preprocessor, *processor, *words;
    enum result result;
};

static void expect_refused(const struct refusal *refusal)
{
    struct image_processor p;
    struct error_text error;
    enum result result =
        open_texts(refusal->config, refusal->preprocessor, refusal->processor, NULL, &p, &error);
    if (result != refusal->result || !strstr(error.text, refusal->words))
        fail_msg("%s %s: %s, \"%s\"", refusal->config, refusal->preprocessor, result_name(result),
                 error.text);
    assert_int_equal(p.family, IMAGE_FAMILY_NONE);
}

static void test_hunyuan(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(HUNYUAN, NULL, NULL, NULL, &p);
    assert_int_equal(p.family, IMAGE_FAMILY_QWEN);
    assert_true(p.framed && p.patch == 16 && p.merge == 2);
    assert_int_equal(p.min_pixels, 512 * 512);
    assert_int_equal(p.max_pixels, 2048 * 2048);
    assert_string_equal(p.tokens.marker, "<｜hy_place▁holder▁no▁102｜>");
    open_well(HUNYUAN, "{\"resample\":1,\"min_pixels\":4096,\"max_pixels\":8192}",
              "{\"cat_extra_token\":true}", "{\"image_token\":\"<i>\"}", &p);
    assert_int_equal(p.filter, IMAGE_FILTER_BICUBIC);
    assert_int_equal(p.max_pixels, 8192);
    assert_string_equal(p.tokens.soft, "<i>");
    static const struct refusal cases[] = {
        {HUNYUAN, "{\"patch_size\":14}", NULL, "patch_size", RESULT_INVALID},
        {HUNYUAN, "{\"merge_size\":3}", NULL, "merge_size", RESULT_INVALID},
        {HUNYUAN, "{\"temporal_patch_size\":2}", NULL, "temporal_patch_size", RESULT_UNSUPPORTED},
        {HUNYUAN, "{\"min_pixels\":9,\"max_pixels\":8}", NULL, "size", RESULT_INVALID},
        {HUNYUAN, NULL, "{\"cat_extra_token\":false}", "cat_extra_token", RESULT_UNSUPPORTED},
        {HUNYUAN, NULL, "{\"cat_extra_token\":2}", "cat_extra_token", RESULT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_janus(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(JANUS, NULL, NULL, NULL, &p);
    assert_int_equal(p.family, IMAGE_FAMILY_CENTRED);
    assert_true(p.side == 384 && p.patch == 16 && p.side_tokens == 576 && p.min_side == 14);
    assert_true(p.arithmetic == IMAGE_ARITHMETIC_TORCH && !p.truncates);
    assert_int_equal(p.pad_colour[0], 122);
    assert_string_equal(p.tokens.begin, "<begin_of_image>");
    assert_string_equal(p.tokens.marker, "<image_placeholder>");
    open_well(MODALITY, "{\"image_size\":384,\"image_mean\":[0.5,0.5,0.5],\"min_size\":20}",
              "{\"image_tag\":\"<i>\",\"num_image_tokens\":729}", NULL, &p);
    assert_true(p.arithmetic == IMAGE_ARITHMETIC_PIL && p.truncates);
    assert_true(p.patch == 14 && p.side_tokens == 729 && p.min_side == 20);
    assert_int_equal(p.pad_colour[2], 127);
    assert_string_equal(p.tokens.soft, "<i>");
    static const struct refusal cases[] = {
        {JANUS, "{\"size\":{\"height\":224}}", NULL, "height", RESULT_INVALID},
        {JANUS, "{\"min_size\":400}", NULL, "min_size", RESULT_INVALID},
        {JANUS, "{\"do_pad\":false}", NULL, "do_pad", RESULT_UNSUPPORTED},
        {JANUS, NULL, "{\"num_image_tokens\":16}", "num_image_tokens", RESULT_INVALID},
        {JANUS, NULL, "{\"use_default_system_prompt\":true}", "use_default_system_prompt",
         RESULT_UNSUPPORTED},
        {MODALITY, "{\"image_size\":256}", NULL, "image_size", RESULT_INVALID},
        {MODALITY, NULL, "{\"num_image_tokens\":576}", "num_image_tokens", RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_deepseek(void **state)
{
    (void)state;
    static const char sizes[] = "{\"candidate_resolutions\":[[384,384],[384,1152],[768,384]]}";
    struct image_processor p;
    open_well(DEEPSEEK, NULL, sizes, NULL, &p);
    assert_true(p.family == IMAGE_FAMILY_MOSAIC && p.views && p.arithmetic == IMAGE_ARITHMETIC_PIL);
    assert_true(p.side == 384 && p.patch == 14 && p.merge == 2 && p.side_tokens == 14 * 15 + 1);
    assert_true(p.grid_count == 3 && p.grids[1].rows == 3 && p.grids[2].columns == 2);
    assert_int_equal(p.pad_colour[1], 127);
    assert_string_equal(p.tokens.marker, "<image>");
    static const struct refusal cases[] = {
        {DEEPSEEK, NULL, NULL, "candidate_resolutions", RESULT_UNSUPPORTED},
        {DEEPSEEK, NULL, "{\"candidate_resolutions\":[]}", "candidate_resolutions", RESULT_INVALID},
        {DEEPSEEK, NULL, "{\"candidate_resolutions\":[[384,385]]}", "candidate_resolutions",
         RESULT_INVALID},
        {DEEPSEEK, NULL, "{\"candidate_resolutions\":[[384,384]],\"patch_size\":16}", "patch_size",
         RESULT_INVALID},
        {DEEPSEEK, NULL, "{\"candidate_resolutions\":[[384,384]],\"downsample_ratio\":3}",
         "downsample_ratio", RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_deepseek_ocr(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(OCR("1024"), NULL, NULL, NULL, &p);
    assert_true(p.family == IMAGE_FAMILY_MOSAIC && !p.views &&
                p.arithmetic == IMAGE_ARITHMETIC_PIL);
    assert_true(p.whole_side == 1024 && p.side == 640 && p.patch == 16 && p.merge == 4);
    assert_true(p.min_tiles == 2 && p.max_tiles == 9 && p.side_tokens == 16 * 17 + 1);
    open_well(OCR("128"), NULL,
              "{\"candidate_resolutions\":[[128,128]],\"tile_size\":64,\"max_patches\":4}", NULL,
              &p);
    assert_true(p.whole_side == 128 && p.side == 64 && p.max_tiles == 4);
    static const struct refusal cases[] = {
        {OCR("1000"), NULL, NULL, "image_size", RESULT_INVALID},
        {OCR("128"), NULL, NULL, "tile_size", RESULT_INVALID},
        {OCR("1024"), NULL, "{\"candidate_resolutions\":[],\"tile_size\":100}", "tile_size",
         RESULT_INVALID},
        {OCR("1024"), NULL, "{\"candidate_resolutions\":[],\"max_patches\":1}", "min_patches",
         RESULT_INVALID},
        {OCR("1024"), NULL, "{\"candidate_resolutions\":[],\"patch_size\":14}", "patch_size",
         RESULT_INVALID},
        {OCR("1024"), NULL, "{\"candidate_resolutions\":[],\"downsample_ratio\":2}",
         "downsample_ratio", RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_ernie(void **state)
{
    (void)state;
    struct image_processor p;
    open_well(ERNIE, "{\"temporal_patch_size\":2}", NULL, NULL, &p);
    assert_true(p.family == IMAGE_FAMILY_QWEN && p.patch == 14 && p.merge == 2 && !p.lifts);
    assert_int_equal(p.min_pixels, 56 * 56);
    assert_int_equal(p.max_pixels, 28 * 28 * 6177);
    assert_string_equal(p.tokens.marker, "<|IMAGE_PLACEHOLDER|>");
    open_well(ERNIE_PUBLISHED, "{\"min_pixels\":4096,\"max_pixels\":8192}", NULL, NULL, &p);
    assert_int_equal(p.max_pixels, 8192);
    assert_string_equal(p.tokens.soft, "<|IMAGE_PLACEHOLDER|>");
    assert_string_equal(p.tokens.marker, "<|image@placeholder|>");
    static const struct refusal cases[] = {
        {ERNIE, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {ERNIE, "{\"merge_size\":3}", NULL, "merge_size", RESULT_INVALID},
        {ERNIE, "{\"size\":{\"longest_edge\":100}}", NULL, "size", RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

/* transformers rounds to nearest (round(50 * 384 / 300) = 64, round(201 * 384 / 300) = 257), the publisher
 * down; an image lies in the middle. */
static void test_janus_rounds_sides(void **state)
{
    (void)state;
    struct image_processor p;
    struct image_plan plan;
    const struct image_request plain = {0};
    struct error_text error;
    static const uint32_t lines[][4] = {{201, 257, 63, 0}, {3, 14, 185, 0}, {50, 64, 160, 0}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        open_well(JANUS, NULL, NULL, NULL, &p);
        assert_int_equal(image_processor_plan(&p, 300, lines[i][0], &plain, &plan, &error),
                         RESULT_OK);
        assert_true(plan.resized_width == 384 && plan.resized_height == lines[i][1]);
        assert_true(plan.cut_x == 0 && plan.cut_y == lines[i][2]);
        assert_int_equal(plan.token_count, 576);
    }
    open_well(MODALITY, NULL, NULL, NULL, &p);
    assert_int_equal(image_processor_plan(&p, 300, 202, &plain, &plan, &error), RESULT_OK);
    assert_int_equal(plan.resized_height, 258); /* of 258.56 */
}

static void test_refusals_of_mosaics(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {NEXT, "{\"image_grid_pinpoints\":[[336,672]]}", NULL, "image_grid_pinpoints",
         RESULT_INVALID},
        {NEXT, "{\"image_grid_pinpoints\":[[336,335]]}", NULL, "image_grid_pinpoints",
         RESULT_INVALID},
        {NEXT, "{\"image_grid_pinpoints\":[[336]]}", NULL, "image_grid_pinpoints", RESULT_INVALID},
        {NEXT, "{\"image_grid_pinpoints\":[]}", NULL, "image_grid_pinpoints", RESULT_INVALID},
        {NEXT, "{\"image_grid_pinpoints\":[[2688,2688]]}", NULL, "image_grid_pinpoints",
         RESULT_INVALID},
        {NEXT, "{\"size\":{\"shortest_edge\":224}}", NULL, "shortest_edge", RESULT_INVALID},
        {NEXT, NULL, "{\"patch_size\":16}", "patch_size", RESULT_INVALID},
        {"{\"model_type\":\"llava_next\",\"vision_config\":{}}", NULL, NULL, "image_grid_pinpoints",
         RESULT_UNSUPPORTED},
        {ONEVISION, NULL, "{\"num_image_tokens\":730}", "num_image_tokens", RESULT_INVALID},
        {ONEVISION, NULL, "{\"vision_aspect_ratio\":\"anyres_max_4\"}", "vision_aspect_ratio",
         RESULT_INVALID},
        {ONEVISION, NULL, "{\"vision_aspect_ratio\":\"pad\"}", "vision_aspect_ratio",
         RESULT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_refusals_of_grids_and_whole_images(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {LFM2, "{\"encoder_patch_size\":14}", NULL, "encoder_patch_size", RESULT_INVALID},
        {LFM2, "{\"downsample_factor\":4}", NULL, "downsample_factor", RESULT_INVALID},
        {LFM2, "{\"tile_size\":528}", NULL, "image_size", RESULT_INVALID},
        {LFM2, "{\"min_tiles\":11}", NULL, "min_tiles", RESULT_INVALID},
        {LFM2, "{\"min_tiles\":1}", NULL, "min_tiles", RESULT_UNSUPPORTED},
        {LFM2, "{\"max_tiles\":65}", NULL, "max_tiles", RESULT_INVALID},
        {LFM2, "{\"min_image_tokens\":257}", NULL, "min_image_tokens", RESULT_INVALID},
        {LFM2, "{\"max_pixels_tolerance\":0}", NULL, "max_pixels_tolerance", RESULT_INVALID},
        {LFM2, "{\"resample\":1}", NULL, "resample", RESULT_UNSUPPORTED},
        {LFM2, NULL, "{\"use_image_special_tokens\":false}", "use_image_special_tokens",
         RESULT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_refusals_name_the_setting(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{\"vision_config\":{}}", NULL, NULL, "model_type", RESULT_INVALID},
        {"{\"model_type\":\"fuyu\",\"vision_config\":{}}", NULL, NULL, "fuyu", RESULT_UNSUPPORTED},
        {MLLAMA, "{\"size\":{\"height\":448,\"width\":448}}", NULL, "height", RESULT_INVALID},
        {MLLAMA, "{\"max_image_tiles\":3}", NULL, "max_image_tiles", RESULT_INVALID},
        {MLLAMA, "{\"do_pad\":false}", NULL, "do_pad", RESULT_UNSUPPORTED},
        {"{\"model_type\":\"mllama\",\"vision_config\":{\"image_size\":450}}", NULL, NULL,
         "image_size", RESULT_UNSUPPORTED},
        {LLAVA, "{\"crop_size\":{\"height\":224,\"width\":336}}", NULL, "height", RESULT_INVALID},
        {LLAVA, "{\"size\":{\"shortest_edge\":300}}", NULL, "size", RESULT_UNSUPPORTED},
        {LLAVA, "{\"do_center_crop\":false}", NULL, "do_center_crop", RESULT_UNSUPPORTED},
        {LLAVA, "{\"do_pad\":true}", NULL, "do_center_crop", RESULT_UNSUPPORTED},
        {LLAVA, NULL, "{\"patch_size\":16}", "patch_size", RESULT_INVALID},
        {INTERNVL, "{\"size\":{\"height\":384,\"width\":384}}", NULL, "height", RESULT_INVALID},
        {INTERNVL, "{\"min_patches\":5,\"max_patches\":4}", NULL, "min_patches", RESULT_INVALID},
        {INTERNVL, "{\"max_patches\":64}", NULL, "max_patches", RESULT_INVALID},
        {INTERNVL, NULL, "{\"image_seq_length\":255}", "image_seq_length", RESULT_INVALID},
        {"{\"model_type\":\"internvl\",\"vision_config\":{\"image_size\":[448,447]}}", NULL, NULL,
         "image_size", RESULT_INVALID},
        {"{\"model_type\":\"internvl\",\"downsample_ratio\":0.3,\"vision_config\":{}}", NULL, NULL,
         "downsample_ratio", RESULT_INVALID},
        {AYA, "{\"size\":{\"height\":384,\"width\":384}}", NULL, "height", RESULT_INVALID},
        {AYA, NULL, "{\"img_size\":336,\"patch_size\":28}", "img_size", RESULT_INVALID},
        {AYA, NULL, "{\"patch_size\":14}", "img_size", RESULT_INVALID},
        {AYA, NULL, "{\"tile_token\":\"\"}", "tile_token", RESULT_INVALID},
        {MISTRAL3, NULL, "{\"patch_size\":16}", "patch_size", RESULT_INVALID},
        {MISTRAL3, NULL, "{\"spatial_merge_size\":1}", "spatial_merge_size", RESULT_INVALID},
        {MISTRAL3, "{\"size\":{\"height\":64,\"width\":32}}", NULL, "size", RESULT_UNSUPPORTED},
        {PIXTRAL, NULL, "{\"spatial_merge_size\":2}", "spatial_merge_size", RESULT_INVALID},
        {PIXTRAL, NULL, "{\"image_break_token\":3}", "image_break_token", RESULT_INVALID},
        {COHERE, "{\"patch_size\":14}", NULL, "patch_size", RESULT_INVALID},
        {COHERE, "{\"crop_to_patches\":3}", NULL, "crop_to_patches", RESULT_INVALID},
        {GLM, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {GLM, "{\"size\":{\"longest_edge\":100}}", NULL, "size", RESULT_INVALID},
        {GLM, "{\"temporal_patch_size\":1}", NULL, "temporal_patch_size", RESULT_INVALID},
        {GLM_MOE, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {PADDLE, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {PADDLE, "{\"temporal_patch_size\":2}", NULL, "temporal_patch_size", RESULT_UNSUPPORTED},
        {PADDLE, "{\"size\":{\"longest_edge\":100}}", NULL, "size", RESULT_INVALID},
        {QWEN, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {QWEN, "{\"merge_size\":0}", NULL, "merge_size", RESULT_INVALID},
        {QWEN, "{\"patch_size\":\"14\"}", NULL, "patch_size", RESULT_INVALID},
        {QWEN, "{\"temporal_patch_size\":3}", NULL, "temporal_patch_size", RESULT_INVALID},
        {QWEN, "{\"max_pixels\":100}", NULL, "size", RESULT_INVALID},
        {QWEN, "{\"do_resize\":false}", NULL, "do_resize", RESULT_UNSUPPORTED},
        {QWEN, "{\"do_convert_rgb\":false}", NULL, "do_convert_rgb", RESULT_UNSUPPORTED},
        {QWEN, "{\"resample\":1}", NULL, "resample", RESULT_UNSUPPORTED},
        {QWEN, "{\"resample\":0}", NULL, "resample", RESULT_UNSUPPORTED},
        {QWEN, "{\"image_mean\":[1,2]}", NULL, "image_mean", RESULT_INVALID},
        {QWEN, "{\"image_mean\":[1,2,3,4]}", NULL, "image_mean", RESULT_INVALID},
        {QWEN, "{\"image_std\":[0,1,1]}", NULL, "image_std", RESULT_INVALID},
        {QWEN, "{\"rescale_factor\":0}", NULL, "rescale_factor", RESULT_INVALID},
        {GEMMA3, "{\"do_pan_and_scan\":true}", NULL, "do_pan_and_scan", RESULT_UNSUPPORTED},
        {GEMMA3, "{\"size\":{\"height\":896,\"width\":896}}", NULL, "size", RESULT_INVALID},
        {GEMMA3, NULL, "{\"image_seq_length\":256}", "image_seq_length", RESULT_INVALID},
        {GEMMA4, "{\"max_soft_tokens\":100}", NULL, "max_soft_tokens", RESULT_INVALID},
        {"{\"model_type\":\"gemma4\",\"vision_config\":{\"position_embedding_size\":0}}", NULL,
         NULL, "position_embedding_size", RESULT_INVALID},
        {SMOLVLM, NULL, NULL, "max_image_size", RESULT_INVALID},
        {SMOLVLM, "{" TILE ",\"size\":{\"height\":9,\"width\":9}}", NULL, "size",
         RESULT_UNSUPPORTED},
        {SMOLVLM, "{" TILE "}", "{\"image_seq_len\":169}", "image_seq_len", RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void test_refusals_of_kimi(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {KIMI_VL, "{\"pad_input\":false}", NULL, "pad_input", RESULT_UNSUPPORTED},
        {KIMI_VL, "{\"in_token_limit\":0}", NULL, "in_token_limit", RESULT_INVALID},
        {KIMI_VL, "{\"patch_size\":16}", NULL, "patch_size", RESULT_INVALID},
        {KIMI_VL, "{\"merge_kernel_size\":[2,3]}", NULL, "merge_kernel_size", RESULT_INVALID},
        {KIMI_VL, "{\"merge_kernel_size\":[2]}", NULL, "merge_kernel_size", RESULT_INVALID},
        {KIMI_VL, "{\"merge_kernel_size\":[2,2,2]}", NULL, "merge_kernel_size", RESULT_INVALID},
        {KIMI_VL, "{\"merge_kernel_size\":\"2\"}", NULL, "merge_kernel_size", RESULT_INVALID},
        {KIMI_VL, "{\"merge_kernel_size\":9}", NULL, "merge_kernel_size", RESULT_INVALID},
        {KIMI, "{\"merge_size\":3}", NULL, "merge_size", RESULT_INVALID},
        {KIMI, "{\"media_proc_cfg\":{\"merge_kernel_size\":4}}", NULL, "merge_kernel_size",
         RESULT_INVALID},
        {KIMI, "{\"media_proc_cfg\":{\"fixed_output_tokens\":64}}", NULL, "fixed_output_tokens",
         RESULT_UNSUPPORTED},
        {KIMI, "{\"size\":{\"max_height\":50,\"max_width\":40}}", NULL, "size", RESULT_INVALID},
        {KIMI, "{\"resample\":1}", NULL, "resample", RESULT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(&cases[i]);
}

static void run_drawn(const struct image_processor *p, uint32_t seed, uint8_t change,
                      uint8_t hash[IMAGE_HASH_BYTES])
{
    struct image_plan plan;
    struct image_pixels pixels;
    struct error_text error;
    must(image_pixels_init(&pixels, 56, 84, &error) == RESULT_OK);
    drawn_image_fill(pixels.rgb, 56, 84, seed);
    pixels.rgb[1234] ^= change;
    must(image_processor_plan(p, 56, 84, &(struct image_request){0}, &plan, &error) == RESULT_OK);
    uint8_t *out = malloc(plan.byte_count);
    must(out != NULL);
    must(image_processor_run(p, &plan, &pixels, out, hash, &error) == RESULT_OK);
    free(out);
    image_pixels_fini(&pixels);
}

static void test_hashes_tell_contents_apart(void **state)
{
    (void)state;
    static const uint8_t none[IMAGE_HASH_BYTES] = {0};
    struct image_processor p, other;
    uint8_t hash[5][IMAGE_HASH_BYTES];
    open_well(QWEN, NULL, NULL, NULL, &p);
    open_well(QWEN, NULL, NULL, NULL, &other);
    run_drawn(&p, 1, 0, hash[0]);
    run_drawn(&p, 1, 0, hash[1]);
    run_drawn(&p, 2, 0, hash[2]);
    run_drawn(&p, 1, 1, hash[3]);
    run_drawn(&other, 1, 0, hash[4]);
    assert_memory_equal(hash[0], hash[1], IMAGE_HASH_BYTES);
    for (unsigned i = 2; i < 5; i++)
        assert_memory_not_equal(hash[0], hash[i], IMAGE_HASH_BYTES);
    assert_memory_not_equal(hash[0], none, IMAGE_HASH_BYTES);
    open_well("{\"model_type\":\"llama\"}", NULL, NULL, NULL, &p);
    struct image_plan plan;
    struct error_text error;
    assert_int_equal(image_processor_plan(&p, 9, 9, &(struct image_request){0}, &plan, &error),
                     RESULT_UNSUPPORTED);
}

/* The first of the published vectors: key 0..15, no bytes. */
static void test_wide_hash_is_siphash(void **state)
{
    (void)state;
    static const uint8_t wanted[16] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                       0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    struct keyed_hash_key key;
    uint64_t hash[2];
    for (unsigned i = 0; i < sizeof key; i++)
        ((uint8_t *)&key)[i] = (uint8_t)i;
    keyed_hash_wide(&key, "", 0, hash);
    assert_memory_equal(hash, wanted, sizeof wanted);
}

static void expect_plan(const struct image_processor *p, uint32_t width, uint32_t height,
                        enum result wanted, const char *words)
{
    struct image_plan plan;
    struct error_text error = {""};
    enum result result =
        image_processor_plan(p, width, height, &(struct image_request){0}, &plan, &error);
    if (result != wanted || !strstr(error.text, words))
        fail_msg("%u x %u: %s, \"%s\"", width, height, result_name(result), error.text);
}

/* Gemma's squares of 3 patches of 4 pixels, of which 70 fit: 24 x 24 patches, 33 x 15, 45 x 12. */
static void test_sides_beyond_the_positions_are_refused(void **state)
{
    (void)state;
    struct image_processor p;
    open_well("{\"model_type\":\"gemma4\",\"vision_config\":{\"patch_size\":4,"
              "\"position_embedding_size\":33}}",
              "{\"max_soft_tokens\":70}", NULL, NULL, &p);
    expect_plan(&p, 48, 48, RESULT_OK, "");
    expect_plan(&p, 48, 24, RESULT_OK, "");
    expect_plan(&p, 96, 24, RESULT_INVALID,
                "96 x 24 pixels becomes 48 x 12 patches, and this model has positions for 33");
    expect_plan(&p, 24, 96, RESULT_INVALID, "becomes 12 x 48 patches");
    open_well(GEMMA4, NULL, NULL, NULL, &p);
    expect_plan(&p, 16000, 80, RESULT_OK, ""); /* 10,240 positions */
    open_well(KIMI_VL, NULL, NULL, NULL, &p);
    expect_plan(&p, 7140, 14, RESULT_OK, "");
    expect_plan(&p, 7141, 14, RESULT_INVALID, "positions for 511");
    open_well(KIMI, NULL, NULL, NULL, &p);
    expect_plan(&p, 7141, 14, RESULT_OK, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_missing_is_the_default),
        cmocka_unit_test(test_which_file_counts),
        cmocka_unit_test(test_texts_of_tokens),
        cmocka_unit_test(test_kimi),
        cmocka_unit_test(test_refusals_of_kimi),
        cmocka_unit_test(test_refusals_name_the_setting),
        cmocka_unit_test(test_ernie),
        cmocka_unit_test(test_janus),
        cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_deepseek_ocr),
        cmocka_unit_test(test_janus_rounds_sides),
        cmocka_unit_test(test_hunyuan),
        cmocka_unit_test(test_refusals_of_mosaics),
        cmocka_unit_test(test_refusals_of_grids_and_whole_images),
        cmocka_unit_test(test_sides_beyond_the_positions_are_refused),
        cmocka_unit_test(test_hashes_tell_contents_apart),
        cmocka_unit_test(test_wide_hash_is_siphash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
