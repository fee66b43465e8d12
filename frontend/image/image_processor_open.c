/*
 * Finds a checkpoint's image processor in up to four files, which exist in many versions.
 *
 * Settings are in preprocessor_config.json or, saved by newer programs, in processor_config.json's
 * member image_processor, which has precedence. A setting that is absent or null has the default of
 * Hugging Face's class. The tower's own settings are in config.json's vision_config; a setting in
 * both places (side of a patch, merged patches, tokens of an image) must be equal, because an image
 * prepared for another tower gives wrong answers without any error. A setting in config.json alone
 * is used.
 *
 * Unsupported: settings that turn off a step (resizing, conversion to RGB), pan-and-scan, and
 * filters other than the three of image_resizer.h. The class name in the files is ignored: it has
 * changed over time, and config.json's model_type has the same information.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/image/image_processor.h"
#include "frontend/image/image_settings.h"
#include "proto/hf_config.h"
#include "proto/json_files.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

static const float clip_mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};
static const float clip_std[3] = {0.26862954f, 0.26130258f, 0.27577711f};
static const float half_each[3] = {0.5f, 0.5f, 0.5f};
static const float zero_each[3] = {0.0f, 0.0f, 0.0f};
static const float one_each[3] = {1.0f, 1.0f, 1.0f};

#define GEMMA4_POSITIONS 10240u /* of its tower along a side, if config.json has none */
#define KIMI_PATCHES     (1u << 20)
#define KIMI_SIDE        512u /* patches */

/* --- families --------------------------------------------------------------------------------- */

/* Patches of 14 pixels and two frames, merged by fours, as qwen2_vl has them unless its files say otherwise. */
static void open_merged_patches(struct image_settings *s, struct image_processor *p)
{
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_agreed(s, "patch_size", "patch_size", LIMIT_PATCH_SIDE, 14);
    p->merge = image_settings_agreed(s, "merge_size", "spatial_merge_size", LIMIT_MERGE_SIDE, 2);
    if (image_settings_agreed(s, "temporal_patch_size", "temporal_patch_size", LIMIT_PATCH_FRAMES,
                              2) != 2)
        image_settings_fail(s, RESULT_UNSUPPORTED, "temporal_patch_size", "only 2 is done");
}

/* The newer and older keys of the least and the most pixels; each wins over those before it. */
static void settings_bounds(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    p->min_pixels = image_settings_u32(s, size, "shortest_edge", UINT32_MAX, p->min_pixels);
    p->max_pixels = image_settings_u32(s, size, "longest_edge", UINT32_MAX, p->max_pixels);
    p->min_pixels = image_settings_u32(s, s->image, "min_pixels", UINT32_MAX, p->min_pixels);
    p->max_pixels = image_settings_u32(s, s->image, "max_pixels", UINT32_MAX, p->max_pixels);
    if (p->min_pixels > p->max_pixels)
        image_settings_fail(s, RESULT_INVALID, "size", "the least is more than the most");
}

