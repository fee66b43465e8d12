/*
 * The arithmetic of images. Sides are bounded before they are multiplied: a tile of
 * LIMIT_PATCH_ROWS patches has no side beyond that, and tiles are counted against the same bound.
 *
 * Sizes are not chosen here: the frontend resizes images as the checkpoint's preprocessor says.
 */
#include "worker/plan/model_vision.h"

#include "proto/limits.h"
#include "proto/must.h"

#define SOUND_SQUARE   2u /* rows of a feature */
#define SOUND_MEL_ROWS 2u /* that a row stands for */

uint32_t model_vision_sound_step(const struct model_vision *vision)
{
    return vision->sound_step > 0 ? vision->sound_step : SOUND_MEL_ROWS;
}

uint32_t model_vision_part_columns(const struct model_vision *vision)
{
    return vision->key_columns > 0 ? vision->key_columns : vision->text_hidden;
}

uint32_t model_vision_feature_columns(const struct model_vision *vision)
{
    uint32_t parts =
        vision->crossed_layers > 0 ? 2 * vision->crossed_layers : 1 + vision->deepstack_layers;
    return model_vision_part_columns(vision) * parts;
}

/* --- canvases --------------------------------------------------------------------------------- */

#define CANVAS_ROWS 8u /* of which a square has a multiple, with its padding */

uint32_t model_vision_canvas_count(uint32_t tiles)
{
    uint32_t count = 0;
    for (uint32_t rows = 1; rows <= tiles; rows++)
        count += tiles / rows;
    return count;
}

struct vision_canvas model_vision_canvas(const struct model_vision *vision,
                                         struct image_shape shape)
{
    uint32_t side = vision->canvas_side * vision->patch_side;
    struct vision_canvas canvas = {.rows = shape.height / side, .columns = shape.width / side};
    canvas.aspect = canvas.columns;
    for (uint32_t rows = 1; rows < canvas.rows; rows++)
        canvas.aspect += vision->canvas_tiles / rows;
    canvas.tile_rows = vision->canvas_side * vision->canvas_side + 1;
    canvas.pad_rows = (CANVAS_ROWS - canvas.tile_rows % CANVAS_ROWS) % CANVAS_ROWS;
    return canvas;
}

uint32_t model_vision_seen_rows(const struct model_vision *vision, struct image_shape shape)
{
    if (vision->canvas_tiles == 0)
        return model_vision_feature_rows(vision, shape);
    struct vision_canvas canvas = model_vision_canvas(vision, shape);
    return canvas.rows * canvas.columns * canvas.tile_rows;
}

static enum result check_canvas(const struct model_vision *vision, struct image_shape shape,
                                struct error_text *error)
{
    uint32_t side = vision->canvas_side * vision->patch_side;
    uint64_t rows = shape.height / side, columns = shape.width / side;
    if (shape.tiles == 1 && shape.width % side == 0 && shape.height % side == 0 &&
        rows * columns >= 1 && rows * columns <= vision->canvas_tiles)
        return RESULT_OK;
    return error_set(error, RESULT_INVALID,
                     "%u tiles of %u x %u pixels are no canvas of at most %u squares of %u",
                     shape.tiles, shape.width, shape.height, vision->canvas_tiles, side);
}

/* --- all -------------------------------------------------------------------------------------- */

uint32_t model_vision_square(const struct model_vision *vision)
{
    if (vision->mels > 0)
        return vision->row_features     ? 1
               : vision->sound_join > 0 ? vision->sound_join
                                        : SOUND_SQUARE;
    return vision->merge_side * vision->merge_side;
}

size_t model_vision_row_bytes(const struct model_vision *vision)
{
    size_t frames = vision->frames > 1 ? vision->frames : 1;
    if (vision->mels > 0) /* the last mel row follows at least one */
        return (size_t)(model_vision_sound_step(vision) + 1) * vision->mels * sizeof(float);
    return 3 * frames * vision->patch_side * vision->patch_side;
}

const struct model_vision *model_vision_of(const struct model_vision *vision,
                                           struct image_shape shape)
{
    return shape.sound && vision->sounds ? vision->sounds : vision;
}

