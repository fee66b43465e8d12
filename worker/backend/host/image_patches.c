/*
 * The order of rows: by image, then tile, then window (in towers with windows), line, square;
 * within a square patches line by line. So the rows of a tile, of a window and of a square are
 * consecutive, and neither attention nor merging needs a table. Features leave the tower in the
 * order of the prompt: line by line of the tile, regardless of windows.
 *
 * A window at a tile's edge has fewer squares.
 *
 * In towers with a lead row a tile begins with a whole square of rows, so that features stay at
 * even distances. Only its last row attends with the patches; the others are a span of their own,
 * and the square's feature is dropped.
 *
 * Rows of a canvas are two spans over the same keys: those of its pixels see all rows, and the others, which
 * follow, see those of pixels.
 *
 * In models with mosaics only the first tile's features are rows of the pool. Those of the others
 * are placed from the lines of the whole grid: resized as by torch's interpolate(bilinear,
 * align_corners=False), whose samples lie at the middles of the new squares. Frames place all rows of an image.
 */
#include "worker/backend/host/image_patches.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"
#include "worker/plan/kv_layout.h"

uint32_t image_patches_square(const struct image_patches *patches)
{
    return model_vision_square(patches->vision);
}

uint32_t image_patches_row(const struct image_patches *patches, const struct patch_tile *tile,
                           uint32_t y, uint32_t x)
{
    uint32_t side = patches->vision->merge_side;
    uint32_t square = y / side * (tile->width / side) + x / side;
    return tile->first_row + square * side * side + y % side * side + x % side;
}

/* A span has at least one square of rows; its last block may have no more than that. */
static uint64_t most_blocks(const struct image_patches *patches)
{
    uint32_t square = image_patches_square(patches);
    return patches->max_rows / KV_BLOCK_TOKENS + patches->max_rows / square + 1;
}

static uint64_t block_floats(const struct plan *plan)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct column_slice *queries = &plan->ops[i].params.patch_attention.queries;
        uint64_t floats = (uint64_t)2 * KV_BLOCK_TOKENS * queries->heads * queries->head_dim;
        if (plan->ops[i].stem == OP_patch_attention && floats > most)
            most = floats;
    }
    return most;
}

static void init_spans(struct patch_spans *spans, uint64_t most_spans, uint64_t blocks)
{
    spans->spans = must_alloc(most_spans, sizeof *spans->spans);
    spans->blocks = must_alloc(blocks, sizeof *spans->blocks);
}

/* A sound has at least one square. A line of a mosaic has at least one feature and one row more; a frame has two rows beside them. */
uint32_t image_patches_mixes_most(const struct model_vision *vision, uint32_t squares)
{
    if (vision->sound_tokens > 0)
        return vision->sound_tokens * squares;
    return vision->framed || vision->split_views ? 4 * squares : vision->mosaic ? 2 * squares : 0;
}

enum result image_patches_init(struct image_patches *patches, const struct plan *plan,
                               uint32_t max_rows, struct error_text *error)
{
    *patches = (struct image_patches){.vision = &plan->vision, .max_rows = max_rows};
    uint64_t blocks = most_blocks(patches);
    uint32_t squares =
        max_rows / image_patches_square(patches) + 1; /* at least one per tile and window */
    patches->places = must_alloc(max_rows, sizeof *patches->places);
    patches->tiles = must_alloc(squares, sizeof *patches->tiles);
    patches->feature_rows = must_alloc(squares, sizeof *patches->feature_rows);
    patches->max_mixes = image_patches_mixes_most(&plan->vision, squares);
    patches->mixes = must_alloc(patches->max_mixes + 1, sizeof *patches->mixes);
    patches->block_table = must_alloc(blocks, sizeof *patches->block_table);
    init_spans(&patches->whole, squares, blocks);
    init_spans(&patches->windows, squares, blocks);
    for (uint32_t b = 0; b < blocks; b++)
        patches->block_table[b] = b;
    uint64_t bytes = blocks * block_floats(plan) * sizeof(float);
    enum result result =
        lazy_memory_reserve(&patches->attention, bytes, false, "attention over patches", error);
    patches->keys_values = patches->attention.bytes;
    return result;
}

