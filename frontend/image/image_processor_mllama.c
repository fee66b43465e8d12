/*
 * The image processor of Llama 3.2 Vision: an image lies in the upper left corner of a grid of squares, as large as fits,
 * but not larger than it is unless it is smaller than a square. The rest is black. The tower cuts the grid.
 *
 * Source: transformers, image_processing_mllama.py, with its order of operations.
 */
#include <math.h>
#include <string.h>

#include "frontend/image/image_settings.h"

static const float half_each[3] = {0.5f, 0.5f, 0.5f};

void image_processor_open_mllama(struct image_settings *s, struct image_processor *p)
{
    struct json_value size = json_value_member(s->image, "size");
    p->arithmetic = IMAGE_ARITHMETIC_TORCH;
    image_settings_filter(s, IMAGE_FILTER_BILINEAR, p);
    image_settings_normalization(s, true, half_each, half_each, p);
    p->patch = image_settings_u32(s, s->vision, "patch_size", LIMIT_PATCH_SIDE, 14);
    p->side = image_settings_u32(s, s->vision, "image_size", LIMIT_IMAGE_SIDE, 448);
    p->max_tiles =
        image_settings_agreed(s, "max_image_tiles", "max_num_tiles", LIMIT_IMAGE_TILES, 4);
    image_settings_same(s, size, "height", p->side);
    image_settings_same(s, size, "width", p->side);
    if (s->result == RESULT_OK && p->side % p->patch != 0)
        image_settings_fail(s, RESULT_UNSUPPORTED, "image_size", "no multiple of patch_size");
    if (!image_settings_bool(s, "do_pad", true))
        image_settings_fail(s, RESULT_UNSUPPORTED, "do_pad", "only true is done");
    image_settings_token(s, "image_token", "<|image|>", p->tokens.soft);
    memcpy(p->tokens.marker, p->tokens.soft, sizeof p->tokens.marker);
}

/* Of the grids that the image fills at a scale of 1 or more the one at the least, else the one at the largest scale. Of
 * equal ones the first of the fewest squares. */
static void choose_canvas(const struct image_processor *p, bool low, struct image_plan *plan,
                          uint32_t *chosen_rows, uint32_t *chosen_columns)
{
    double chosen = 0;
    uint32_t most = low ? 1 : p->max_tiles;
    *chosen_rows = *chosen_columns = 1;
    for (uint32_t rows = 1; rows <= most; rows++) {
        for (uint32_t columns = 1; columns <= most / rows; columns++) {
            double scale = fmin((double)(rows * p->side) / plan->boxed_height,
                                (double)(columns * p->side) / plan->boxed_width);
            bool better = chosen < 1 ? scale > chosen : scale >= 1 && scale < chosen;
            bool smaller = !(scale < chosen) && !(scale > chosen) &&
                           rows * columns < *chosen_rows * *chosen_columns;
            if (!better && !smaller)
                continue;
            chosen = scale;
            *chosen_rows = rows;
            *chosen_columns = columns;
        }
    }
}

static double bounded(double value, double least, double most)
{
    return fmin(fmax(value, least), most);
}

enum result image_canvas_plan(const struct image_processor *p, bool low, struct image_plan *plan,
                              struct error_text *error)
{
    uint32_t rows, columns;
    double width = plan->boxed_width, height = plan->boxed_height;
    (void)error;
    choose_canvas(p, low, plan, &rows, &columns);
    double target_width = bounded(width, p->side, columns * p->side);
    double target_height = bounded(height, p->side, rows * p->side);
    double wide = target_width / width, high = target_height / height;
    if (wide < high)
        target_height = fmin(fmax(1, floor(height * wide)), target_height);
    else
        target_width = fmin(fmax(1, floor(width * high)), target_width);
    plan->resized_width = (uint32_t)target_width;
    plan->resized_height = (uint32_t)target_height;
    plan->tile_width = columns * p->side;
    plan->tile_height = rows * p->side;
    plan->tile_tokens = 1;
    return RESULT_OK;
}
