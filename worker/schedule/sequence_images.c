/*
 * Copies and checks the image part of a request, because the frontend can still write the original,
 * and keeps track of the features that the sequence holds.
 *
 * Features are taken in the order of the prompt. A sequence therefore never holds features of a
 * later image while an earlier one waits for room. What is encoded and when is decided in
 * image_encoder.h.
 */
#include "worker/schedule/sequence_images.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

static enum result copy_part(struct sequence_images *images, const uint8_t *part,
                             uint64_t part_bytes, uint32_t count)
{
    images->count = count;
    images->part_bytes = part_bytes;
    images->part = aligned_alloc(IMAGE_ALIGN_BYTES, (part_bytes + IMAGE_ALIGN_BYTES - 1) /
                                                        IMAGE_ALIGN_BYTES * IMAGE_ALIGN_BYTES);
    images->images = calloc(count, sizeof *images->images);
    if (!images->part || !images->images)
        return RESULT_OUT_OF_MEMORY;
    memcpy(images->part, part, part_bytes);
    images->records = (const struct image_record *)(const void *)images->part;
    return RESULT_OK;
}

static enum result find_tiles(struct sequence_images *images, const uint32_t *prompt,
                              struct error_text *error)
{
    for (uint32_t i = 0; i < images->count; i++)
        images->tile_count += image_record_runs(&images->records[i]);
    images->tiles = calloc(images->tile_count, sizeof *images->tiles);
    if (!images->tiles)
        return RESULT_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < images->count; i++) {
        const struct image_record *record = &images->records[i];
        images->images[i].end_token = record->first_token + record->span_tokens;
        images->images[i].features = FEATURE_IMAGE_NONE;
    }
    return image_tiles_find(images->records, images->count, prompt, images->tiles, error);
}

enum result sequence_images_copy(struct sequence_images *images, const uint8_t *part,
                                 uint64_t part_bytes, uint32_t count, const uint32_t *prompt,
                                 uint32_t prompt_tokens, struct error_text *error)
{
    must(count > 0 && part_bytes >= count * sizeof(struct image_record));
    *images = (struct sequence_images){0};
    enum result result = copy_part(images, part, part_bytes, count);
    if (result == RESULT_OK)
        result = image_record_check(images->records, count, prompt_tokens, part_bytes, error);
    if (result == RESULT_OK)
        result = find_tiles(images, prompt, error);
    if (result != RESULT_OK)
        sequence_images_fini(images);
    return result;
}

void sequence_images_fini(struct sequence_images *images)
{
    must(images->held == 0);
    free(images->part);
    free(images->tiles);
    free(images->images);
    *images = (struct sequence_images){0};
}

static enum result fit_image(const struct image_record *record, const struct image_limits *limits,
                             struct sequence_image *image, struct error_text *error)
{
    struct image_shape shape = {.tiles = record->tiles,
                                .width = record->width,
                                .height = record->height,
                                .frames = record->frames,
                                .sound = record->sound};
    enum result result = model_vision_check(limits->vision, shape, error);
    if (result != RESULT_OK)
        return result;
    image->mosaic = (struct image_mosaic){record->mosaic[0], record->mosaic[1], record->mosaic[2],
                                          record->mosaic[3], record->mosaic[4], record->mosaic[5]};
    result = model_vision_check_mosaic(limits->vision, shape, &image->mosaic, error);
    if (result != RESULT_OK)
        return result;
    image->key = (struct feature_key){.shape = shape};
    memcpy(image->key.content_hash, record->content_hash, sizeof record->content_hash);
    image->patch_rows = model_vision_patch_rows(limits->vision, shape);
    image->seen_rows = model_vision_seen_rows(limits->vision, shape);
    uint32_t rows = model_vision_image_rows(limits->vision, shape, &image->mosaic);
    image->key.rows = rows;
    if (record->token_count != (limits->vision->crossed_layers > 0 ? 1 : rows))
        return error_set(error, RESULT_INVALID, "%u placeholders for %u features",
                         record->token_count, rows);
    if (record->tile_lines > 1 &&
        (limits->vision->grid_positions || limits->vision->spans_whole || limits->vision->mosaic))
        return error_set(error, RESULT_INVALID, "the model's tiles are not divided into lines");
    if (image->patch_rows > limits->patch_rows)
        return error_set(error, RESULT_TOO_LARGE, "%u patches are more than %u", image->patch_rows,
                         limits->patch_rows);
    if (rows > limits->feature_rows)
        return error_set(error, RESULT_TOO_LARGE, "%u features are more than the pool's %u", rows,
                         limits->feature_rows);
    if (limits->vision->spans_whole && !record->sound &&
        rows / record->tiles > limits->whole_tokens)
        return error_set(error, RESULT_TOO_LARGE,
                         "a tile of %u tokens does not fit a step, which has room for %u",
                         rows / record->tiles, limits->whole_tokens);
    return RESULT_OK;
}

