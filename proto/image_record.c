/*
 * Places the pixels of a request's images in the payload, and checks image records in the worker.
 *
 * The places follow from the sizes: records first, then each image's bytes on the next multiple of
 * 64. So one walk over the list both writes and checks the places; no two images overlap and none
 * reaches outside. Sides and counts are bounded before they are multiplied.
 *
 * Pixels and token ids are not read here. Whether an image's token count fits its size depends on
 * the model family and is checked by the model.
 */
#include "proto/image_record.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + IMAGE_ALIGN_BYTES - 1) / IMAGE_ALIGN_BYTES * IMAGE_ALIGN_BYTES;
}

static uint64_t pixels_of(const struct image_record *record)
{
    uint64_t frames = record->frames > 1 ? record->frames : 1;
    if (record->sound != 0)
        return (uint64_t)record->height * record->width * SOUND_VALUE_BYTES;
    return record->tiles * frames * record->height * record->width * IMAGE_PIXEL_BYTES;
}

uint32_t image_record_runs(const struct image_record *record)
{
    uint32_t tiles = record->mosaic[0] > 0 ? 1 : record->tiles;
    return tiles * (record->tile_lines > 0 ? record->tile_lines : 1);
}

uint64_t image_record_place(struct image_record *records, uint32_t count)
{
    uint64_t end = (uint64_t)count * sizeof *records;
    for (uint32_t i = 0; i < count; i++) {
        records[i].pixels_offset = aligned(end);
        records[i].pixels_bytes = pixels_of(&records[i]);
        end = records[i].pixels_offset + records[i].pixels_bytes;
    }
    return end;
}

/* I1, I2: hash and sizes. */
static enum result check_sizes(const struct image_record *record, uint32_t index,
                               struct error_text *error)
{
    static const uint8_t none[IMAGE_HASH_BYTES];
    if (memcmp(record->content_hash, none, sizeof none) == 0)
        return error_set(error, RESULT_CORRUPT, "I1: image %u has no content hash", index);
    if (record->width < 1 || record->width > LIMIT_IMAGE_SIDE || record->height < 1 ||
        record->height > LIMIT_IMAGE_SIDE || record->tiles < 1 ||
        record->tiles > LIMIT_IMAGE_TILES || record->frames > LIMIT_PATCH_FRAMES ||
        pixels_of(record) > (uint64_t)LIMIT_IMAGE_PIXELS * IMAGE_PIXEL_BYTES)
        return error_set(error, RESULT_CORRUPT,
                         "I2: image %u of %u tiles and %u frames of %u x %u pixels", index,
                         record->tiles, record->frames, record->width, record->height);
    return RESULT_OK;
}

/* I7: all zero, or in bounds with the right number of tiles. */
static enum result check_mosaic(const struct image_record *record, uint32_t index,
                                struct error_text *error)
{
    uint32_t most = 0;
    for (size_t i = 0; i < IMAGE_MOSAIC_SIZES; i++)
        most = record->mosaic[i] > most ? record->mosaic[i] : most;
    uint64_t tiles = (uint64_t)record->mosaic[0] * record->mosaic[1] + 1;
    if (most == 0 ||
        (record->mosaic[0] > 0 && record->mosaic[1] > 0 && most <= LIMIT_IMAGE_SIDE &&
         (tiles == record->tiles || tiles == record->tiles + 1ull) && record->tile_lines <= 1))
        return RESULT_OK;
    return error_set(error, RESULT_CORRUPT, "I7: image %u of %u tiles, %u x %u of them a mosaic",
                     index, record->tiles, record->mosaic[1], record->mosaic[0]);
}

/* I3: the placeholders; `end` is the end of the previous span. */
static enum result check_span(const struct image_record *record, uint32_t index, uint32_t end,
                              uint32_t prompt_tokens, struct error_text *error)
{
    bool inside = record->first_token >= end && record->first_token < prompt_tokens &&
                  record->span_tokens <= prompt_tokens - record->first_token;
    bool counted = record->token_count >= 1 && record->token_count <= record->span_tokens &&
                   record->token_count <= LIMIT_IMAGE_TOKENS &&
                   record->tile_lines <= LIMIT_IMAGE_SIDE &&
                   record->token_count % image_record_runs(record) == 0;
    if (!inside || !counted)
        return error_set(error, RESULT_CORRUPT,
                         "I3: image %u with %u placeholders in %u tokens from %u on", index,
                         record->token_count, record->span_tokens, record->first_token);
    return RESULT_OK;
}

/* I9: a sound, or none. */
static enum result check_sound(const struct image_record *record, uint32_t index,
                               struct error_text *error)
{
    if (record->sound == 0 ||
        (record->sound == 1 && record->tiles == 1 && record->frames == 0 &&
         record->mosaic[0] == 0 && record->tile_lines <= 1 && record->width <= LIMIT_AUDIO_MELS))
        return RESULT_OK;
    return error_set(error, RESULT_CORRUPT, "I9: image %u is no sound of %u rows of %u mels", index,
                     record->height, record->width);
}

