/*
 * Plans and pixels of LLaVA-NeXT and LLaVA-OneVision: the whole image as one square, and after it the
 * image at a larger size, padded and cut into squares whose features the tower puts together as a
 * mosaic (proto/image_record.h). Of an image that is much thinner than its grid no features may remain beside the first tile's.
 *
 * The order of operations is Python's, in doubles, because one other rounding gives a line of
 * features more or less. What remains of a tile after its last whole patch is not sent: a
 * convolution over patches does not read it.
 *
 * Source: transformers, select_best_resolution() and get_patch_output_size() of
 * image_processing_utils.py; image_processing_ and processing_ files of llava_next and
 * llava_onevision.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/image/image_settings.h"

#define SHRINK_FROM 1.1 /* of the sides: features are resized from here on */

enum { ROWS, COLUMNS, KEPT_HEIGHT, KEPT_WIDTH, HEIGHT, WIDTH }; /* of image_record.mosaic */

/* --- the plan --------------------------------------------------------------------------------- */

void image_mosaic_choose_grid(const struct image_processor *p, struct image_plan *plan)
{
    uint32_t width = plan->boxed_width, height = plan->boxed_height;
    uint64_t most = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < p->grid_count; i++) {
        uint32_t wide = p->grids[i].columns * p->side, high = p->grids[i].rows * p->side;
        double scale = fmin((double)wide / width, (double)high / height);
        uint64_t scaled = (uint64_t)(width * scale) * (uint64_t)(height * scale);
        uint64_t own = (uint64_t)width * height, effective = scaled < own ? scaled : own;
        uint64_t wasted = (uint64_t)wide * high - effective;
        if (effective > most || (effective == most && wasted < least)) {
            most = effective;
            least = wasted;
            plan->rows = p->grids[i].rows;
            plan->columns = p->grids[i].columns;
        }
    }
}

/* Python's int(round(value, 7)). */
static uint32_t rounded_part(double value)
{
    char digits[64];
    (void)snprintf(digits, sizeof digits, "%.7f", value);
    return (uint32_t)strtoul(digits, NULL, 10);
}

/* Python's value // divisor. */
static uint32_t floor_part(double value, double divisor)
{
    double quotient = (value - fmod(value, divisor)) / divisor, whole = floor(quotient);
    return (uint32_t)(quotient - whole > 0.5 ? whole + 1 : whole);
}

/* The features without the image's padding, and their size in the prompt. */
static void set_mosaic(const struct image_processor *p, struct image_plan *plan)
{
    uint32_t across = p->side / p->patch, *mosaic = plan->mosaic;
    uint32_t high = across * plan->rows, wide = across * plan->columns;
    double width = plan->boxed_width, height = plan->boxed_height;
    if (width / height > (double)wide / high)
        high -= (high - rounded_part(height * (wide / width))) / 2 * 2;
    else
        wide -= (wide - rounded_part(width * (high / height))) / 2 * 2;
    mosaic[ROWS] = plan->rows;
    mosaic[COLUMNS] = plan->columns;
    mosaic[KEPT_HEIGHT] = mosaic[HEIGHT] = high;
    mosaic[KEPT_WIDTH] = mosaic[WIDTH] = wide;
    double most = (double)p->mosaic_tiles * across * across;
    double ratio = p->mosaic_tiles ? sqrt((double)high * wide / most) : 0;
    if (ratio > SHRINK_FROM) {
        mosaic[HEIGHT] = floor_part(high, ratio);
        mosaic[WIDTH] = floor_part(wide, ratio);
    }
    plan->mosaic_tokens = mosaic[HEIGHT] * (mosaic[WIDTH] + 1);
}

enum result image_mosaic_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                              struct error_text *error)
{
    uint32_t width = plan->boxed_width, height = plan->boxed_height;
    uint64_t longer = width > height ? width : height;
    bool whole = low && p->pads_squares;
    if (p->views)
        return image_views_plan(p, low, plan, error);
    if (p->whole_side > 0)
        return image_ocr_plan(p, low, plan, error);
    plan->tile_width = plan->tile_height = p->side / p->patch * p->patch;
    plan->tile_tokens = p->side_tokens;
    plan->mosaic_tokens = 1;
    plan->resized_width = plan->resized_height = p->side;
    if (whole && longer * longer > LIMIT_IMAGE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "an image of %u x %u pixels is too large to be padded to a square", width,
                         height);
    if (whole)
        return RESULT_OK;
    image_mosaic_choose_grid(p, plan);
    uint32_t wide = plan->columns * p->side, high = plan->rows * p->side;
    double scale_x = (double)wide / width, scale_y = (double)high / height;
    bool by_width = scale_x < scale_y;
    plan->resized_width = by_width ? wide : (uint32_t)fmin(ceil(width * scale_y), wide);
    plan->resized_height = by_width ? (uint32_t)fmin(ceil(height * scale_x), high) : high;
    set_mosaic(p, plan);
    return RESULT_OK;
}

