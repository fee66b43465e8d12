/*
 * The first bytes choose the codec, the codec reads the headers, the limits are checked, and only then
 * are frames decoded. A frame is resized as soon as it is decoded, so one is held at a time.
 */
#include "frontend/image/video_decoder.h"

#include <string.h>

#include "frontend/image/image_decoder.h"
#include "frontend/image/video_codec.h"
#include "frontend/image/video_container.h"
#include "proto/limits.h"
#include "proto/must.h"

#define UNKNOWN_KIND "this is no video that is supported: MP4, MOV, WebM, Matroska, GIF, WebP"

/* --- frames ----------------------------------------------------------------------------------- */

bool video_taker_is_done(const struct video_taker *taker)
{
    return taker->taken == taker->order->count;
}

bool video_taker_wants(const struct video_taker *taker, uint32_t index)
{
    return !video_taker_is_done(taker) && taker->order->indices[taker->taken] == index;
}

enum result video_taker_take(struct video_taker *taker, uint32_t index,
                             const struct image_pixels *frame, struct error_text *error)
{
    const struct video_order *order = taker->order;
    size_t bytes = video_order_frame_bytes(order);
    const uint8_t *made = NULL;
    while (video_taker_wants(taker, index)) {
        uint8_t *out = taker->out + taker->taken * bytes;
        if (made) {
            memcpy(out, made, bytes);
        } else if (frame->width == order->width && frame->height == order->height) {
            memcpy(out, frame->rgb, bytes);
        } else {
            enum result result = image_resizer_run(frame, order->width, order->height,
                                                   order->filter, order->arithmetic, out, error);
            if (result != RESULT_OK)
                return result;
        }
        made = out;
        taker->taken++;
    }
    return RESULT_OK;
}

/* --- images ----------------------------------------------------------------------------------- */

static enum result still_probe(const struct image_source *source, struct video_header *header,
                               struct error_text *error)
{
    struct image_header image;
    enum result result = image_decoder_probe(source->bytes, source->byte_count, &image, error);
    if (result != RESULT_OK)
        return result;
    header->width = image.width;
    header->height = image.height;
    header->frames = 1;
    header->duration_us = VIDEO_UNTIMED_US;
    header->work_pixels = (uint64_t)image.width * image.height * image.scans;
    return RESULT_OK;
}

static enum result still_run(const struct image_source *source, const struct video_header *header,
                             struct video_taker *taker, struct error_text *error)
{
    struct image_header image;
    struct image_pixels pixels = {0};
    (void)header;
    enum result result = image_decoder_probe(source->bytes, source->byte_count, &image, error);
    if (result == RESULT_OK)
        result = image_decoder_run(source->bytes, source->byte_count, &image, 0, 0, &pixels, error);
    if (result == RESULT_OK)
        result = video_taker_take(taker, 0, &pixels, error);
    image_pixels_fini(&pixels);
    return result;
}

/* --- kinds ------------------------------------------------------------------------------------ */

static const struct {
    enum result (*probe)(const struct image_source *source, struct video_header *header,
                         struct error_text *error);
    enum result (*run)(const struct image_source *source, const struct video_header *header,
                       struct video_taker *taker, struct error_text *error);
} kinds[VIDEO_KINDS] = {
    [VIDEO_STILL] = {still_probe, still_run},
    [VIDEO_GIF] = {gif_animation_probe, gif_animation_run},
    [VIDEO_WEBP] = {webp_animation_probe, webp_animation_run},
    [VIDEO_CONTAINER] = {video_container_probe, video_container_run},
};

static enum video_kind find_kind(const uint8_t *bytes, size_t byte_count)
{
    static const struct {
        enum video_kind kind;
        size_t at;
        const char *magic;
        size_t magic_bytes;
    } magics[] = {
        {VIDEO_STILL, 0, "\xff\xd8\xff", 3},
        {VIDEO_STILL, 0, "\x89PNG\r\n\x1a\n", 8},
        {VIDEO_GIF, 0, "GIF8", 4},
        {VIDEO_WEBP, 8, "WEBP", 4},
        {VIDEO_CONTAINER, 4, "ftyp", 4},
        {VIDEO_CONTAINER, 4, "moov", 4},
        {VIDEO_CONTAINER, 4, "mdat", 4},
        {VIDEO_CONTAINER, 4, "wide", 4},
        {VIDEO_CONTAINER, 0, "\x1a\x45\xdf\xa3", 4},
    };
    for (size_t i = 0; byte_count >= 12 && i < sizeof magics / sizeof magics[0]; i++) {
        if (memcmp(bytes + magics[i].at, magics[i].magic, magics[i].magic_bytes) == 0)
            return magics[i].kind;
    }
    return VIDEO_KINDS;
}

static enum result check_limits(const struct video_header *header, struct error_text *error)
{
    if (header->width > LIMIT_SOURCE_IMAGE_SIDE || header->height > LIMIT_SOURCE_IMAGE_SIDE ||
        (uint64_t)header->width * header->height > LIMIT_VIDEO_FRAME_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "a video of %u x %u pixels; the most is %u pixels a frame", header->width,
                         header->height, LIMIT_VIDEO_FRAME_PIXELS);
    if (header->frames > LIMIT_VIDEO_SOURCE_FRAMES || header->duration_us > LIMIT_VIDEO_US)
        return error_set(error, RESULT_TOO_LARGE,
                         "a video of %u frames in %llu s; the most is %u in %llu", header->frames,
                         (unsigned long long)(header->duration_us / 1000000),
                         LIMIT_VIDEO_SOURCE_FRAMES, (unsigned long long)(LIMIT_VIDEO_US / 1000000));
    if (header->work_pixels > LIMIT_VIDEO_SOURCE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "its frames have %llu pixels together; the most is %llu",
                         (unsigned long long)header->work_pixels, LIMIT_VIDEO_SOURCE_PIXELS);
    return video_header_is_valid(header) ? RESULT_OK
                                         : error_set(error, RESULT_INVALID, "it has no frames");
}

enum result video_decoder_probe(const uint8_t *bytes, size_t byte_count,
                                struct video_header *header, struct error_text *error)
{
    const struct image_source source = {.bytes = bytes, .byte_count = byte_count};
    if (byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         byte_count, LIMIT_SOURCE_IMAGE_BYTES);
    enum video_kind kind = find_kind(bytes, byte_count);
    if (kind == VIDEO_KINDS)
        return error_set(error, RESULT_UNSUPPORTED, UNKNOWN_KIND);
    *header = (struct video_header){.kind = kind};
    enum result result = kinds[kind].probe(&source, header, error);
    return result == RESULT_OK ? check_limits(header, error) : result;
}

enum result video_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct video_header *header, const struct video_order *order,
                              uint8_t *out, struct error_text *error)
{
    const struct image_source source = {.bytes = bytes, .byte_count = byte_count};
    struct video_taker taker = {order, out, 0};
    must(video_header_is_valid(header) && video_order_is_valid(order, header));
    enum result result = kinds[header->kind].run(&source, header, &taker, error);
    if (result == RESULT_OK && !video_taker_is_done(&taker))
        return error_set(error, RESULT_INVALID, "it has fewer frames than its headers say");
    return result;
}