/* The last temporal patch of the video whose next part is record `index`; NULL: there is none. */
static const struct image_record *patch_before(const struct image_record *records, uint32_t index)
{
    while (index > 0 && records[index - 1].sound == 1 && records[index - 1].joined == 1)
        index--;
    return index > 0 && records[index - 1].frames > 1 ? &records[index - 1] : NULL;
}

/* I8: a part of a video. */
static enum result check_video(const struct image_record *records, uint32_t index,
                               struct error_text *error)
{
    const struct image_record *record = &records[index], *patch = patch_before(records, index);
    bool whole = record->frames <= 1 || (record->tiles == 1 && record->mosaic[0] == 0);
    bool next = patch && patch->frames == record->frames && patch->width == record->width &&
                patch->height == record->height && record->time >= patch->time;
    bool follows = patch && (record->sound == 1 || next) &&
                   record[-1].first_token + record[-1].span_tokens == record->first_token &&
                   record->time <= LIMIT_VIDEO_TIME;
    if (whole && (record->joined == 1 ? follows : record->joined == 0 && record->time == 0))
        return RESULT_OK;
    return error_set(error, RESULT_CORRUPT, "I8: image %u of %u frames at %u, joined %u", index,
                     record->frames, record->time, record->joined);
}

static bool is_usable(float number)
{
    return isfinite(number) && fabsf(number) <= IMAGE_SCALE_MAX;
}

/* I4. */
static enum result check_numbers(const struct image_record *record, uint32_t index,
                                 struct error_text *error)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (!is_usable(record->scale[i]) || !is_usable(record->bias[i]) || record->scale[i] == 0.0f)
            return error_set(error, RESULT_CORRUPT, "I4: image %u with scale %g and bias %g", index,
                             (double)record->scale[i], (double)record->bias[i]);
    }
    return RESULT_OK;
}

/* I6: tokens with equal positions. */
static enum result check_twins(const struct image_record *records, uint32_t index, uint32_t count,
                               uint32_t prompt_tokens, struct error_text *error)
{
    const struct image_record *record = &records[index], *next = record + 1;
    uint32_t begin = index > 0 ? record[-1].first_token + record[-1].span_tokens : 0;
    uint32_t end = record->first_token + record->span_tokens;
    bool last = index + 1 == count;
    uint32_t after = last ? prompt_tokens : next->first_token;
    bool good = record->twins == 0 || (record->twins <= (IMAGE_TWINS_BEFORE | IMAGE_TWINS_AFTER) &&
                                       image_record_runs(record) == 1);
    if (record->twins & IMAGE_TWINS_BEFORE)
        good = good && record->joined == 0 && record->first_token - begin >= IMAGE_TWINS_TOKENS;
    if (record->twins & IMAGE_TWINS_AFTER)
        good = good && (last || next->joined == 0) && after >= end &&
               after - end >= IMAGE_TWINS_TOKENS;
    if (good)
        return RESULT_OK;
    return error_set(error, RESULT_CORRUPT, "I6: image %u with twins %u", index, record->twins);
}

enum result image_record_check(const struct image_record *records, uint32_t count,
                               uint32_t prompt_tokens, uint64_t image_bytes,
                               struct error_text *error)
{
    uint64_t bytes = (uint64_t)count * sizeof *records;
    uint32_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct image_record *record = &records[i];
        enum result result = check_sizes(record, i, error);
        if (result == RESULT_OK)
            result = check_mosaic(record, i, error);
        if (result == RESULT_OK)
            result = check_sound(record, i, error);
        if (result == RESULT_OK)
            result = check_span(record, i, end, prompt_tokens, error);
        if (result == RESULT_OK)
            result = check_video(records, i, error);
        if (result == RESULT_OK)
            result = check_numbers(record, i, error);
        if (result == RESULT_OK)
            result = check_twins(records, i, count, prompt_tokens, error);
        if (result != RESULT_OK)
            return result;
        if (record->pixels_offset != aligned(bytes) || record->pixels_bytes != pixels_of(record))
            return error_set(error, RESULT_CORRUPT, "I5: image %u with pixels at %llu + %llu", i,
                             (unsigned long long)record->pixels_offset,
                             (unsigned long long)record->pixels_bytes);
        bytes = record->pixels_offset + record->pixels_bytes;
        end = record->first_token + record->span_tokens;
    }
    if (bytes != image_bytes)
        return error_set(error, RESULT_CORRUPT, "I5: images of %llu bytes in %llu",
                         (unsigned long long)bytes, (unsigned long long)image_bytes);
    return RESULT_OK;
}
