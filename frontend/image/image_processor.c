/*
 * Turns a decoded image into the pixels for a vision tower, following a plan.
 *
 * Every family is a sequence of resizings, each of the previous result: into the box that a request
 * asked for, to the longest edge (idefics3), to the size that is cut. A resizing to the same size
 * costs nothing. Tiles are then copied out, followed by the whole image, resized once more from the
 * cut one (idefics3) or from the source (tiles). llava's tile is the middle of the last result; padded images are the upper
 * left part of theirs, centred ones its middle.
 *
 * Normalizing and patches are the worker's.
 */
#include "frontend/image/image_processor.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

/* An image in the sequence of resizings: borrowed at first, then owned. */
struct stage {
    struct image_pixels pixels;
    bool owned;
};

static void stage_fini(struct stage *stage)
{
    if (stage->owned)
        image_pixels_fini(&stage->pixels);
    stage->owned = false;
}

static enum result stage_resize(struct stage *stage, uint32_t width, uint32_t height,
                                enum image_filter filter, enum image_arithmetic arithmetic,
                                struct error_text *error)
{
    if (width == stage->pixels.width && height == stage->pixels.height)
        return RESULT_OK;
    struct image_pixels resized;
    enum result result = image_pixels_init(&resized, width, height, error);
    if (result == RESULT_OK)
        result = image_resizer_run(&stage->pixels, width, height, filter, arithmetic, resized.rgb,
                                   error);
    if (result != RESULT_OK) {
        image_pixels_fini(&resized);
        return result;
    }
    stage_fini(stage);
    *stage = (struct stage){resized, true};
    return RESULT_OK;
}

/* Resizes into the request's box. */
static enum result fit_box(const struct image_plan *plan, struct stage *source,
                           struct error_text *error)
{
    if (plan->boxed_width == plan->width && plan->boxed_height == plan->height)
        return RESULT_OK;
    return stage_resize(source, plan->boxed_width, plan->boxed_height, IMAGE_FILTER_BICUBIC,
                        IMAGE_ARITHMETIC_PIL, error);
}

/* Whether the tile has more pixels than the resized image. */
static bool pads(const struct image_processor *p)
{
    return p->family == IMAGE_FAMILY_PADDED || p->family == IMAGE_FAMILY_CENTRED ||
           p->family == IMAGE_FAMILY_CANVAS;
}

/* All resizings but the last one, which writes into the caller's memory: that of the whole image
 * after the tiles, or of an image that is not cut. */
static enum result run_stages(const struct image_processor *p, const struct image_plan *plan,
                              struct stage *stage, struct error_text *error)
{
    enum result result = RESULT_OK;
    if (result == RESULT_OK && plan->first_width)
        result = stage_resize(stage, plan->first_width, plan->first_height, p->filter,
                              p->arithmetic, error);
    if (result == RESULT_OK && (plan->tiles > 1 || p->family == IMAGE_FAMILY_LLAVA || pads(p)))
        result = stage_resize(stage, plan->resized_width, plan->resized_height, p->filter,
                              p->arithmetic, error);
    return result;
}

/* The tile that begins at pixel x, y. */
static void cut_tile(const struct image_pixels *from, const struct image_plan *plan, uint32_t x,
                     uint32_t y, uint8_t *out)
{
    size_t tile_row = image_pixels_bytes(plan->tile_width, 1);
    size_t row_bytes = image_pixels_bytes(from->width, 1);
    const uint8_t *in = from->rgb + y * row_bytes + image_pixels_bytes(x, 1);
    for (uint32_t line = 0; line < plan->tile_height; line++, in += row_bytes, out += tile_row)
        memcpy(out, in, tile_row);
}

/* The whole image, with pixels of one colour around it. */
static void pad_tile(const struct image_processor *p, const struct image_pixels *from,
                     const struct image_plan *plan, uint8_t *out)
{
    size_t tile_row = image_pixels_bytes(plan->tile_width, 1);
    size_t row_bytes = image_pixels_bytes(from->width, 1);
    bool centred = p->family == IMAGE_FAMILY_CENTRED;
    uint32_t left = centred ? plan->cut_x : 0, top = centred ? plan->cut_y : 0;
    must(left + from->width <= plan->tile_width && top + from->height <= plan->tile_height);
    for (size_t i = 0; i < tile_row * plan->tile_height; i++)
        out[i] = p->pad_colour[i % IMAGE_CHANNELS];
    out += top * tile_row + image_pixels_bytes(left, 1);
    for (uint32_t line = 0; line < from->height; line++)
        memcpy(out + line * tile_row, from->rgb + line * row_bytes, row_bytes);
}

