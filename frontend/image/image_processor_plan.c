/*
 * Plans an image of a given size: the arithmetic of Hugging Face's image processors, with their
 * order of operations in double precision, because one other rounding gives a row of patches more
 * or less. Python's round() is rint() here (halves to even), int() a cast. Writes the text for the
 * prompt, too.
 */
#include <math.h>
#include <string.h>

#include "frontend/image/image_settings.h"
#include "proto/must.h"

#define QWEN_MOST_RATIO    200.0         /* of the sides */
#define QWEN_LOW_PIXELS    (512u * 512u) /* OpenAI's size for low detail */
#define GEMMA4_LOW_TOKENS  70u           /* minimum of its processor */
#define PIXTRAL_LOW_SIDE   512u          /* as QWEN_LOW_PIXELS */
#define IDEFICS3_MOST_SIDE 4096u         /* of the first resizing */

static enum result refuse_shape(uint32_t width, uint32_t height, struct error_text *error)
{
    return error_set(error, RESULT_INVALID, "an image of %u x %u pixels is too thin for this model",
                     width, height);
}

/* Sets sizes from doubles; too large ones become 0 x 0, which plan_finish() rejects. */
static void set_resized(struct image_plan *plan, double width, double height)
{
    bool fits =
        width >= 1 && width <= LIMIT_IMAGE_SIDE && height >= 1 && height <= LIMIT_IMAGE_SIDE;
    plan->resized_width = fits ? (uint32_t)width : 0;
    plan->resized_height = fits ? (uint32_t)height : 0;
}

/* --- families --------------------------------------------------------------------------------- */

/* Sides become multiples of patch x merge, the area lies between two bounds. */
static enum result plan_qwen(const struct image_processor *p, bool low, struct image_plan *plan,
                             struct error_text *error)
{
    double width = plan->boxed_width, height = plan->boxed_height;
    double factor = p->patch * p->merge;
    double frames = p->frames > 1 ? p->frames : 1, low_most = QWEN_LOW_PIXELS * frames;
    double most = low && p->max_pixels > low_most ? low_most : p->max_pixels;
    double least = p->min_pixels > most ? most : p->min_pixels;
    if (frames > 1 && fmin(height, width) < factor) {
        double scale = fmax(factor / height, factor / width);
        height = floor(height * scale);
        width = floor(width * scale);
    }
    if (p->lifts && height < factor) {
        width = rint(width * factor / height);
        height = factor;
    }
    if (p->lifts && width < factor) {
        height = rint(height * factor / width);
        width = factor;
    }
    if (fmax(height, width) / fmin(height, width) > QWEN_MOST_RATIO)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    double h = rint(height / factor) * factor;
    double w = rint(width / factor) * factor;
    if (frames * h * w > most) {
        double beta = sqrt(frames * height * width / most);
        h = fmax(factor, floor(height / beta / factor) * factor);
        w = fmax(factor, floor(width / beta / factor) * factor);
    } else if (frames * h * w < least) {
        double beta = sqrt(least / (frames * height * width));
        h = ceil(height * beta / factor) * factor;
        w = ceil(width * beta / factor) * factor;
    }
    set_resized(plan, w, h);
    uint32_t columns = plan->resized_width / (p->patch * p->merge);
    uint32_t lines = plan->resized_height / (p->patch * p->merge);
    plan->tile_tokens = p->framed ? lines * (columns + 1) + 2 : lines * columns;
    return RESULT_OK;
}

static enum result plan_gemma3(const struct image_processor *p, bool low, struct image_plan *plan,
                               struct error_text *error)
{
    (void)low;
    (void)error;
    set_resized(plan, p->side, p->side);
    plan->tile_tokens = p->side_tokens;
    return RESULT_OK;
}

/* The largest multiples of patch x pooling that keep the aspect ratio within max_tokens patches; a
 * side that would be 0 gets one multiple and the other side the rest. */