enum result sequence_images_fit(struct sequence_images *images, const uint32_t salt[4],
                                const struct image_limits *limits, struct error_text *error)
{
    if (images->count > 0 && !limits->vision)
        return error_set(error, RESULT_UNSUPPORTED, "the model takes no images");
    images->crossed = images->count > 0 && limits->vision->crossed_layers > 0;
    images->sees_ahead = images->crossed && limits->vision->canvas_tiles > 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < images->count; i++) {
        struct error_text words = {""};
        enum result result = fit_image(&images->records[i], limits, &images->images[i], &words);
        if (result != RESULT_OK)
            return error_set(error, result, "image %u: %.200s", i, words.text);
        memcpy(images->images[i].key.salt, salt, sizeof images->images[i].key.salt);
        rows += images->images[i].key.rows;
    }
    if (images->crossed && rows > limits->feature_rows)
        return error_set(error, RESULT_TOO_LARGE,
                         "%llu features, held together, are more than the pool's %u",
                         (unsigned long long)rows, limits->feature_rows);
    for (uint32_t i = 0; i < images->tile_count; i++) {
        struct image_tile *tile = &images->tiles[i];
        tile->time = images->records[tile->image].time;
        tile->joined = images->records[tile->image].joined != 0;
        tile->sound = images->records[tile->image].sound != 0;
        tile->twins = images->records[tile->image].twins;
        tile->grid = model_vision_grid(limits->vision, images->images[tile->image].key.shape);
        if (limits->vision->framed)
            tile->framed_columns = tile->grid.width + 1;
        if (images->records[tile->image].tile_lines > 1 || limits->vision->mosaic ||
            limits->vision->framed || images->crossed)
            tile->grid = (struct feature_grid){.height = 1, .width = tile->token_count};
    }
    image_tiles_place(images->tiles, images->tile_count);
    return RESULT_OK;
}

const uint8_t *sequence_images_pixels(const struct sequence_images *images, uint32_t image)
{
    must(image < images->count);
    return images->part + images->records[image].pixels_offset;
}

/* --- features --------------------------------------------------------------------------------- */

void sequence_images_skip(struct sequence_images *images, uint32_t computed)
{
    for (uint32_t i = 0; i < images->count && images->images[i].end_token <= computed; i++) {
        images->hits += !images->images[i].looked_up;
        images->images[i].looked_up = true;
    }
}

uint32_t sequence_images_wanted(const struct sequence_images *images, uint32_t computed)
{
    uint32_t image = 0;
    while (image < images->count &&
           ((images->images[image].end_token <= computed && !images->crossed) ||
            images->images[image].features != FEATURE_IMAGE_NONE))
        image++;
    return image;
}

void sequence_images_hold(struct sequence_images *images, uint32_t image,
                          const struct feature_cache *cache, uint32_t features)
{
    must(image < images->count && images->images[image].features == FEATURE_IMAGE_NONE);
    images->images[image].features = features;
    images->images[image].first_row = feature_cache_first_row(cache, features);
    images->held++;
}

uint32_t sequence_images_ready_tokens(const struct sequence_images *images,
                                      const struct feature_cache *cache, uint32_t computed)
{
    uint32_t at =
        images->crossed ? 0 : image_tiles_after(images->tiles, images->tile_count, computed);
    for (; at < images->tile_count; at++) {
        uint32_t features = images->images[images->tiles[at].image].features;
        if (features == FEATURE_IMAGE_NONE || !feature_cache_is_ready(cache, features))
            break;
    }
    if (at == images->tile_count)
        return UINT32_MAX;
    uint32_t first = images->sees_ahead ? 0 : images->tiles[at].first_token;
    return first > computed ? first - computed : 0;
}