/* --- pixels ----------------------------------------------------------------------------------- */

enum result image_mosaic_resize(const struct image_processor *p, const struct image_pixels *source,
                                uint32_t width, uint32_t height, struct image_pixels *resized,
                                struct error_text *error)
{
    enum result result = image_pixels_init(resized, width, height, error);
    if (result != RESULT_OK)
        return result;
    if (width == source->width && height == source->height)
        memcpy(resized->rgb, source->rgb, image_pixels_bytes(width, height));
    else
        result =
            image_resizer_run(source, width, height, p->filter, p->arithmetic, resized->rgb, error);
    return result;
}

void image_mosaic_paste(const struct image_pixels *image, uint32_t left, uint32_t top,
                        const uint8_t colour[IMAGE_CHANNELS], struct image_pixels *canvas)
{
    size_t line_bytes = image_pixels_bytes(image->width, 1);
    for (size_t i = 0; i < (size_t)canvas->width * canvas->height; i++)
        memcpy(canvas->rgb + i * IMAGE_CHANNELS, colour, IMAGE_CHANNELS);
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(canvas->rgb + image_pixels_bytes(canvas->width, y + top) +
                   image_pixels_bytes(left, 1),
               image->rgb + y * line_bytes, line_bytes);
}

/* The image in the middle of a canvas of one colour; odd rests go to the right and the bottom. */
static enum result pad(const struct image_pixels *image, uint32_t width, uint32_t height,
                       const uint8_t colour[IMAGE_CHANNELS], struct image_pixels *padded,
                       struct error_text *error)
{
    enum result result = image_pixels_init(padded, width, height, error);
    if (result != RESULT_OK)
        return result;
    image_mosaic_paste(image, (width - image->width) / 2, (height - image->height) / 2, colour,
                       padded);
    return RESULT_OK;
}

void image_mosaic_cut(const struct image_plan *plan, const struct image_pixels *from, uint32_t x,
                      uint32_t y, uint8_t *out)
{
    size_t bytes = image_pixels_bytes(plan->tile_width, 1);
    for (uint32_t line = 0; line < plan->tile_height; line++)
        memcpy(out + line * bytes,
               from->rgb + image_pixels_bytes(from->width, y + line) + image_pixels_bytes(x, 1),
               bytes);
}

/* The first tile: the whole image, squashed or padded. */
static enum result run_whole(const struct image_processor *p, const struct image_plan *plan,
                             const struct image_pixels *source, uint8_t *out,
                             struct error_text *error)
{
    struct image_pixels square = {0}, resized = {0};
    uint32_t longer = source->width > source->height ? source->width : source->height;
    bool pads = plan->rows == 0 && source->width != source->height;
    enum result result =
        pads ? pad(source, longer, longer, p->pad_colour, &square, error) : RESULT_OK;
    if (result == RESULT_OK)
        result = image_mosaic_resize(p, pads ? &square : source, p->side, p->side, &resized, error);
    if (result == RESULT_OK)
        image_mosaic_cut(plan, &resized, 0, 0, out);
    image_pixels_fini(&square);
    image_pixels_fini(&resized);
    return result;
}

enum result image_mosaic_run(const struct image_processor *p, const struct image_plan *plan,
                             const struct image_pixels *source, uint8_t *out,
                             struct error_text *error)
{
    static const uint8_t black[IMAGE_CHANNELS];
    struct image_pixels resized = {0}, canvas = {0};
    size_t tile_bytes = image_pixels_bytes(plan->tile_width, plan->tile_height);
    if (p->views)
        return image_views_run(p, plan, source, out, error);
    if (p->whole_side > 0)
        return image_ocr_run(p, plan, source, out, error);
    enum result result = run_whole(p, plan, source, out, error);
    if (result != RESULT_OK || plan->rows == 0)
        return result;
    result =
        image_mosaic_resize(p, source, plan->resized_width, plan->resized_height, &resized, error);
    if (result == RESULT_OK)
        result =
            pad(&resized, plan->columns * p->side, plan->rows * p->side, black, &canvas, error);
    for (uint32_t tile = 0; result == RESULT_OK && tile + 1 < plan->tiles; tile++)
        image_mosaic_cut(plan, &canvas, tile % plan->columns * p->side,
                         tile / plan->columns * p->side, out + (tile + 1) * tile_bytes);
    image_pixels_fini(&resized);
    image_pixels_fini(&canvas);
    return result;
}
