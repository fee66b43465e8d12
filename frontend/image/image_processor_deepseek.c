/*
 * The image processor of DeepSeek-VL2, the publisher's, on PIL: two views of an image, each fitted into its size and padded
 * around the middle. The first view is one tile; the second has the size of candidate_resolutions that keeps most of the image's
 * pixels, and is cut into tiles. In a prompt of more than two images the second view is one tile too.
 *
 * A line of placeholders ends with one more; between the views is another. What remains of a tile after its last whole patch is
 * not sent: a convolution over patches does not read it.
 *
 * DeepSeek-OCR's likewise, but the whole view has a size of its own and comes last, with the row between the views at its end; it
 * is a record of its own (image_plan_apart()). An image larger than a tile has another view before it, squashed to the grid of tiles
 * whose aspect is nearest.
 *
 * Source: mlx-vlm, processing_deepsek_vl_v2.py and processing_deepseekocr.py, which are the publisher's; Pillow, ImageOps.pad() and
 * ImageOps.contain().
 */
#include <math.h>
#include <string.h>

#include "frontend/image/image_settings.h"

#define DEFAULT_SIDE 384u
#define OCR_WHOLE    1024u
#define OCR_TILE     640u
#define OCR_MERGE    4u

static const float half_each[3] = {0.5f, 0.5f, 0.5f};

/* --- settings --------------------------------------------------------------------------------- */

/* What both have. processor_config.json has the settings at its top. */
static void open_padded(struct image_settings *s, struct image_processor *p)
{
    struct json_value file = s->files->processor;
    float mean[IMAGE_CHANNELS];
    if (json_value_type(json_value_member(file, "candidate_resolutions")) != JSON_ABSENT)
        s->image = file;
    p->arithmetic = IMAGE_ARITHMETIC_PIL;
    image_settings_filter(s, IMAGE_FILTER_BICUBIC, p);
    image_settings_normalization(s, image_settings_bool(s, "normalize", true), half_each, half_each,
                                 p);
    memcpy(mean, half_each, sizeof mean);
    image_settings_channels(s, "image_mean", mean);
    for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
        p->pad_colour[c] = (uint8_t)fminf(255.0f, fmaxf(0.0f, mean[c] * 255.0f));
    image_settings_text(s, file, "image_token", "<image>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

void image_processor_open_deepseek(struct image_settings *s, struct image_processor *p)
{
    struct json_value projector = json_value_member(s->files->config, "projector_config");
    open_padded(s, p);
    p->views = true;
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 14);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, DEFAULT_SIDE);
    p->merge = image_settings_u32(s, projector, "downsample_ratio", LIMIT_MERGE_SIDE, 2);
    image_settings_same(s, s->image, "patch_size", p->patch);
    image_settings_same(s, s->image, "downsample_ratio", p->merge);
    uint32_t across = (p->side / p->patch + p->merge - 1) / p->merge;
    p->side_tokens = across * (across + 1) + 1;
    if (across < 1)
        image_settings_fail(s, RESULT_INVALID, "image_size", "less than a patch");
    if (!image_settings_grids(s, s->image, "candidate_resolutions", true, p) &&
        !image_settings_grids(s, s->files->config, "candidate_resolutions", true, p))
        image_settings_fail(s, RESULT_UNSUPPORTED, "candidate_resolutions",
                            "missing in both files");
}

/* Placeholders along the side of a square; 0, with an error, if it is not whole. */
static uint32_t ocr_across(struct image_settings *s, const struct image_processor *p,
                           const char *name, uint32_t side)
{
    uint32_t unit = p->patch * p->merge;
    if (side % unit != 0)
        image_settings_fail(s, RESULT_INVALID, name, "no multiple of four patches");
    return side / unit;
}

void image_processor_open_deepseek_ocr(struct image_settings *s, struct image_processor *p)
{
    struct json_value sam = json_value_member(json_value_member(s->vision, "width"), "sam_vit_b");
    open_padded(s, p);
    p->patch = image_settings_u32(s, sam, "patch_size", LIMIT_PATCH_SIDE, 16);
    p->merge = OCR_MERGE;
    p->whole_side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, OCR_WHOLE);
    p->side = image_settings_u32(s, s->image, "tile_size", LIMIT_IMAGE_SIDE, OCR_TILE);
    p->min_tiles = image_settings_u32(s, s->image, "min_patches", LIMIT_IMAGE_TILES, 2);
    p->max_tiles = image_settings_u32(s, s->image, "max_patches", LIMIT_IMAGE_TILES, 9);
    image_settings_same(s, s->image, "patch_size", p->patch);
    image_settings_same(s, s->image, "downsample_ratio", p->merge);
    uint32_t across = ocr_across(s, p, "image_size", p->whole_side);
    (void)ocr_across(s, p, "tile_size", p->side);
    p->side_tokens = across * (across + 1) + 1;
    if (p->min_tiles > p->max_tiles)
        image_settings_fail(s, RESULT_INVALID, "min_patches", "more than max_patches");
    if (p->side > p->whole_side)
        image_settings_fail(s, RESULT_INVALID, "tile_size", "more than image_size");
}

/* --- the plan --------------------------------------------------------------------------------- */

struct fitted_size {
    uint32_t width;
    uint32_t height;
};

/* The largest size of the image's aspect within another; a side may be 0. */
static struct fitted_size fitted_size(uint32_t own_width, uint32_t own_height, uint32_t width,
                                      uint32_t height)
{
    double own = (double)own_width / own_height, wanted = (double)width / height;
    if (own > wanted)
        height = (uint32_t)rint((double)own_height / own_width * width);
    else if (own < wanted)
        width = (uint32_t)rint((double)own_width / own_height * height);
    return (struct fitted_size){width, height};
}