void image_patches_fini(struct image_patches *patches)
{
    free(patches->places);
    free(patches->tiles);
    free(patches->feature_rows);
    free(patches->mixes);
    free(patches->block_table);
    free(patches->whole.spans);
    free(patches->whole.blocks);
    free(patches->windows.spans);
    free(patches->windows.blocks);
    lazy_memory_release(&patches->attention);
}

/* Rows [first_row, patches->rows) are a span. */
static void end_span(const struct image_patches *patches, struct patch_spans *spans,
                     uint32_t first_row)
{
    uint32_t rows = patches->rows - first_row;
    spans->spans[spans->count++] =
        (struct patch_span){first_row, rows, spans->block_count, first_row, rows};
    for (uint32_t at = 0; at < rows; at += KV_BLOCK_TOKENS) {
        uint32_t left = rows - at;
        spans->blocks[spans->block_count++] =
            (struct patch_block){first_row + at, left < KV_BLOCK_TOKENS ? left : KV_BLOCK_TOKENS};
    }
}

/* The square's feature becomes row `feature_row` of the pool. */
static void add_square(struct image_patches *patches, uint32_t line, uint32_t column,
                       uint32_t feature_row)
{
    uint32_t side = patches->vision->merge_side;
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t x = 0; x < side; x++)
            patches->places[patches->rows++] = (struct patch_place){
                .tile = patches->tile_count, .y = line * side + y, .x = column * side + x};
    patches->feature_rows[patches->features++] = feature_row;
}