uint32_t model_vision_sound_rows(const struct model_vision *vision, struct image_shape shape)
{
    const struct model_vision *of = model_vision_of(vision, shape);
    uint32_t step = model_vision_sound_step(of);
    return (shape.height + (of->sound_ends ? step - 1 : 0)) / step;
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

static enum result check_sound(const struct model_vision *vision, struct image_shape shape,
                               struct error_text *error)
{
    if (!shape.sound)
        return error_set(error, RESULT_INVALID, "the model takes sounds and no images");
    uint32_t rows = model_vision_sound_rows(vision, shape);
    bool whole = vision->sound_ends || shape.height % model_vision_sound_step(vision) == 1;
    if (shape.tiles == 1 && shape.frames <= 1 && shape.width == vision->mels && whole &&
        rows >= (vision->sound_join > 0 ? 1 : model_vision_square(vision)) &&
        rows <= vision->sound_rows)
        return RESULT_OK;
    return error_set(error, RESULT_INVALID, "a sound of %u rows of %u mels", shape.height,
                     shape.width);
}

enum result model_vision_check(const struct model_vision *vision, struct image_shape shape,
                               struct error_text *error)
{
    vision = model_vision_of(vision, shape);
    if (vision->mels > 0)
        return check_sound(vision, shape, error);
    if (shape.sound)
        return error_set(error, RESULT_INVALID, "the model takes no sounds");
    enum result result = check_side(vision, "width", shape.width, error);
    if (result == RESULT_OK)
        result = check_side(vision, "height", shape.height, error);
    if (result != RESULT_OK)
        return result;
    if (shape.frames > 1 && shape.frames != vision->frames)
        return error_set(error, RESULT_INVALID, "the model's patches have %u frames, not %u",
                         vision->frames, shape.frames);
    if (vision->canvas_tiles > 0)
        return check_canvas(vision, shape, error);
    if (vision->framed && shape.tiles != 1)
        return error_set(error, RESULT_INVALID, "the model's images have one tile, not %u",
                         shape.tiles);
    uint64_t columns = shape.width / vision->patch_side;
    uint64_t patches = columns * (shape.height / vision->patch_side) + lead_rows(vision);
    if (shape.tiles == 0 || patches > LIMIT_PATCH_ROWS || shape.tiles > LIMIT_PATCH_ROWS / patches)
        return error_set(error, RESULT_INVALID,
                         "%u tiles of %u x %u pixels are more than %u patches", shape.tiles,
                         shape.width, shape.height, LIMIT_PATCH_ROWS);
    return RESULT_OK;
}

size_t model_vision_tile_bytes(struct image_shape shape)
{
    size_t frames = shape.frames > 1 ? shape.frames : 1;
    if (shape.sound)
        return (size_t)shape.height * shape.width * sizeof(float);
    return frames * shape.height * shape.width * 3;
}

uint32_t model_vision_patch_rows(const struct model_vision *vision, struct image_shape shape)
{
    uint32_t square = model_vision_square(model_vision_of(vision, shape));
    if (shape.sound) /* whole squares */
        return (model_vision_sound_rows(vision, shape) + square - 1) / square * square;
    if (vision->canvas_tiles > 0) {
        struct vision_canvas canvas = model_vision_canvas(vision, shape);
        return vision->canvas_tiles * (canvas.tile_rows + canvas.pad_rows);
    }
    uint32_t columns = shape.width / vision->patch_side, lines = shape.height / vision->patch_side;
    return shape.tiles * (columns * lines + lead_rows(vision));
}

/* Features that the tower makes of a sound. */
static uint32_t sound_features(const struct model_vision *vision, struct image_shape shape)
{
    uint32_t rows = model_vision_sound_rows(vision, shape), square = model_vision_square(vision);
    return (rows + (vision->sound_join > 0 ? square - 1 : 0)) / square;
}

static struct feature_grid merged_grid(const struct model_vision *vision, struct image_shape shape)
{
    uint32_t square = vision->patch_side * vision->merge_side;
    if (shape.sound)
        return (struct feature_grid){
            .height = 1, .width = sound_features(model_vision_of(vision, shape), shape)};
    must(square > 0);
    return (struct feature_grid){.height = shape.height / square, .width = shape.width / square};
}

struct feature_grid model_vision_grid(const struct model_vision *vision, struct image_shape shape)
{
    struct feature_grid grid = merged_grid(vision, shape);
    uint32_t tokens = shape.sound ? model_vision_of(vision, shape)->sound_tokens : 0;
    if (tokens > 0)
        grid.width = tokens;
    if (vision->join_side == 0 || shape.sound)
        return grid;
    return (struct feature_grid){.height =
                                     (grid.height + vision->join_side - 1) / vision->join_side,
                                 .width = (grid.width + vision->join_side - 1) / vision->join_side};
}

uint32_t model_vision_feature_rows(const struct model_vision *vision, struct image_shape shape)
{
    struct feature_grid grid = merged_grid(vision, shape);
    if (vision->canvas_tiles > 0)
        return vision->canvas_tiles * model_vision_canvas(vision, shape).tile_rows;
    return shape.tiles * grid.height * grid.width;
}

static bool is_empty(const struct image_mosaic *mosaic)
{
    return mosaic->rows == 0 && mosaic->columns == 0 && mosaic->kept_height == 0 &&
           mosaic->kept_width == 0 && mosaic->height == 0 && mosaic->width == 0;
}

/* Whether `kept` is the middle of `all` features, resized to `side` or left as it is. */
static bool is_middle(uint64_t all, uint32_t kept, uint32_t side)
{
    return kept <= all && (all - kept) % 2 == 0 && side <= kept;
}

enum result model_vision_check_mosaic(const struct model_vision *vision, struct image_shape shape,
                                      const struct image_mosaic *mosaic, struct error_text *error)
{
    struct feature_grid grid = model_vision_grid(vision, shape);
    vision = model_vision_of(vision, shape);
    if (is_empty(mosaic)) {
        if (!vision->mosaic || (shape.tiles == 1 && !vision->lined))
            return RESULT_OK;
        return error_set(error, RESULT_INVALID, "%u tiles without a mosaic", shape.tiles);
    }
    if (!vision->mosaic)
        return error_set(error, RESULT_INVALID, "the model's tiles form no mosaic");
    uint32_t before = vision->split_views ? 0 : 1;
    bool counted = mosaic->rows >= 1 && mosaic->columns >= 1 && mosaic->rows <= shape.tiles &&
                   mosaic->columns <= shape.tiles &&
                   (uint64_t)mosaic->rows * mosaic->columns + before == shape.tiles;
    bool whole = (uint64_t)mosaic->rows * grid.height == mosaic->height &&
                 (uint64_t)mosaic->columns * grid.width == mosaic->width;
    if (counted && (whole || (!vision->lined && !vision->split_views)) &&
        is_middle((uint64_t)mosaic->rows * grid.height, mosaic->kept_height, mosaic->height) &&
        is_middle((uint64_t)mosaic->columns * grid.width, mosaic->kept_width, mosaic->width))
        return RESULT_OK;
    return error_set(error, RESULT_INVALID,
                     "%u x %u of %u x %u features of %u x %u tiles are no mosaic of %u tiles",
                     mosaic->width, mosaic->height, mosaic->kept_width, mosaic->kept_height,
                     mosaic->columns, mosaic->rows, shape.tiles);
}

uint32_t model_vision_mosaic_rows(const struct image_mosaic *mosaic)
{
    return mosaic->rows > 0 ? mosaic->height * (mosaic->width + 1) : 1;
}

uint32_t model_vision_image_rows(const struct model_vision *vision, struct image_shape shape,
                                 const struct image_mosaic *mosaic)
{
    struct feature_grid grid = model_vision_grid(vision, shape);
    vision = model_vision_of(vision, shape);
    if (shape.sound && vision->sound_tokens > 0)
        return vision->sound_tokens;
    if (vision->framed)
        return grid.height * (grid.width + 1) + 2;
    if (!vision->mosaic)
        return model_vision_feature_rows(vision, shape);
    if (vision->split_views)
        return mosaic->rows > 0 ? model_vision_mosaic_rows(mosaic)
                                : grid.height * (grid.width + 1) + 1;
    uint32_t lines = vision->lined ? grid.height + 1 : 0; /* and the row between the views */
    return grid.height * grid.width + lines + model_vision_mosaic_rows(mosaic);
}