/* RESULT_INVALID if nothing of the image remains in one of the views. */
static enum result check_thin(const struct image_plan *plan, uint32_t width, uint32_t height,
                              struct error_text *error)
{
    struct fitted_size size = fitted_size(plan->boxed_width, plan->boxed_height, width, height);
    return size.width > 0 && size.height > 0
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "an image of %u x %u pixels is too thin",
                           plan->boxed_width, plan->boxed_height);
}

enum result image_views_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                             struct error_text *error)
{
    uint32_t across = (p->side / p->patch + p->merge - 1) / p->merge;
    plan->rows = plan->columns = 1;
    if (!low)
        image_mosaic_choose_grid(p, plan);
    plan->tile_width = plan->tile_height = p->side / p->patch * p->patch;
    plan->resized_width = plan->columns * p->side;
    plan->resized_height = plan->rows * p->side;
    const uint32_t mosaic[IMAGE_MOSAIC_SIZES] = {plan->rows,          plan->columns,
                                                 plan->rows * across, plan->columns * across,
                                                 plan->rows * across, plan->columns * across};
    memcpy(plan->mosaic, mosaic, sizeof mosaic);
    plan->tile_tokens = p->side_tokens;
    plan->mosaic_tokens = plan->rows * across * (plan->columns * across + 1);
    enum result result = check_thin(plan, p->side, p->side, error);
    return result == RESULT_OK ? check_thin(plan, plan->resized_width, plan->resized_height, error)
                               : result;
}

enum result image_ocr_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                           struct error_text *error)
{
    uint32_t across = p->side / (p->patch * p->merge), side = p->whole_side;
    bool alone = low || (plan->boxed_width <= p->side && plan->boxed_height <= p->side);
    plan->resized_width = plan->resized_height = alone ? side : p->side;
    plan->tile_width = plan->tile_height = plan->resized_width;
    enum result result = check_thin(plan, side, side, error);
    if (alone) {
        plan->tile_tokens = p->side_tokens;
        return result;
    }
    image_plan_choose_grid(p, plan);
    plan->without_whole = true;
    plan->resized_width = plan->columns * p->side;
    plan->resized_height = plan->rows * p->side;
    const uint32_t mosaic[IMAGE_MOSAIC_SIZES] = {plan->rows,          plan->columns,
                                                 plan->rows * across, plan->columns * across,
                                                 plan->rows * across, plan->columns * across};
    memcpy(plan->mosaic, mosaic, sizeof mosaic);
    plan->mosaic_tokens = plan->rows * across * (plan->columns * across + 1);
    plan->apart_width = plan->apart_height = side;
    plan->apart_tokens = p->side_tokens;
    return result;
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* The image fitted into a size, in the middle of a canvas of that size; a half pixel goes to the even side. */
static enum result fit(const struct image_processor *p, const struct image_pixels *source,
                       uint32_t width, uint32_t height, struct image_pixels *canvas,
                       struct error_text *error)
{
    struct image_pixels resized = {0};
    struct fitted_size size = fitted_size(source->width, source->height, width, height);
    enum result result = image_mosaic_resize(p, source, size.width, size.height, &resized, error);
    if (result == RESULT_OK)
        result = image_pixels_init(canvas, width, height, error);
    if (result == RESULT_OK)
        image_mosaic_paste(&resized, (uint32_t)rint((width - size.width) * 0.5),
                           (uint32_t)rint((height - size.height) * 0.5), p->pad_colour, canvas);
    image_pixels_fini(&resized);
    return result;
}

enum result image_views_run(const struct image_processor *p, const struct image_plan *plan,
                            const struct image_pixels *source, uint8_t *out,
                            struct error_text *error)
{
    struct image_pixels whole = {0}, canvas = {0};
    size_t tile_bytes = image_pixels_bytes(plan->tile_width, plan->tile_height);
    enum result result = fit(p, source, p->side, p->side, &whole, error);
    if (result == RESULT_OK)
        result = fit(p, source, plan->columns * p->side, plan->rows * p->side, &canvas, error);
    if (result == RESULT_OK)
        image_mosaic_cut(plan, &whole, 0, 0, out);
    for (uint32_t tile = 0; result == RESULT_OK && tile + 1 < plan->tiles; tile++)
        image_mosaic_cut(plan, &canvas, tile % plan->columns * p->side,
                         tile / plan->columns * p->side, out + (tile + 1) * tile_bytes);
    image_pixels_fini(&whole);
    image_pixels_fini(&canvas);
    return result;
}

/* The whole view, or the tiles of the other one. */
enum result image_ocr_run(const struct image_processor *p, const struct image_plan *plan,
                          const struct image_pixels *source, uint8_t *out, struct error_text *error)
{
    struct image_pixels canvas = {0};
    size_t tile_bytes = image_pixels_bytes(plan->tile_width, plan->tile_height);
    uint32_t wide = plan->columns > 0 ? plan->columns : 1, side = plan->tile_width;
    enum result result = plan->rows > 0 ? image_mosaic_resize(p, source, plan->columns * side,
                                                              plan->rows * side, &canvas, error)
                                        : fit(p, source, side, side, &canvas, error);
    for (uint32_t tile = 0; result == RESULT_OK && tile < plan->tiles; tile++)
        image_mosaic_cut(plan, &canvas, tile % wide * side, tile / wide * side,
                         out + tile * tile_bytes);
    image_pixels_fini(&canvas);
    return result;
}