static enum result plan_gemma4(const struct image_processor *p, bool low, struct image_plan *plan,
                               struct error_text *error)
{
    double width = plan->boxed_width, height = plan->boxed_height;
    double tokens = low ? GEMMA4_LOW_TOKENS : p->max_tokens;
    double unit = p->merge * p->patch;
    double most_pixels = tokens * p->merge * p->merge * p->patch * p->patch;
    double factor = sqrt(most_pixels / (height * width));
    double h = floor(factor * height / unit) * unit;
    double w = floor(factor * width / unit) * unit;
    if (h == 0 && w == 0)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    if (h == 0) {
        h = unit;
        w = fmin(floor(width / height) * unit, tokens * unit);
    } else if (w == 0) {
        w = unit;
        h = fmin(floor(height / width) * unit, tokens * unit);
    }
    set_resized(plan, w, h);
    plan->tile_tokens = (uint32_t)(w / unit) * (uint32_t)(h / unit);
    return RESULT_OK;
}

/* The longer side becomes `longest`, the other keeps the aspect and becomes even. */
static void scale_longest(uint32_t *width, uint32_t *height, uint32_t longest)
{
    double aspect = (double)*width / *height;
    bool wide = *width >= *height;
    uint32_t other = (uint32_t)(wide ? longest / aspect : longest * aspect);
    other += other % 2;
    other = other < 1 ? 1 : other;
    *width = wide ? longest : other;
    *height = wide ? other : longest;
}

static void scale_below(uint32_t *width, uint32_t *height, uint32_t most)
{
    double aspect = (double)*width / *height;
    bool wide = *width >= *height;
    if ((wide ? *width : *height) <= most)
        return;
    uint32_t other = (uint32_t)(wide ? most / aspect : most * aspect);
    other = other < 1 ? 1 : other;
    *width = wide ? most : other;
    *height = wide ? other : most;
}