/* Settings that the pixels do not show, but their features do, are part of the key. */
void image_processor_set_key(struct image_processor *processor, const struct keyed_hash_key *key)
{
    struct {
        char purpose[8];
        uint32_t family;
        uint32_t patch;
        float scale[IMAGE_CHANNELS];
        float bias[IMAGE_CHANNELS];
    } settings = {.purpose = "images", .family = processor->family, .patch = processor->patch};
    _Static_assert(sizeof settings == 16 + 8 * IMAGE_CHANNELS, "hashed as bytes: no padding");
    memcpy(settings.scale, processor->scale, sizeof settings.scale);
    memcpy(settings.bias, processor->bias, sizeof settings.bias);
    keyed_hash_wide(key, &settings, sizeof settings, processor->hash_key.words);
}

/* Hashes the pixels and the tiling; settings that are the same for all images of this processor are
 * not included. */
static void hash_content(const struct image_processor *p, const struct image_plan *plan,
                         const uint8_t *out, uint8_t hash[IMAGE_HASH_BYTES])
{
    uint64_t words[8 + IMAGE_MOSAIC_SIZES] = {0,
                                              0,
                                              plan->rows,
                                              plan->columns,
                                              plan->tile_width,
                                              plan->tile_height,
                                              plan->tiles,
                                              plan->tile_tokens};
    uint64_t content[2];
    _Static_assert(sizeof content == IMAGE_HASH_BYTES, "the record's length");
    for (size_t i = 0; i < IMAGE_MOSAIC_SIZES; i++)
        words[8 + i] = plan->mosaic[i];
    keyed_hash_wide(&p->hash_key, out, plan->byte_count, words);
    keyed_hash_wide(&p->hash_key, words, sizeof words, content);
    content[0] |= !content[0] && !content[1]; /* zero means none */
    memcpy(hash, content, sizeof content);
}

/* The tiles of all families but mosaics. */
static enum result run_tiles(const struct image_processor *processor, const struct image_plan *plan,
                             const struct stage *source, uint8_t *out, struct error_text *error)
{
    struct stage stage = {source->pixels, false};
    enum result result = run_stages(processor, plan, &stage, error);
    size_t tile_bytes = image_pixels_bytes(plan->tile_width, plan->tile_height);
    uint8_t *at = out;
    uint32_t cut = plan->without_whole ? plan->tiles : plan->tiles - 1;
    for (uint32_t tile = 0; result == RESULT_OK && tile < cut; tile++, at += tile_bytes)
        cut_tile(&stage.pixels, plan, tile % plan->columns * plan->tile_width,
                 tile / plan->columns * plan->tile_height, at);
    bool middle = processor->family == IMAGE_FAMILY_LLAVA;
    if (result == RESULT_OK && middle)
        cut_tile(&stage.pixels, plan, plan->cut_x, plan->cut_y, at);
    else if (result == RESULT_OK && pads(processor))
        pad_tile(processor, &stage.pixels, plan, at);
    else if (result == RESULT_OK && cut < plan->tiles)
        result = image_resizer_run(plan->whole_of_source ? &source->pixels : &stage.pixels,
                                   plan->tile_width, plan->tile_height, processor->filter,
                                   processor->arithmetic, at, error);
    stage_fini(&stage);
    return result;
}

enum result image_processor_run(const struct image_processor *processor,
                                const struct image_plan *plan, const struct image_pixels *pixels,
                                uint8_t *out, uint8_t hash[IMAGE_HASH_BYTES],
                                struct error_text *error)
{
    must(processor->family != IMAGE_FAMILY_NONE && plan->tiles >= 1 && plan->byte_count > 0);
    struct stage source = {*pixels, false};
    enum result result = fit_box(plan, &source, error);
    if (result == RESULT_OK && processor->family == IMAGE_FAMILY_MOSAIC)
        result = image_mosaic_run(processor, plan, &source.pixels, out, error);
    else if (result == RESULT_OK)
        result = run_tiles(processor, plan, &source, out, error);
    if (result == RESULT_OK)
        hash_content(processor, plan, out, hash);
    stage_fini(&source);
    return result;
}