void sequence_images_release(struct sequence_images *images, struct feature_cache *cache,
                             uint32_t computed)
{
    if (images->crossed && computed != UINT32_MAX)
        return;
    for (uint32_t i = 0; i < images->count && images->held > 0; i++) {
        struct sequence_image *image = &images->images[i];
        if (image->features == FEATURE_IMAGE_NONE || image->end_token > computed)
            continue;
        feature_cache_give(cache, image->features);
        image->features = FEATURE_IMAGE_NONE;
        images->held--;
    }
}

uint32_t sequence_images_feature_row(const struct sequence_images *images, uint32_t token)
{
    uint32_t at = image_tiles_after(images->tiles, images->tile_count, token);
    if (at == images->tile_count || token < images->tiles[at].first_token)
        return ROW_FEATURE_NONE;
    const struct image_tile *tile = &images->tiles[at];
    const struct sequence_image *image = &images->images[tile->image];
    must(image->features != FEATURE_IMAGE_NONE);
    return image->first_row + tile->first_feature + (token - tile->first_token);
}

uint32_t sequence_images_ranges(const struct sequence_images *images, struct feature_range *ranges)
{
    uint32_t count = images->crossed ? images->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct sequence_image *image = &images->images[i];
        must(image->features != FEATURE_IMAGE_NONE);
        ranges[i] = (struct feature_range){image->first_row, image->seen_rows};
        if (images->sees_ahead)
            ranges[count + i] = (struct feature_range){image->first_row, image->key.rows};
    }
    return images->sees_ahead ? 2 * count : count;
}

struct row_crossing sequence_images_crossing(const struct sequence_images *images, uint32_t token,
                                             uint32_t first_range)
{
    uint32_t end = 0, begin;
    if (!images->crossed)
        return (struct row_crossing){0};
    while (end < images->count && images->records[end].first_token <= token)
        end++;
    if (end == 0)
        return (struct row_crossing){.first_range = first_range + images->count,
                                     .range_count = images->sees_ahead ? images->count : 0,
                                     .blind = true};
    for (begin = end - 1; begin > 0; begin--)
        if (images->records[begin].first_token != images->records[begin - 1].first_token + 1)
            break;
    return (struct row_crossing){.first_range = first_range + begin, .range_count = end - begin};
}

/* --- content of prefixes ---------------------------------------------------------------------- */

/* Content hashes are keyed already; this only makes the result depend on order and place. */
static uint64_t mix(uint64_t state, uint64_t word)
{
    state = (state ^ word) * 0x9e3779b97f4a7c15ull;
    return state ^ (state >> 29);
}

void sequence_images_mark(const struct sequence_images *images, uint32_t first, uint32_t end,
                          uint64_t mark[2])
{
    mark[0] = mark[1] = 0;
    uint32_t at = image_tiles_after(images->tiles, images->tile_count, first);
    if (images->sees_ahead && first == 0)
        end = UINT32_MAX - 1;
    for (; at < images->tile_count; at++) {
        const struct image_tile *tile = &images->tiles[at];
        /* Twins change the position of the token before. */
        if (tile->first_token >= end + (tile->twins & IMAGE_TWINS_BEFORE ? 1 : 0))
            break;
        const struct image_record *record = &images->records[tile->image];
        uint64_t content[2];
        memcpy(content, record->content_hash, sizeof content);
        /* Where the tile's first feature would be, relative to `first`. */
        uint64_t place = (uint64_t)tile->first_token + (1ull << 32) - first - tile->first_feature;
        for (uint32_t i = 0; i < 2; i++) {
            mark[i] = mix(mix(mark[i] + 1, content[i]), place);
            mark[i] = mix(mark[i], ((uint64_t)record->width << 32) | record->height);
            mark[i] = mix(mark[i],
                          ((uint64_t)record->time << 32) | (record->twins << 1) | record->joined);
        }
    }
}