static void open_qwen(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    open_merged_patches(s, p);
    p->min_pixels = image_settings_u32(s, size, "min_pixels", UINT32_MAX, 56 * 56);
    p->max_pixels = image_settings_u32(s, size, "max_pixels", UINT32_MAX, 28 * 28 * 1280);
    settings_bounds(s, p);
    image_settings_token(s, "image_token", "<|image_pad|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* The same in Qwen2.5-Omni's thinker, with tokens of its own. */
static void open_omni(struct image_settings *s, struct image_processor *p)
{
    open_qwen(s, p);
    image_settings_token(s, "image_token", "<|IMAGE|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* The same with two frames counted for a still image, and no settings of older files. */
static void open_glm4v(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    open_merged_patches(s, p);
    p->frames = 2;
    p->min_pixels = image_settings_u32(s, size, "shortest_edge", UINT32_MAX, 112 * 112);
    p->max_pixels = image_settings_u32(s, size, "longest_edge", UINT32_MAX, 28 * 28 * 15000);
    if (p->min_pixels > p->max_pixels)
        image_settings_fail(s, RESULT_INVALID, "size", "the least is more than the most");
    image_settings_token(s, "image_token", "<|image|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* Patches of one frame, whose squares become a placeholder. */
static void settings_one_frame(struct image_settings *s, struct image_processor *p)
{
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_agreed(s, "patch_size", "patch_size", LIMIT_PATCH_SIDE, 14);
    p->merge = image_settings_agreed(s, "merge_size", "spatial_merge_size", LIMIT_MERGE_SIDE, 2);
    image_settings_token(s, "image_token", "<|IMAGE_PLACEHOLDER|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* Older files state min_pixels and max_pixels. */
static void open_paddleocr(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    settings_one_frame(s, p);
    if (image_settings_u32(s, s->image, "temporal_patch_size", LIMIT_PATCH_FRAMES, 1) != 1)
        image_settings_fail(s, RESULT_UNSUPPORTED, "temporal_patch_size", "only 1 is done");
    p->lifts = true;
    p->min_pixels = image_settings_u32(s, size, "min_pixels", UINT32_MAX, 384 * 384);
    p->max_pixels = image_settings_u32(s, size, "max_pixels", UINT32_MAX, 1536 * 1536);
    settings_bounds(s, p);
}

/* temporal_patch_size is of videos alone. */
static void open_ernie(struct image_settings *s, struct image_processor *p)
{
    settings_one_frame(s, p);
    p->min_pixels = 56 * 56;
    p->max_pixels = 28 * 28 * 6177;
    settings_bounds(s, p);
}

/* The published template's marker is no token. */
static void open_published_ernie(struct image_settings *s, struct image_processor *p)
{
    static const char marker[] = "<|image@placeholder|>";
    open_ernie(s, p);
    memcpy(p->tokens.marker, marker, sizeof marker);
}

/* The filter is bicubic whatever the file says, as in the class. */
static void open_hunyuan(struct image_settings *s, struct image_processor *p)
{
    bool framed = true;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    p->filter = IMAGE_FILTER_BICUBIC;
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_agreed(s, "patch_size", "patch_size", LIMIT_PATCH_SIDE, 16);
    p->merge = image_settings_agreed(s, "merge_size", "spatial_merge_size", LIMIT_MERGE_SIDE, 2);
    if (image_settings_u32(s, s->image, "temporal_patch_size", LIMIT_PATCH_FRAMES, 1) != 1)
        image_settings_fail(s, RESULT_UNSUPPORTED, "temporal_patch_size", "only 1 is done");
    if (json_value_bool(json_value_member(s->files->processor, "cat_extra_token"), &framed) ==
            RESULT_INVALID ||
        !framed)
        image_settings_fail(s, RESULT_UNSUPPORTED, "cat_extra_token", "only true is done");
    p->framed = true;
    p->min_pixels = 512 * 512;
    p->max_pixels = 2048 * 2048;
    settings_bounds(s, p);
    image_settings_token(s, "image_token", "<｜hy_place▁holder▁no▁102｜>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

static void open_gemma3(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BILINEAR, p);
    image_settings_normalization(s, true, half_each, half_each, p);
    if (image_settings_bool(s, "do_pan_and_scan", false))
        image_settings_fail(s, RESULT_UNSUPPORTED, "do_pan_and_scan", "crops are not made");
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 16);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 224);
    p->merge = 1;
    if (image_settings_u32(s, size, "height", LIMIT_IMAGE_SIDE, p->side) != p->side ||
        image_settings_u32(s, size, "width", LIMIT_IMAGE_SIDE, p->side) != p->side)
        image_settings_fail(s, RESULT_INVALID, "size", "contradicts image_size of config.json");
    p->side_tokens =
        image_settings_u32(s, s->files->config, "mm_tokens_per_image", LIMIT_IMAGE_TOKENS, 256);
    if (image_settings_u32(s, s->files->processor, "image_seq_length", LIMIT_IMAGE_TOKENS,
                           p->side_tokens) != p->side_tokens)
        image_settings_fail(s, RESULT_INVALID, "image_seq_length",
                            "contradicts mm_tokens_per_image of config.json");
    if (p->side < p->patch)
        image_settings_fail(s, RESULT_INVALID, "image_size", "less than a patch");
    image_settings_token(s, "boi_token", "<start_of_image>", p->tokens.begin);
    image_settings_token(s, "eoi_token", "<end_of_image>", p->tokens.end);
    image_settings_token(s, "image_token", "<image_soft_token>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.begin, sizeof p->tokens.marker);
}

static void open_gemma4(struct image_settings *s, struct image_processor *p)
{
    static const uint32_t counts[] = {70, 140, 280, 560, 1120};
    bool known = false;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, false, zero_each, one_each, p);
    p->patch = image_settings_agreed(s, "patch_size", "patch_size", LIMIT_PATCH_SIDE, 16);
    p->merge =
        image_settings_agreed(s, "pooling_kernel_size", "pooling_kernel_size", LIMIT_MERGE_SIDE, 3);
    p->max_tokens = image_settings_u32(s, s->image, "max_soft_tokens", LIMIT_IMAGE_TOKENS, 280);
    p->most_side = image_settings_u32(s, s->vision, "position_embedding_size",
                                      LIMIT_PATCH_POSITIONS, GEMMA4_POSITIONS);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        known = known || counts[i] == p->max_tokens;
    if (!known)
        image_settings_fail(s, RESULT_INVALID, "max_soft_tokens", "not 70, 140, 280, 560 or 1120");
    image_settings_token(s, "boi_token", "<|image>", p->tokens.begin);
    image_settings_token(s, "eoi_token", "<image|>", p->tokens.end);
    image_settings_token(s, "image_token", "<|image|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

static void open_idefics3(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    struct json_value tile = json_value_member(s->image, "max_image_size");
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    image_settings_filter(s, IMAGE_FILTER_LANCZOS, p);
    image_settings_normalization(s, true, half_each, half_each, p);
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 32);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 224);
    p->merge = image_settings_u32(s, s->files->config, "scale_factor", LIMIT_MERGE_SIDE, 2);
    if (image_settings_u32(s, tile, "longest_edge", LIMIT_IMAGE_SIDE, 364) != p->side)
        image_settings_fail(s, RESULT_INVALID, "max_image_size",
                            "contradicts image_size of config.json");
    if (json_value_type(json_value_member(size, "height")) != JSON_ABSENT)
        image_settings_fail(s, RESULT_UNSUPPORTED, "size", "only longest_edge is done");
    p->longest_edge = image_settings_u32(s, size, "longest_edge", LIMIT_IMAGE_SIDE, 4 * 364);
    p->split = image_settings_bool(s, "do_image_splitting", true);
    uint32_t across = p->side / p->patch / p->merge;
    p->side_tokens = across * across;
    if (p->side_tokens < 1 || p->side / p->patch % p->merge != 0)
        image_settings_fail(s, RESULT_INVALID, "scale_factor",
                            "does not part the patches of a tile");
    if (image_settings_u32(s, s->files->processor, "image_seq_len", LIMIT_IMAGE_TOKENS,
                           p->side_tokens) != p->side_tokens)
        image_settings_fail(s, RESULT_INVALID, "image_seq_len", "contradicts config.json");
    image_settings_token(s, "image_token", "<image>", p->tokens.soft);
    image_settings_token(s, "fake_image_token", "<fake_token_around_image>", p->tokens.begin);
    image_settings_token(s, "global_image_token", "<global-img>", p->tokens.whole);
    memcpy(p->tokens.end, p->tokens.begin, sizeof p->tokens.end);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* A side that is one number, or two equal ones in a list. */
static uint32_t settings_side(struct image_settings *s, const char *name, uint32_t most,
                              uint32_t fallback)
{
    struct json_value value = json_value_member(s->vision, name), element;
    uint32_t sides[2] = {fallback, fallback}, count = 0;
    if (json_value_type(value) != JSON_ARRAY)
        return image_settings_u32(s, s->vision, name, most, fallback);
    for (struct json_reader at = json_value_elements(value); json_value_next(&at, &element);
         count++)
        if (count >= 2 || json_value_u32(element, &sides[count]) != RESULT_OK)
            count = 2;
    if (count != 2 || sides[0] != sides[1] || sides[0] < 1 || sides[0] > most) {
        image_settings_fail(s, RESULT_INVALID, name, "not two equal numbers in range");
        return fallback;
    }
    return sides[0];
}

/* Pixtral in Mistral 3 (squares of spatial_merge_size) and in llava (merge 1). */
static void settings_pixtral(struct image_settings *s, uint32_t merge, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    struct json_value file = s->files->processor;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 16);
    p->merge = merge;
    image_settings_same(s, file, "patch_size", p->patch);
    image_settings_same(s, file, "spatial_merge_size", p->merge);
    uint32_t height = image_settings_u32(s, size, "height", LIMIT_IMAGE_SIDE, 1024);
    if (image_settings_u32(s, size, "width", LIMIT_IMAGE_SIDE, 1024) != height)
        image_settings_fail(s, RESULT_UNSUPPORTED, "size", "two different sides");
    p->longest_edge = image_settings_u32(s, size, "longest_edge", LIMIT_IMAGE_SIDE, height);
    image_settings_text(s, file, "image_token", "[IMG]", p->tokens.soft);
    image_settings_text(s, file, "image_break_token", "[IMG_BREAK]", p->tokens.after);
    image_settings_text(s, file, "image_end_token", "[IMG_END]", p->tokens.end);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

static void open_mistral3(struct image_settings *s, struct image_processor *p)
{
    settings_pixtral(
        s, image_settings_u32(s, s->files->config, "spatial_merge_size", LIMIT_MERGE_SIDE, 2), p);
}

static void open_pixtral(struct image_settings *s, struct image_processor *p)
{
    settings_pixtral(s, 1, p);
}

static void open_llava(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    struct json_value crop = json_value_member(s->image, "crop_size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    bool squashes = json_value_type(json_value_member(size, "height")) != JSON_ABSENT;
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, squashes ? 16 : 32);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 224);
    p->merge = 1;
    image_settings_tile(s, p);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    image_settings_same(s, crop, "height", p->side);
    image_settings_same(s, crop, "width", p->side);
    p->shortest_edge = image_settings_u32(s, size, "shortest_edge", LIMIT_IMAGE_SIDE, p->side);
    if (p->shortest_edge < p->side)
        image_settings_fail(s, RESULT_UNSUPPORTED, "size", "less than crop_size");
    if (image_settings_bool(s, "do_pad", false) ||
        image_settings_bool(s, "do_center_crop", !squashes) == squashes)
        image_settings_fail(s, RESULT_UNSUPPORTED, squashes ? "do_pad" : "do_center_crop",
                            "padding, or a square without a centre crop");
    if (squashes)
        p->shortest_edge = 0;
    image_settings_same(s, s->files->processor, "patch_size", p->patch);
    image_settings_token(s, "image_token", "<image>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

bool image_settings_grids(struct image_settings *s, struct json_value object, const char *name,
                          bool width_first, struct image_processor *p)
{
    struct json_value list = json_value_member(object, name), size, element;
    bool good = true;
    p->grid_count = 0;
    if (json_value_type(list) != JSON_ARRAY)
        return false;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &size);) {
        uint32_t sides[2] = {0, 0}, count = 0;
        for (struct json_reader each = json_value_elements(size); json_value_next(&each, &element);
             count++)
            good = good && count < 2 && json_value_u32(element, &sides[count]) == RESULT_OK;
        uint32_t rows = sides[width_first] / p->side, columns = sides[!width_first] / p->side;
        good = good && count == 2 && p->grid_count < LIMIT_IMAGE_GRIDS && sides[0] % p->side == 0 &&
               sides[1] % p->side == 0 && rows >= 1 && columns >= 1 && rows < LIMIT_IMAGE_TILES &&
               columns < LIMIT_IMAGE_TILES && rows * columns < LIMIT_IMAGE_TILES;
        if (!good)
            break;
        p->grids[p->grid_count].rows = (uint16_t)rows;
        p->grids[p->grid_count++].columns = (uint16_t)columns;
    }
    if (!good || p->grid_count == 0)
        image_settings_fail(s, RESULT_INVALID, name,
                            "not a list of sizes in whole tiles, of fewer than 64");
    return true;
}

/* The processor and the tower must have the same list, since each chooses from its own. */
static void settings_same_grids(struct image_settings *s, struct image_processor *p)
{
    struct image_processor own = *p;
    static const char name[] = "image_grid_pinpoints";
    bool stated = image_settings_grids(s, s->files->config, name, false, &own);
    bool processor = image_settings_grids(s, s->image, name, false, p);
    if (stated && processor &&
        (own.grid_count != p->grid_count ||
         memcmp(own.grids, p->grids, own.grid_count * sizeof own.grids[0]) != 0))
        image_settings_fail(s, RESULT_INVALID, "image_grid_pinpoints", "contradicts config.json");
    if (!stated && !processor)
        image_settings_fail(s, RESULT_UNSUPPORTED, "image_grid_pinpoints", "missing in both files");
    if (stated && !processor)
        *p = own;
}

/* "anyres_max_9": 9. */
static uint32_t settings_anyres(struct image_settings *s, struct json_value object,
                                uint32_t fallback)
{
    static const char prefix[] = "anyres_max_";
    char text[32] = "";
    enum result result =
        json_value_string(json_value_member(object, "vision_aspect_ratio"), text, sizeof text);
    if (result == RESULT_NOT_FOUND)
        return fallback;
    const char *digits = text + sizeof prefix - 1;
    bool prefixed = result == RESULT_OK && strncmp(text, prefix, sizeof prefix - 1) == 0;
    if (!prefixed || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) < 1 ||
        strlen(digits) > 4 || digits[0] == '0') {
        image_settings_fail(s, RESULT_UNSUPPORTED, "vision_aspect_ratio",
                            "not anyres_max_ and a number");
        return fallback;
    }
    return (uint32_t)strtoul(digits, NULL, 10);
}

/* What llava_next and llava_onevision share. */
static void settings_mosaic(struct image_settings *s, uint32_t patch, uint32_t side,
                            struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    struct json_value crop = json_value_member(s->image, "crop_size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, patch);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, side);
    p->merge = 1;
    image_settings_tile(s, p);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    image_settings_same(s, size, "shortest_edge", p->side);
    image_settings_same(s, crop, "height", p->side);
    image_settings_same(s, crop, "width", p->side);
    settings_same_grids(s, p);
    image_settings_same(s, s->files->processor, "patch_size", p->patch);
    image_settings_token(s, "image_token", "<image>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

static void open_llava_next(struct image_settings *s, struct image_processor *p)
{
    settings_mosaic(s, 32, 224, p);
}

static void open_llava_onevision(struct image_settings *s, struct image_processor *p)
{
    float mean[IMAGE_CHANNELS];
    settings_mosaic(s, 16, 224, p);
    p->pads_squares = true;
    p->mosaic_tiles = settings_anyres(s, s->files->config, 9);
    if (settings_anyres(s, s->files->processor, p->mosaic_tiles) != p->mosaic_tiles)
        image_settings_fail(s, RESULT_INVALID, "vision_aspect_ratio", "contradicts config.json");
    image_settings_same(s, s->files->processor, "num_image_tokens", p->side_tokens);
    memcpy(mean, clip_mean, sizeof mean);
    image_settings_channels(s, "image_mean", mean);
    for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
        p->pad_colour[c] = (uint8_t)fminf(255.0f, fmaxf(0.0f, mean[c] * 255.0f));
}

/* Squares of patches that become one placeholder: a ratio of 0.5 joins two each way. */
static uint32_t settings_downsampling(struct image_settings *s)
{
    float ratio = 0.5f;
    if (json_value_f32(json_value_member(s->files->config, "downsample_ratio"), &ratio) ==
            RESULT_INVALID ||
        !(ratio > 0 && ratio <= 1) || 1.0f / ratio != floorf(1.0f / ratio) ||
        1.0f / ratio > LIMIT_MERGE_SIDE) {
        image_settings_fail(s, RESULT_INVALID, "downsample_ratio",
                            "not 1 divided by a small number");
        return 1;
    }
    return (uint32_t)(1.0f / ratio);
}

/* Reads the bounds of the number of tiles. */
static void settings_tiles(struct image_settings *s, struct image_processor *p)
{
    p->min_tiles = image_settings_u32(s, s->image, "min_patches", LIMIT_IMAGE_TILES, 1);
    p->max_tiles = image_settings_u32(s, s->image, "max_patches", LIMIT_IMAGE_TILES - 1, 12);
    if (p->min_tiles > p->max_tiles)
        image_settings_fail(s, RESULT_INVALID, "min_patches", "more than max_patches");
}

static void open_internvl(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = settings_side(s, "patch_size", LIMIT_PATCH_SIDE, 14);
    p->side = settings_side(s, "image_size", LIMIT_IMAGE_SIDE, 448);
    p->merge = settings_downsampling(s);
    image_settings_tile(s, p);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    image_settings_same(s, s->files->config, "image_seq_length", p->side_tokens);
    image_settings_same(s, s->files->processor, "image_seq_length", p->side_tokens);
    settings_tiles(s, p);
    image_settings_token(s, "start_image_token", "<img>", p->tokens.begin);
    image_settings_token(s, "end_image_token", "</img>", p->tokens.end);
    image_settings_token(s, "context_image_token", "<IMG_CONTEXT>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* What aya_vision and cohere2_vision share: SigLIP's squares, merged by downsample_factor. */
static void settings_cohere(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, clip_mean, clip_std, p);
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 16);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 224);
    p->merge = image_settings_u32(s, s->files->config, "downsample_factor", LIMIT_MERGE_SIDE, 2);
    image_settings_tile(s, p);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    settings_tiles(s, p);
}

/* The processor's file repeats the sizes that tokens are counted from. */
static void open_aya(struct image_settings *s, struct image_processor *p)
{
    struct json_value file = s->files->processor;
    settings_cohere(s, p);
    uint32_t patch =
        image_settings_u32(s, file, "patch_size", LIMIT_PATCH_SIDE, p->patch * p->merge);
    bool states_patch = json_value_type(json_value_member(file, "patch_size")) != JSON_ABSENT;
    uint32_t factor = image_settings_u32(s, file, "downsample_factor", LIMIT_MERGE_SIDE, 1);
    uint32_t unit = states_patch ? patch * factor : patch;
    if (image_settings_u32(s, file, "img_size", LIMIT_IMAGE_SIDE, p->side) / unit !=
        p->side / (p->patch * p->merge))
        image_settings_fail(s, RESULT_INVALID, "img_size", "contradicts config.json");
    image_settings_text(s, file, "image_token", "<image>", p->tokens.marker);
    image_settings_text(s, file, "start_of_img_token", "<|START_OF_IMG|>", p->tokens.begin);
    image_settings_text(s, file, "end_of_img_token", "<|END_OF_IMG|>", p->tokens.end);
    image_settings_text(s, file, "img_patch_token", "<|IMG_PATCH|>", p->tokens.soft);
    image_settings_text(s, file, "tile_token", "TILE", p->tokens.tile);
    image_settings_text(s, file, "tile_global_token", "TILE_GLOBAL", p->tokens.whole);
}

/* The image processor's patch_size is the side of a tile in placeholders. */
static void open_cohere2(struct image_settings *s, struct image_processor *p)
{
    settings_cohere(s, p);
    image_settings_same(s, s->image, "patch_size", p->side / (p->patch * p->merge));
    p->least_upscaling = true;
    if (!image_settings_bool(s, "crop_to_patches", true))
        p->max_tiles = 1;
    image_settings_token(s, "boi_token", "<|START_OF_IMG|>", p->tokens.begin);
    image_settings_token(s, "eoi_token", "<|END_OF_IMG|>", p->tokens.end);
    image_settings_token(s, "image_token", "<|IMG_PATCH|>", p->tokens.soft);
    image_settings_token(s, "img_line_break_token", "<|IMG_LINE_BREAK|>", p->tokens.after);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* Sizes of the grid, and of the whole image that follows it. */
static void settings_apart(struct image_settings *s, struct image_processor *p)
{
    p->side = image_settings_u32(s, s->image, "tile_size", LIMIT_IMAGE_SIDE, 512);
    p->min_tiles = image_settings_u32(s, s->image, "min_tiles", LIMIT_IMAGE_TILES, 2);
    p->max_tiles = image_settings_u32(s, s->image, "max_tiles", LIMIT_IMAGE_TILES, 10);
    p->min_tokens = image_settings_u32(s, s->image, "min_image_tokens", LIMIT_IMAGE_TOKENS, 64);
    p->max_tokens = image_settings_u32(s, s->image, "max_image_tokens", LIMIT_IMAGE_TOKENS, 256);
    p->split = image_settings_bool(s, "do_image_splitting", true) && p->max_tiles > 1;
    p->omits_whole = !image_settings_bool(s, "use_thumbnail", true);
    p->tolerance = 2.0f;
    if (json_value_f32(json_value_member(s->image, "max_pixels_tolerance"), &p->tolerance) ==
            RESULT_INVALID ||
        !(p->tolerance > 0 && p->tolerance <= 1e6f))
        image_settings_fail(s, RESULT_INVALID, "max_pixels_tolerance",
                            "not a number, or out of range");
    if (p->split && p->min_tiles > p->max_tiles)
        image_settings_fail(s, RESULT_INVALID, "min_tiles", "more than max_tiles");
    if (p->split && p->min_tiles < 2)
        image_settings_fail(s, RESULT_UNSUPPORTED, "min_tiles", "a grid of one tile");
    if (p->min_tokens > p->max_tokens)
        image_settings_fail(s, RESULT_INVALID, "min_image_tokens", "more than max_image_tokens");
}

static void open_lfm2_vl(struct image_settings *s, struct image_processor *p)
{
    bool marked = true;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BILINEAR, p);
    image_settings_normalization(s, true, half_each, half_each, p);
    p->patch = image_settings_agreed(s, "encoder_patch_size", "patch_size", LIMIT_PATCH_SIDE, 16);
    p->merge = image_settings_u32(s, s->files->config, "downsample_factor", LIMIT_MERGE_SIDE, 2);
    image_settings_same(s, s->image, "downsample_factor", p->merge);
    settings_apart(s, p);
    image_settings_tile(s, p);
    if (json_value_bool(json_value_member(s->files->processor, "use_image_special_tokens"),
                        &marked) == RESULT_INVALID ||
        !marked)
        image_settings_fail(s, RESULT_UNSUPPORTED, "use_image_special_tokens", "only true is done");
    image_settings_token(s, "image_token", "<image>", p->tokens.soft);
    image_settings_token(s, "image_start_token", "<|image_start|>", p->tokens.begin);
    image_settings_token(s, "image_end_token", "<|image_end|>", p->tokens.end);
    image_settings_token(s, "image_thumbnail_token", "<|img_thumbnail|>", p->tokens.whole);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* A side of merged patches: a number, or two equal ones. */
static uint32_t settings_kernel(struct image_settings *s, struct json_value value,
                                uint32_t fallback)
{
    struct json_value element;
    uint32_t sides[2] = {fallback, fallback}, count = 0;
    bool good =
        json_value_u32(value, &sides[0]) != RESULT_INVALID || json_value_type(value) == JSON_ARRAY;
    sides[1] = sides[0];
    for (struct json_reader at = json_value_elements(value); json_value_next(&at, &element);
         count++)
        good = good && count < 2 && json_value_u32(element, &sides[count]) == RESULT_OK;
    if (good && count != 1 && sides[0] == sides[1] && sides[0] >= 1 && sides[0] <= LIMIT_MERGE_SIDE)
        return sides[0];
    image_settings_fail(s, RESULT_INVALID, "merge_kernel_size",
                        "neither a number nor two equal ones");
    return fallback;
}

/* What the two of Kimi share: patches of config.json, and whose squares become one placeholder. */
static void settings_moonvit(struct image_settings *s, struct image_processor *p)
{
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, true, half_each, half_each, p);
    p->patch = image_settings_agreed(s, "patch_size", "patch_size", LIMIT_PATCH_SIDE, 14);
    p->merge = settings_kernel(s, json_value_member(s->vision, "merge_kernel_size"), 2);
    if (settings_kernel(s, json_value_member(s->image, "merge_kernel_size"), p->merge) != p->merge)
        image_settings_fail(s, RESULT_INVALID, "merge_kernel_size",
                            "contradicts vision_config of config.json");
    image_settings_token(s, "image_token", "<|media_pad|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* The publisher's processor, on PIL. */
static void open_kimi_vl(struct image_settings *s, struct image_processor *p)
{
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    settings_moonvit(s, p);
    p->max_patches = image_settings_u32(s, s->image, "in_token_limit", KIMI_PATCHES, 4096);
    p->most_side = KIMI_SIDE - 1;
    if (!image_settings_bool(s, "pad_input", true))
        image_settings_fail(s, RESULT_UNSUPPORTED, "pad_input", "only true is done");
}

/* The publisher's file has its settings in media_proc_cfg; transformers' has others. */
static void open_kimi_k25(struct image_settings *s, struct image_processor *p)
{
    struct json_value own = json_value_member(s->image, "media_proc_cfg");
    struct json_value size = json_value_member(s->image, "size");
    if (json_value_type(own) == JSON_OBJECT)
        s->image = own;
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    settings_moonvit(s, p);
    if (image_settings_u32(s, s->image, "merge_size", LIMIT_MERGE_SIDE, p->merge) != p->merge)
        image_settings_fail(s, RESULT_INVALID, "merge_size",
                            "contradicts vision_config of config.json");
    p->max_patches = image_settings_u32(s, s->image, "in_patch_limit", KIMI_PATCHES, 16384);
    p->max_patches = image_settings_u32(s, s->image, "max_patches", KIMI_PATCHES, p->max_patches);
    p->fit_side =
        image_settings_u32(s, s->image, "patch_limit_on_one_side", KIMI_PATCHES, KIMI_SIDE);
    p->fit_side = image_settings_u32(s, size, "max_height", KIMI_PATCHES, p->fit_side);
    if (image_settings_u32(s, size, "max_width", KIMI_PATCHES, p->fit_side) != p->fit_side)
        image_settings_fail(s, RESULT_INVALID, "size", "max_width and max_height are not equal");
    if (json_value_type(json_value_member(s->image, "fixed_output_tokens")) != JSON_ABSENT)
        image_settings_fail(s, RESULT_UNSUPPORTED, "fixed_output_tokens", "only null is done");
}

/* `vision_type`: model_type or model_name of vision_config, if classes of one model_type differ by it; else NULL. */
static const struct {
    const char *model_type;
    const char *vision_type;
    enum image_family family;
    enum video_rule videos;
    void (*open)(struct image_settings *s, struct image_processor *p);
} model_types[] = {
    {"qwen2_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN2, open_qwen},
    {"qwen2_5_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN2_5, open_qwen},
    {"qwen2_5_omni_thinker", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_OMNI, open_omni},
    {"qwen3_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN3, open_qwen},
    {"qwen3_vl_moe", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN3, open_qwen},
    {"qwen3_5", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN3, open_qwen},
    {"qwen3_5_moe", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_QWEN3, open_qwen},
    {"glm4v", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_GLM4V, open_glm4v},
    {"glm4v_moe", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_GLM4V, open_glm4v},
    {"glm_ocr", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_NONE, open_glm4v},
    {"paddleocr_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_NONE, open_paddleocr},
    {"ernie4_5_vl_moe", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_NONE, open_ernie},
    {"ernie4_5_moe_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_NONE, open_published_ernie},
    {"hunyuan_vl", NULL, IMAGE_FAMILY_QWEN, VIDEO_RULE_NONE, open_hunyuan},
    {"gemma3", NULL, IMAGE_FAMILY_GEMMA3, VIDEO_RULE_NONE, open_gemma3},
    {"gemma4", NULL, IMAGE_FAMILY_GEMMA4, VIDEO_RULE_GEMMA4, open_gemma4},
    {"idefics3", NULL, IMAGE_FAMILY_IDEFICS3, VIDEO_RULE_NONE, open_idefics3},
    {"smolvlm", NULL, IMAGE_FAMILY_IDEFICS3, VIDEO_RULE_SMOLVLM, open_idefics3},
    {"mistral3", NULL, IMAGE_FAMILY_PIXTRAL, VIDEO_RULE_NONE, open_mistral3},
    {"llava", "pixtral", IMAGE_FAMILY_PIXTRAL, VIDEO_RULE_NONE, open_pixtral},
    {"llava", NULL, IMAGE_FAMILY_LLAVA, VIDEO_RULE_NONE, open_llava},
    {"llava_next", NULL, IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE, open_llava_next},
    {"llava_onevision", NULL, IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE, open_llava_onevision},
    {"deepseek_vl_v2", "deeplip_b_l", IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE,
     image_processor_open_deepseek_ocr},
    {"deepseekocr", "deeplip_b_l", IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE,
     image_processor_open_deepseek_ocr},
    {"deepseek_ocr", "deeplip_b_l", IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE,
     image_processor_open_deepseek_ocr},
    {"deepseek_vl_v2", NULL, IMAGE_FAMILY_MOSAIC, VIDEO_RULE_NONE, image_processor_open_deepseek},
    {"internvl", NULL, IMAGE_FAMILY_TILES, VIDEO_RULE_NONE, open_internvl},
    {"aya_vision", NULL, IMAGE_FAMILY_TILES, VIDEO_RULE_NONE, open_aya},
    {"kimi_vl", NULL, IMAGE_FAMILY_PADDED, VIDEO_RULE_NONE, open_kimi_vl},
    {"kimi_k25", NULL, IMAGE_FAMILY_PADDED, VIDEO_RULE_NONE, open_kimi_k25},
    {"janus", NULL, IMAGE_FAMILY_CENTRED, VIDEO_RULE_NONE, image_processor_open_janus},
    {"multi_modality", NULL, IMAGE_FAMILY_CENTRED, VIDEO_RULE_NONE,
     image_processor_open_multi_modality},
    {"mllama", NULL, IMAGE_FAMILY_CANVAS, VIDEO_RULE_NONE, image_processor_open_mllama},
    {"lfm2_vl", NULL, IMAGE_FAMILY_APART, VIDEO_RULE_NONE, open_lfm2_vl},
    {"cohere2_vision", NULL, IMAGE_FAMILY_TILES, VIDEO_RULE_NONE, open_cohere2},
};

enum result image_processor_open(const struct image_processor_files *files,
                                 struct image_processor *processor, struct error_text *error)
{
    char model_type[64] = "", vision_type[64] = "", vision_name[64] = "";
    struct json_value config = hf_config_main(files->config);
    struct image_settings s = {.files = files,
                               .image = json_value_member(files->processor, "image_processor"),
                               .vision = json_value_member(config, "vision_config"),
                               .error = error};
    *processor = (struct image_processor){.family = IMAGE_FAMILY_NONE};
    if (json_value_type(s.vision) != JSON_OBJECT)
        return RESULT_OK;
    if (json_value_type(s.image) != JSON_OBJECT)
        s.image = files->preprocessor;
    if (json_value_string(json_value_member(config, "model_type"), model_type, sizeof model_type) !=
        RESULT_OK)
        return error_set(error, RESULT_INVALID, "config.json: no model_type");
    (void)json_value_string(json_value_member(s.vision, "model_type"), vision_type,
                            sizeof vision_type);
    (void)json_value_string(json_value_member(s.vision, "model_name"), vision_name,
                            sizeof vision_name);
    for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++) {
        const char *vision = model_types[i].vision_type;
        if (strcmp(model_types[i].model_type, model_type) != 0 ||
            (vision && strcmp(vision, vision_type) != 0 && strcmp(vision, vision_name) != 0))
            continue;
        image_settings_steps(&s);
        model_types[i].open(&s, processor);
        processor->family = s.result == RESULT_OK ? model_types[i].family : IMAGE_FAMILY_NONE;
        processor->video_rule = model_types[i].videos;
        processor->hash_key = keyed_hash_random_key();
        return s.result;
    }
    return error_set(error, RESULT_UNSUPPORTED, "images of model_type %s are not done", model_type);
}

/* --- from a folder ---------------------------------------------------------------------------- */

enum result image_processor_open_folder(int folder_fd, struct image_processor *processor,
                                        struct error_text *error)
{
    struct image_processor_files files = {0};
    struct json_file parts[] = {{"config.json", &files.config, {0}},
                                {"preprocessor_config.json", &files.preprocessor, {0}},
                                {"processor_config.json", &files.processor, {0}},
                                {"tokenizer_config.json", &files.tokenizer, {0}}};
    const size_t count = sizeof parts / sizeof parts[0];
    enum result result = json_files_open(folder_fd, parts, count, error);
    if (result == RESULT_OK)
        result = image_processor_open(&files, processor, error);
    json_files_close(parts, count);
    return result;
}