/* Adds the square of the lead row and returns the number of that row. */
static uint32_t add_lead(struct image_patches *patches)
{
    uint32_t first_row = patches->rows, square = image_patches_square(patches);
    for (uint32_t i = 0; i < square; i++)
        patches->places[patches->rows++] =
            (struct patch_place){.tile = patches->tile_count, .lead = true};
    patches->feature_rows[patches->features++] = PATCH_FEATURE_NONE;
    patches->rows--;
    if (square > 1)
        end_span(patches, &patches->whole, first_row);
    return patches->rows++;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A sound's rows attend to each other. If they are odd, a further row completes the last square, alone
 * and dropped with it. */
static void add_sound(struct image_patches *patches, const struct encode_image *image)
{
    const struct model_vision *vision = patches->vision;
    uint32_t features = model_vision_feature_rows(vision, image->shape);
    uint32_t all = model_vision_patch_rows(vision, image->shape),
             rows = model_vision_sound_rows(vision, image->shape);
    uint32_t square = image_patches_square(patches), first_row = patches->rows;
    patches->tiles[patches->tile_count] =
        (struct patch_tile){.image = *image, .height = all, .width = 1};
    for (uint32_t y = 0; y < all; y++) {
        patches->places[patches->rows++] =
            (struct patch_place){.tile = patches->tile_count, .y = y};
        if (y % square == 0)
            patches->feature_rows[patches->features++] =
                y / square < features ? image->first_feature + y / square : PATCH_FEATURE_NONE;
        if (y + 1 == rows || y + 1 == all) {
            end_span(patches, &patches->whole, first_row);
            first_row = patches->rows;
        }
    }
    patches->tile_count++;
}

static void add_tile(struct image_patches *patches, const struct encode_image *image,
                     uint32_t number)
{
    const struct model_vision *vision = patches->vision;
    uint32_t merged = vision->patch_side * vision->merge_side;
    struct feature_grid grid = {.height = image->shape.height / merged,
                                .width = image->shape.width / merged};
    uint32_t window = vision->window_side;
    uint32_t first_feature = image->first_feature + number * grid.height * grid.width;
    bool dropped =
        vision->framed || vision->lined || vision->split_views || (vision->mosaic && number > 0);
    uint32_t first_row = vision->lead_row ? add_lead(patches) : patches->rows;
    uint32_t high = window > 0 ? window : grid.height, wide = window > 0 ? window : grid.width;
    struct patch_tile *tile = &patches->tiles[patches->tile_count];
    *tile = (struct patch_tile){.image = *image,
                                .height = grid.height * vision->merge_side,
                                .width = grid.width * vision->merge_side,
                                .first_row = patches->rows};
    tile->image.pixels += number * model_vision_tile_bytes(image->shape);
    for (uint32_t top = 0; top < grid.height; top += high) {
        for (uint32_t left = 0; left < grid.width; left += wide) {
            uint32_t window_row = patches->rows;
            for (uint32_t line = top; line < least(top + high, grid.height); line++)
                for (uint32_t column = left; column < least(left + wide, grid.width); column++)
                    add_square(patches, line, column,
                               dropped ? PATCH_FEATURE_NONE
                                       : first_feature + line * grid.width + column);
            if (window > 0)
                end_span(patches, &patches->windows, window_row);
        }
    }
    end_span(patches, &patches->whole, first_row);
    patches->tile_count++;
}

/* --- canvases --------------------------------------------------------------------------------- */

static void add_canvas_row(struct image_patches *patches, struct patch_place place,
                           uint32_t feature_row)
{
    place.tile = patches->tile_count;
    patches->places[patches->rows++] = place;
    patches->feature_rows[patches->features++] = feature_row;
}

/* The class row and the patches of square `number`, whose pixels are at `line` and `column` of squares, or are
 * not there. */
static void add_canvas_square(struct image_patches *patches, const struct encode_image *image,
                              const struct vision_canvas *canvas, uint32_t number)
{
    uint32_t side = patches->vision->canvas_side, tiles = patches->vision->canvas_tiles;
    uint32_t feature_row = image->first_feature + number * canvas->tile_rows;
    uint32_t line = number / canvas->columns, column = number % canvas->columns;
    struct patch_place place = {.square = canvas->aspect * tiles + number, .lead = true};
    add_canvas_row(patches, place, feature_row++);
    place.lead = line >= canvas->rows;
    for (uint32_t at = 0; at < side * side; at++) {
        place.place = 1 + at;
        if (!place.lead) {
            place.y = line * side + at / side;
            place.x = column * side + at % side;
        }
        add_canvas_row(patches, place, feature_row++);
    }
}

static void add_canvas(struct image_patches *patches, const struct encode_image *image)
{
    const struct vision_canvas canvas = model_vision_canvas(patches->vision, image->shape);
    uint32_t tiles = patches->vision->canvas_tiles, first_row = patches->rows;
    uint32_t seen = model_vision_seen_rows(patches->vision, image->shape);
    patches->tiles[patches->tile_count] =
        (struct patch_tile){.image = *image,
                            .height = canvas.rows * patches->vision->canvas_side,
                            .width = canvas.columns * patches->vision->canvas_side};
    for (uint32_t number = 0; number < tiles; number++)
        add_canvas_square(patches, image, &canvas, number);
    for (uint32_t i = 0; i < tiles * canvas.pad_rows; i++)
        add_canvas_row(patches,
                       (struct patch_place){.square = canvas.aspect * tiles + i / canvas.pad_rows,
                                            .place = CANVAS_PADDING,
                                            .lead = true},
                       PATCH_FEATURE_NONE);
    end_span(patches, &patches->whole, first_row);
    struct patch_span *span = &patches->whole.spans[patches->whole.count - 1];
    if (span->rows > seen) {
        patches->whole.spans[patches->whole.count++] = (struct patch_span){
            first_row + seen, span->rows - seen, span->first_block, first_row, seen};
        span->rows = seen;
    }
    patches->tile_count++;
}

/* --- mosaics ---------------------------------------------------------------------------------- */

/* Where a sample lies between two lines, or columns, of the kept part of a grid. */
struct mosaic_sample {
    uint32_t low; /* of the whole grid */
    uint32_t high;
    float weight; /* of `high` */
};

static struct mosaic_sample sample_at(uint32_t index, uint32_t all, uint32_t kept, uint32_t side)
{
    double at = fmax(0.0, ((double)index + 0.5) * kept / side - 0.5);
    uint32_t low = (uint32_t)at, first = (all - kept) / 2;
    uint32_t high = low + 1 < kept ? low + 1 : low;
    return (struct mosaic_sample){first + low, first + high, (float)(at - low)};
}

/* The batch's row of a feature of the grid of all tiles. `first` is that of the image's first tile. */
static uint32_t grid_feature(const struct image_patches *patches, const struct encode_image *image,
                             uint32_t first, uint32_t line, uint32_t column)
{
    struct feature_grid grid = model_vision_grid(patches->vision, image->shape);
    uint32_t lead = patches->vision->lead_row ? 1 : 0;
    uint32_t rows = model_vision_feature_rows(patches->vision, image->shape) / image->shape.tiles;
    uint32_t tile = patches->vision->split_views ? 0 : 1;
    tile += line / grid.height * image->mosaic.columns + column / grid.width;
    return first + tile * (lead + rows) + lead + line % grid.height * grid.width +
           column % grid.width;
}

static void add_mix(struct image_patches *patches, const struct encode_image *image, uint32_t first,
                    struct mosaic_sample line, struct mosaic_sample column, uint32_t pool_row)
{
    must(patches->mix_count < patches->max_mixes);
    struct feature_mix *mix = &patches->mixes[patches->mix_count++];
    *mix = (struct feature_mix){
        .pool_row = pool_row,
        .features = {grid_feature(patches, image, first, line.low, column.low),
                     grid_feature(patches, image, first, line.low, column.high),
                     grid_feature(patches, image, first, line.high, column.low),
                     grid_feature(patches, image, first, line.high, column.high)},
        .weights = {(1 - line.weight) * (1 - column.weight), (1 - line.weight) * column.weight,
                    line.weight * (1 - column.weight), line.weight * column.weight},
    };
}

/* The row is the learned one of the kind. */
static void add_learned(struct image_patches *patches, enum feature_kind kind, uint32_t pool_row)
{
    must(patches->mix_count < patches->max_mixes);
    patches->mixes[patches->mix_count++] =
        (struct feature_mix){.pool_row = pool_row, .kind = kind, .features = {PATCH_FEATURE_NONE}};
}

/* The row is `feature` of the kind's tensor. */
static void add_placed(struct image_patches *patches, enum feature_kind kind, uint32_t feature,
                       uint32_t pool_row)
{
    must(patches->mix_count < patches->max_mixes);
    patches->mixes[patches->mix_count++] = (struct feature_mix){
        .pool_row = pool_row, .kind = kind, .features = {feature}, .weights = {1.0f}};
}

/* Places the first tile's lines and the row after them; returns the next row of the pool. */
static uint32_t add_first_view(struct image_patches *patches, struct feature_grid grid,
                               uint32_t first, uint32_t pool_row)
{
    for (uint32_t y = 0; y < grid.height; y++) {
        for (uint32_t x = 0; x < grid.width; x++)
            add_placed(patches, FEATURE_OF_SQUARE, first + y * grid.width + x, pool_row++);
        add_learned(patches, FEATURE_OF_SQUARE, pool_row++);
    }
    add_learned(patches, FEATURE_BETWEEN_VIEWS, pool_row++);
    return pool_row;
}

/* Places an image's mosaic after the features of its first tile. */
static void add_mosaic(struct image_patches *patches, const struct encode_image *image,
                       uint32_t first)
{
    const struct image_mosaic *mosaic = &image->mosaic;
    struct feature_grid grid = model_vision_grid(patches->vision, image->shape);
    uint32_t pool_row = image->first_feature, lead = patches->vision->lead_row ? 1 : 0;
    if (patches->vision->lined || (patches->vision->split_views && mosaic->rows == 0))
        pool_row = add_first_view(patches, grid, first + lead, pool_row);
    else if (!patches->vision->split_views)
        pool_row += grid.height * grid.width;
    for (uint32_t y = 0; y < mosaic->height; y++) {
        struct mosaic_sample line =
            sample_at(y, mosaic->rows * grid.height, mosaic->kept_height, mosaic->height);
        for (uint32_t x = 0; x < mosaic->width; x++)
            add_mix(patches, image, first, line,
                    sample_at(x, mosaic->columns * grid.width, mosaic->kept_width, mosaic->width),
                    pool_row++);
        add_learned(patches, FEATURE_OF_SQUARE, pool_row++);
    }
    if (mosaic->rows == 0 && !patches->vision->split_views)
        add_learned(patches, FEATURE_OF_SQUARE, pool_row++);
    must(pool_row - image->first_feature ==
         model_vision_image_rows(patches->vision, image->shape, mosaic));
}

/* --- frames ----------------------------------------------------------------------------------- */

/* Places an image's features line by line, with the rows around them; `first` is its first feature. */
static void add_frame(struct image_patches *patches, const struct encode_image *image,
                      uint32_t first)
{
    struct feature_grid grid = model_vision_grid(patches->vision, image->shape);
    uint32_t pool_row = image->first_feature;
    add_placed(patches, FEATURE_BEFORE_IMAGE, first, pool_row++);
    for (uint32_t y = 0; y < grid.height; y++) {
        for (uint32_t x = 0; x < grid.width; x++)
            add_placed(patches, FEATURE_OF_SQUARE, first + y * grid.width + x, pool_row++);
        add_placed(patches, FEATURE_AFTER_LINE, first, pool_row++);
    }
    add_placed(patches, FEATURE_AFTER_IMAGE, first, pool_row++);
    must(pool_row - image->first_feature ==
         model_vision_image_rows(patches->vision, image->shape, &image->mosaic));
}

/* --- rest of a sound --------------------------------------------------------------------------- */

static void add_rest(struct image_patches *patches, const struct encode_image *image)
{
    uint32_t row = model_vision_feature_rows(patches->vision, image->shape);
    for (; row < patches->vision->sound_tokens; row++)
        add_learned(patches, FEATURE_AFTER_IMAGE, image->first_feature + row);
}

struct mix_share image_patches_mixes(const struct image_patches *patches, uint32_t begin,
                                     uint32_t end)
{
    uint64_t count = patches->mix_count, all = patches->features;
    return (struct mix_share){(uint32_t)(count * begin / all), (uint32_t)(count * end / all)};
}

void image_patches_arrange(struct image_patches *patches, const struct encode_batch *batch)
{
    uint64_t rows = 0;
    patches->rows = patches->features = patches->tile_count = patches->mix_count = 0;
    patches->whole.count = patches->whole.block_count = 0;
    patches->windows.count = patches->windows.block_count = 0;
    must(batch->image_count > 0);
    for (uint32_t i = 0; i < batch->image_count; i++) {
        const struct encode_image *image = &batch->images[i];
        struct error_text error;
        must(model_vision_check(patches->vision, image->shape, &error) == RESULT_OK);
        must(model_vision_check_mosaic(patches->vision, image->shape, &image->mosaic, &error) ==
             RESULT_OK);
        uint32_t first = patches->features;
        rows += model_vision_patch_rows(patches->vision, image->shape);
        must(rows <= patches->max_rows);
        bool canvas = patches->vision->canvas_tiles > 0;
        if (image->shape.sound)
            add_sound(patches, image);
        else if (canvas)
            add_canvas(patches, image);
        for (uint32_t tile = 0; tile < image->shape.tiles && !image->shape.sound && !canvas; tile++)
            add_tile(patches, image, tile);
        if (patches->vision->sound_tokens > 0)
            add_rest(patches, image);
        if (patches->vision->mosaic)
            add_mosaic(patches, image, first);
        if (patches->vision->framed)
            add_frame(patches, image, first);
    }
    must(rows == patches->rows);
}
