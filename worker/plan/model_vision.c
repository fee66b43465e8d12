/*
 * The arithmetic of images. Sides are bounded before they are multiplied: a tile of
 * LIMIT_PATCH_ROWS patches has no side beyond that, and tiles are counted against the same bound.
 *
 * Sizes are not chosen here: the frontend resizes images as the checkpoint's preprocessor says.
 */
#include "worker/plan/model_vision.h"

#include "proto/limits.h"
#include "proto/must.h"

uint32_t model_vision_feature_columns(const struct model_vision *vision)
{
    return vision->text_hidden * (1 + vision->deepstack_layers);
}

/* Rows of a tile that are no patches. */
static uint32_t lead_rows(const struct model_vision *vision)
{
    return vision->lead_row ? vision->merge_side * vision->merge_side : 0;
}

static enum result check_side(const struct model_vision *vision, const char *name, uint32_t pixels,
                              struct error_text *error)
{
    uint32_t square = vision->patch_side * vision->merge_side;
    if (pixels == 0 || pixels % square != 0)
        return error_set(error, RESULT_INVALID, "its %s of %u pixels is no multiple of %u", name,
                         pixels, square);
    uint32_t patches = pixels / vision->patch_side;
    if (vision->fixed_side > 0 && patches != vision->fixed_side)
        return error_set(error, RESULT_INVALID, "its %s is %u pixels, not %u", name, pixels,
                         vision->fixed_side * vision->patch_side);
    if (vision->max_side > 0 && patches > vision->max_side)
        return error_set(error, RESULT_INVALID, "its %s of %u pixels is more than %u", name, pixels,
                         vision->max_side * vision->patch_side);
    return RESULT_OK;
}

enum result model_vision_check(const struct model_vision *vision, struct image_shape shape,
                               struct error_text *error)
{
    enum result result = check_side(vision, "width", shape.width, error);
    if (result == RESULT_OK)
        result = check_side(vision, "height", shape.height, error);
    if (result != RESULT_OK)
        return result;
    uint64_t columns = shape.width / vision->patch_side;
    uint64_t patches = columns * (shape.height / vision->patch_side) + lead_rows(vision);
    if (shape.tiles == 0 || patches > LIMIT_PATCH_ROWS || shape.tiles > LIMIT_PATCH_ROWS / patches)
        return error_set(error, RESULT_INVALID,
                         "%u tiles of %u x %u pixels are more than %u patches", shape.tiles,
                         shape.width, shape.height, LIMIT_PATCH_ROWS);
    return RESULT_OK;
}

uint32_t model_vision_patch_rows(const struct model_vision *vision, struct image_shape shape)
{
    uint32_t columns = shape.width / vision->patch_side, lines = shape.height / vision->patch_side;
    return shape.tiles * (columns * lines + lead_rows(vision));
}

struct feature_grid model_vision_grid(const struct model_vision *vision, struct image_shape shape)
{
    uint32_t square = vision->patch_side * vision->merge_side;
    must(square > 0);
    return (struct feature_grid){.height = shape.height / square, .width = shape.width / square};
}

uint32_t model_vision_feature_rows(const struct model_vision *vision, struct image_shape shape)
{
    struct feature_grid grid = model_vision_grid(vision, shape);
    return shape.tiles * grid.height * grid.width;
}