static uint32_t multiple_of(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Resizes to the longest edge; then either to multiples of a tile's side, cut into tiles and
 * followed by the whole image as one tile, or to one tile if it is not cut. */
static enum result plan_idefics3(const struct image_processor *p, bool low, struct image_plan *plan,
                                 struct error_text *error)
{
    uint32_t width = plan->boxed_width, height = plan->boxed_height;
    scale_longest(&width, &height, p->longest_edge);
    scale_below(&width, &height, IDEFICS3_MOST_SIDE);
    plan->first_width = width;
    plan->first_height = height;
    plan->tile_tokens = p->side_tokens;
    plan->tile_width = plan->tile_height = p->side;
    if (!p->split || low) {
        set_resized(plan, p->side, p->side);
        return RESULT_OK;
    }
    double aspect = (double)width / height;
    bool wide = width >= height;
    uint32_t longer = multiple_of(wide ? width : height, p->side);
    uint32_t other = (uint32_t)(wide ? longer / aspect : longer * aspect);
    if (other < 1)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    other = multiple_of(other, p->side);
    set_resized(plan, wide ? longer : other, wide ? other : longer);
    if (longer > p->side || other > p->side) {
        plan->rows = plan->resized_height / p->side;
        plan->columns = plan->resized_width / p->side;
    }
    return RESULT_OK;
}

/* The shorter side becomes shortest_edge, and the middle square is cut out; or a squashed square. */
static enum result plan_llava(const struct image_processor *p, bool low, struct image_plan *plan,
                              struct error_text *error)
{
    uint64_t width = plan->boxed_width, height = plan->boxed_height, edge = p->shortest_edge;
    bool wide = width > height;
    double longer = wide ? floor((double)(edge * width) / (double)height)
                         : floor((double)(edge * height) / (double)width);
    (void)low;
    if (edge == 0)
        set_resized(plan, p->side, p->side);
    else
        set_resized(plan, wide ? longer : (double)edge, wide ? (double)edge : longer);
    if (plan->resized_width == 0 ||
        (uint64_t)plan->resized_width * plan->resized_height > LIMIT_IMAGE_PIXELS)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    plan->tile_width = plan->tile_height = p->side;
    plan->tile_tokens = p->side_tokens;
    plan->cut_x = (plan->resized_width - p->side) / 2;
    plan->cut_y = (plan->resized_height - p->side) / 2;
    return RESULT_OK;
}

/* The smallest scale of both sides that the grid needs to be filled: 1 keeps the image's pixels. */
static double grid_scale(const struct image_processor *p, const struct image_plan *plan,
                         uint32_t columns, uint32_t rows)
{
    return fmin((double)(columns * p->side) / plan->boxed_width,
                (double)(rows * p->side) / plan->boxed_height);
}

/* The first grid that upscales least, or if every grid downscales, the one that downscales least. */
static void choose_scale(const struct image_processor *p, struct image_plan *plan)
{
    double chosen = 0;
    plan->rows = plan->columns = 1;
    for (uint32_t tiles = 1; tiles <= p->max_tiles; tiles++) {
        for (uint32_t columns = 1; columns <= tiles; columns++) {
            if (tiles % columns != 0)
                continue;
            double scale = grid_scale(p, plan, columns, tiles / columns);
            if (chosen < 1 ? scale > chosen : scale >= 1 && scale < chosen) {
                chosen = scale;
                plan->columns = columns;
                plan->rows = tiles / columns;
            }
        }
    }
}

/* The grid of at most max_tiles squares whose aspect is nearest to the image's. Of equally near ones
 * the last in order of their number, then their columns, that has less than twice the image's area,
 * else the first. */
void image_plan_choose_grid(const struct image_processor *p, struct image_plan *plan)
{
    double aspect = (double)plan->boxed_width / plan->boxed_height;
    double area = (double)plan->boxed_width * plan->boxed_height, nearest = INFINITY;
    plan->rows = plan->columns = 1;
    for (uint32_t tiles = p->min_tiles; tiles <= p->max_tiles; tiles++) {
        for (uint32_t columns = 1; columns <= tiles; columns++) {
            if (tiles % columns != 0)
                continue;
            double distance = fabs(aspect - (double)columns / (tiles / columns));
            bool equal = distance == nearest && area > 0.5 * p->side * p->side * tiles;
            if (distance < nearest || equal) {
                nearest = distance;
                plan->columns = columns;
                plan->rows = tiles / columns;
            }
        }
    }
}

/* Squashed to a grid of squares, which are followed by the whole image unless there is one. */
static enum result plan_tiles(const struct image_processor *p, bool low, struct image_plan *plan,
                              struct error_text *error)
{
    (void)error;
    plan->rows = plan->columns = 1;
    if (!low && p->least_upscaling)
        choose_scale(p, plan);
    else if (!low)
        image_plan_choose_grid(p, plan);
    set_resized(plan, (double)plan->columns * p->side, (double)plan->rows * p->side);
    if (plan->rows * plan->columns == 1)
        plan->rows = plan->columns = 0;
    plan->whole_of_source = true;
    plan->tile_width = plan->tile_height = p->side;
    plan->tile_tokens = p->side_tokens;
    return RESULT_OK;
}

/* Sides of the whole image become multiples of patch x merge, between min_tokens and max_tokens of
 * them. */
static void fit_tokens(const struct image_processor *p, const struct image_plan *plan,
                       double *width, double *height)
{
    double w = plan->boxed_width, h = plan->boxed_height, unit = p->patch * p->merge;
    double most = p->max_tokens * unit * unit, least = p->min_tokens * unit * unit;
    *width = fmax(unit, rint(w / unit) * unit);
    *height = fmax(unit, rint(h / unit) * unit);
    if (*width * *height > most) {
        double beta = sqrt(h * w / most);
        *width = fmax(unit, floor(w / beta / unit) * unit);
        *height = fmax(unit, floor(h / beta / unit) * unit);
    } else if (*width * *height < least) {
        double beta = sqrt(least / (h * w));
        *width = ceil(w * beta / unit) * unit;
        *height = ceil(h * beta / unit) * unit;
    }
}

static bool needs_grid(const struct image_processor *p, const struct image_plan *plan)
{
    double unit = p->patch * p->merge;
    double w = fmax(p->patch, rint(plan->boxed_width / unit) * unit);
    double h = fmax(p->patch, rint(plan->boxed_height / unit) * unit);
    return w * h > p->max_tokens * unit * unit * (double)p->tolerance;
}

/* A large image is squashed to a grid of squares, which the whole image follows in its own size. */
static enum result plan_apart(const struct image_processor *p, bool low, struct image_plan *plan,
                              struct error_text *error)
{
    double width, height;
    uint32_t unit = p->patch * p->merge;
    fit_tokens(p, plan, &width, &height);
    set_resized(plan, width, height);
    uint32_t tokens = plan->resized_width / unit * (plan->resized_height / unit);
    uint32_t most = p->side_tokens > p->max_tokens ? p->side_tokens : p->max_tokens;
    if (tokens == 0)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    plan->tile_tokens = tokens;
    if (low || !p->split || !needs_grid(p, plan))
        return RESULT_OK;
    if (!p->omits_whole && tokens > most) /* thin: one side is at its least, the other as it was */
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    if (!p->omits_whole) {
        plan->apart_width = plan->resized_width;
        plan->apart_height = plan->resized_height;
        plan->apart_tokens = tokens;
    }
    image_plan_choose_grid(p, plan);
    set_resized(plan, (double)plan->columns * p->side, (double)plan->rows * p->side);
    plan->without_whole = true;
    plan->tile_width = plan->tile_height = p->side;
    plan->tile_tokens = p->side_tokens;
    return RESULT_OK;
}

/* A side beyond the maximum shrinks both; then sides are rounded up to multiples of patch x merge. */
static enum result plan_pixtral(const struct image_processor *p, bool low, struct image_plan *plan,
                                struct error_text *error)
{
    uint32_t unit = p->patch * p->merge;
    double width = plan->boxed_width, height = plan->boxed_height;
    double most = low && p->longest_edge > PIXTRAL_LOW_SIDE ? PIXTRAL_LOW_SIDE : p->longest_edge;
    double ratio = fmax(height / most, width / most);
    if (ratio > 1) {
        height = floor(height / ratio);
        width = floor(width / ratio);
    }
    if (height < 1 || width < 1)
        return refuse_shape(plan->boxed_width, plan->boxed_height, error);
    uint32_t lines = ((uint32_t)height - 1) / unit + 1, columns = ((uint32_t)width - 1) / unit + 1;
    set_resized(plan, (double)columns * unit, (double)lines * unit);
    plan->lines = lines;
    plan->tile_tokens = lines * columns;
    return RESULT_OK;
}

/* Only larger images are resized, to a number of whole patches; then both sides are filled up. */
static enum result plan_padded(const struct image_processor *p, bool low, struct image_plan *plan,
                               struct error_text *error)
{
    (void)error;
    double width = plan->boxed_width, height = plan->boxed_height, patch = p->patch;
    double count = fmax(1, floor(height / patch)) * fmax(1, floor(width / patch));
    double most = p->max_patches, low_most = QWEN_LOW_PIXELS / (p->patch * p->patch);
    uint32_t unit = p->patch * p->merge;
    most = low && most > low_most ? low_most : most;
    double scale = fmin(1, sqrt(most / count)), longest = p->fit_side * patch;
    if (p->fit_side > 0)
        scale = fmin(scale, fmin(longest / height, longest / width));
    height = fmax(1, floor(height * scale));
    width = fmax(1, floor(width * scale));
    set_resized(plan, width, height);
    plan->tile_width = multiple_of(plan->resized_width, unit);
    plan->tile_height = multiple_of(plan->resized_height, unit);
    plan->tile_tokens = plan->tile_width / unit * (plan->tile_height / unit);
    return RESULT_OK;
}

/* The longer side becomes that of a square, in whose middle the image lies. The publisher of Janus rounds
 * down, transformers to nearest. */
static enum result plan_centred(const struct image_processor *p, bool low, struct image_plan *plan,
                                struct error_text *error)
{
    double width = plan->boxed_width, height = plan->boxed_height, side = p->side;
    double longest = fmax(width, height);
    (void)low;
    (void)error;
    if (p->truncates) {
        width = floor(width / longest * side);
        height = floor(height / longest * side);
    } else {
        width = rint(width * (side / longest));
        height = rint(height * (side / longest));
    }
    set_resized(plan, fmax(width, p->min_side), fmax(height, p->min_side));
    plan->tile_width = plan->tile_height = p->side;
    plan->tile_tokens = p->side_tokens;
    plan->cut_x = (p->side - plan->resized_width) / 2;
    plan->cut_y = (p->side - plan->resized_height) / 2;
    return RESULT_OK;
}

typedef enum result (*plan_function)(const struct image_processor *p, bool low,
                                     struct image_plan *plan, struct error_text *error);

static const plan_function plan_functions[] = {
    [IMAGE_FAMILY_QWEN] = plan_qwen,       [IMAGE_FAMILY_GEMMA3] = plan_gemma3,
    [IMAGE_FAMILY_GEMMA4] = plan_gemma4,   [IMAGE_FAMILY_IDEFICS3] = plan_idefics3,
    [IMAGE_FAMILY_LLAVA] = plan_llava,     [IMAGE_FAMILY_TILES] = plan_tiles,
    [IMAGE_FAMILY_PIXTRAL] = plan_pixtral, [IMAGE_FAMILY_MOSAIC] = image_mosaic_plan,
    [IMAGE_FAMILY_APART] = plan_apart,     [IMAGE_FAMILY_PADDED] = plan_padded,
    [IMAGE_FAMILY_CENTRED] = plan_centred, [IMAGE_FAMILY_CANVAS] = image_canvas_plan};

/* --- all ---------------------------------------------------------------------------------------*/

/* Fits the image into the request's box, aspect ratio kept. */
static enum result plan_box(const struct image_request *request, struct image_plan *plan,
                            struct error_text *error)
{
    plan->boxed_width = plan->width;
    plan->boxed_height = plan->height;
    if (!request->box_width || !request->box_height)
        return RESULT_OK;
    double ratio =
        fmin((double)request->box_width / plan->width, (double)request->box_height / plan->height);
    double width = plan->width * ratio, height = plan->height * ratio;
    if (width < 1 || height < 1)
        return error_set(error, RESULT_INVALID, "resize_shape leaves nothing of %u x %u pixels",
                         plan->width, plan->height);
    if (width > LIMIT_IMAGE_SIDE || height > LIMIT_IMAGE_SIDE ||
        width * height > LIMIT_IMAGE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE, "resize_shape asks for more than %u pixels",
                         LIMIT_IMAGE_PIXELS);
    plan->boxed_width = (uint32_t)width;
    plan->boxed_height = (uint32_t)height;
    return RESULT_OK;
}

/* RESULT_INVALID if the tower has fewer positions than patches. */
static enum result check_positions(const struct image_processor *p, const struct image_plan *plan,
                                   struct error_text *error)
{
    uint32_t side = plan->grid_w > plan->grid_h ? plan->grid_w : plan->grid_h;
    if (p->most_side == 0 || side <= p->most_side)
        return RESULT_OK;
    return error_set(error, RESULT_INVALID,
                     "an image of %u x %u pixels becomes %u x %u patches, and this model has "
                     "positions for %u along a side",
                     plan->width, plan->height, plan->grid_w, plan->grid_h, p->most_side);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Derives the counts from the sizes and checks the bounds. */
static enum result plan_finish(const struct image_processor *p, const struct image_request *request,
                               struct image_plan *plan, struct error_text *error)
{
    plan->tiles = plan->rows * plan->columns + (plan->without_whole ? 0 : 1);
    if (!plan->tile_width) {
        plan->tile_width = plan->resized_width;
        plan->tile_height = plan->resized_height;
    }
    plan->grid_h = plan->tile_height / p->patch;
    plan->grid_w = plan->tile_width / p->patch;
    uint64_t resized = (uint64_t)plan->resized_width * plan->resized_height;
    uint64_t pixels = (uint64_t)plan->tile_width * plan->tile_height * plan->tiles;
    uint64_t apart = (uint64_t)plan->apart_width * plan->apart_height;
    uint64_t tokens = p->family == IMAGE_FAMILY_MOSAIC
                          ? (uint64_t)plan->tile_tokens + plan->mosaic_tokens
                          : (uint64_t)plan->tile_tokens * plan->tiles;
    if (resized == 0 || resized > LIMIT_IMAGE_PIXELS || pixels + apart > LIMIT_IMAGE_PIXELS ||
        tokens + plan->apart_tokens > LIMIT_IMAGE_TOKENS || plan->tiles > LIMIT_IMAGE_TILES)
        return error_set(error, RESULT_TOO_LARGE,
                         "an image of %u x %u pixels becomes too large for this model", plan->width,
                         plan->height);
    plan->token_count = (uint32_t)tokens;
    plan->byte_count = (size_t)pixels * IMAGE_CHANNELS;
    bool boxed = request->box_width && request->box_height;
    plan->wanted_width = boxed ? plan->boxed_width : plan->first_width;
    plan->wanted_height = boxed ? plan->boxed_height : plan->first_height;
    if (!plan->wanted_width) {
        plan->wanted_width = larger(plan->resized_width, plan->apart_width);
        plan->wanted_height = larger(plan->resized_height, plan->apart_height);
    }
    return check_positions(p, plan, error);
}

enum result image_processor_plan(const struct image_processor *processor, uint32_t width,
                                 uint32_t height, const struct image_request *request,
                                 struct image_plan *plan, struct error_text *error)
{
    must(width >= 1 && width <= LIMIT_SOURCE_IMAGE_SIDE && height >= 1 &&
         height <= LIMIT_SOURCE_IMAGE_SIDE);
    if (processor->family == IMAGE_FAMILY_NONE)
        return error_set(error, RESULT_UNSUPPORTED, "this model does not take images");
    *plan = (struct image_plan){.width = width, .height = height};
    uint32_t most = processor->whole_side > 0 ? UINT32_MAX : processor->views ? 2 : 1;
    bool low = request->detail == IMAGE_DETAIL_LOW ||
               (processor->family == IMAGE_FAMILY_MOSAIC && request->images > most);
    enum result result = plan_box(request, plan, error);
    if (result == RESULT_OK)
        result = plan_functions[processor->family](processor, low, plan, error);
    return result == RESULT_OK ? plan_finish(processor, request, plan, error) : result;
}

bool image_plan_apart(const struct image_plan *plan, struct image_plan *whole)
{
    uint32_t patch = plan->grid_w > 0 ? plan->tile_width / plan->grid_w : 1;
    *whole = *plan;
    whole->resized_width = whole->tile_width = plan->apart_width;
    whole->resized_height = whole->tile_height = plan->apart_height;
    whole->apart_width = whole->apart_height = whole->apart_tokens = 0;
    whole->rows = whole->columns = 0;
    memset(whole->mosaic, 0, sizeof whole->mosaic);
    whole->without_whole = false;
    whole->tiles = 1;
    whole->grid_w = whole->tile_width / patch;
    whole->grid_h = whole->tile_height / patch;
    whole->tile_tokens = whole->token_count = plan->apart_tokens;
    whole->byte_count = (size_t)whole->tile_width * whole->tile_height * IMAGE_CHANNELS;
    return plan->apart_tokens > 0;
}

/* --- the prompt ------------------------------------------------------------------------------- */

static void append_soft(const struct image_processor *p, uint32_t count, struct text_buffer *text)
{
    size_t length = strlen(p->tokens.soft);
    for (uint32_t i = 0; i < count; i++)
        text_buffer_append(text, p->tokens.soft, length);
}

static void expand_tiles(const struct image_processor *p, const struct image_plan *plan,
                         struct text_buffer *text)
{
    for (uint32_t row = 1; row <= plan->rows; row++) {
        for (uint32_t column = 1; column <= plan->columns; column++) {
            text_buffer_append_text(text, p->tokens.begin);
            text_buffer_append_format(text, "<row_%u_col_%u>", row, column);
            append_soft(p, plan->tile_tokens, text);
        }
        text_buffer_append_text(text, "\n");
    }
    if (plan->rows)
        text_buffer_append_text(text, "\n");
    text_buffer_append_text(text, p->tokens.begin);
    text_buffer_append_text(text, p->tokens.whole);
    append_soft(p, plan->tile_tokens, text);
    text_buffer_append_text(text, p->tokens.end);
}

/* "TILE_1", its placeholders, …, "TILE_GLOBAL" and its placeholders; the words may be empty. */
static void expand_squares(const struct image_processor *p, const struct image_plan *plan,
                           struct text_buffer *text)
{
    text_buffer_append_text(text, p->tokens.begin);
    for (uint32_t tile = 1; tile <= plan->tiles; tile++) {
        if (tile == plan->tiles)
            text_buffer_append_text(text, p->tokens.whole);
        else if (p->tokens.tile[0])
            text_buffer_append_format(text, "%s_%u", p->tokens.tile, tile);
        append_soft(p, plan->tile_tokens, text);
        text_buffer_append_text(text, p->tokens.after);
    }
    text_buffer_append_text(text, p->tokens.end);
}

/* Lines of placeholders, each followed by a token. */
static void expand_lines(const struct image_processor *p, const struct image_plan *plan,
                         struct text_buffer *text)
{
    for (uint32_t line = 1; line <= plan->lines; line++) {
        append_soft(p, plan->tile_tokens / plan->lines, text);
        text_buffer_append_text(text, line < plan->lines ? p->tokens.after : p->tokens.end);
    }
}

/* Each tile's name and placeholders, then the whole image's. */
static void expand_apart(const struct image_processor *p, const struct image_plan *plan,
                         struct text_buffer *text)
{
    text_buffer_append_text(text, p->tokens.begin);
    for (uint32_t tile = 0; tile < plan->tiles; tile++) {
        if (plan->columns > 0)
            text_buffer_append_format(text, "<|img_row_%u_col_%u|>", tile / plan->columns + 1,
                                      tile % plan->columns + 1);
        append_soft(p, plan->tile_tokens, text);
    }
    if (plan->apart_tokens > 0)
        text_buffer_append_text(text, p->tokens.whole);
    append_soft(p, plan->apart_tokens, text);
    text_buffer_append_text(text, p->tokens.end);
}

void image_processor_expand(const struct image_processor *processor, const struct image_plan *plan,
                            struct text_buffer *text)
{
    if (processor->family == IMAGE_FAMILY_APART) {
        expand_apart(processor, plan, text);
        return;
    }
    if (processor->family == IMAGE_FAMILY_IDEFICS3) {
        expand_tiles(processor, plan, text);
        return;
    }
    if (processor->family == IMAGE_FAMILY_PIXTRAL) {
        expand_lines(processor, plan, text);
        return;
    }
    if (processor->family == IMAGE_FAMILY_TILES) {
        expand_squares(processor, plan, text);
        return;
    }
    const char *gap = processor->family == IMAGE_FAMILY_GEMMA3 ? "\n\n" : "";
    text_buffer_append_text(text, gap);
    text_buffer_append_text(text, processor->tokens.begin);
    append_soft(processor, plan->token_count + plan->apart_tokens, text);
    text_buffer_append_text(text, processor->tokens.end);
    text_buffer_append_text(text, gap);
}
