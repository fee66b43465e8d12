/*
 * Frames of an animated WebP by libwebp's WebPAnimDecoder, as in PIL: over white if the file declares
 * alpha, otherwise its colours as they are. A WebP without animation is one frame.
 *
 * The headers are read here: libwebp finds the n-th frame by walking a list, so reading all durations
 * with it takes quadratic time.
 */
#include <stdbool.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "frontend/image/video_codec.h"
#include "proto/limits.h"

#define RIFF_BYTES  12u
#define CHUNK_BYTES 8u
#define FRAME_BYTES 16u
#define RGBA_BYTES  4u
#define US_PER_MS   1000u

static uint32_t number_at(const uint8_t *bytes, uint32_t count)
{
    uint32_t value = 0;
    for (uint32_t i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

/* Adds a frame by the head of its chunk. */
static void add_frame(const uint8_t *chunk, struct video_header *header)
{
    uint32_t duration_ms = number_at(chunk + 12, 3);
    uint64_t width = number_at(chunk + 6, 3) + 1, height = number_at(chunk + 9, 3) + 1;
    header->frames++;
    header->duration_us += duration_ms > 0 ? (uint64_t)duration_ms * US_PER_MS : VIDEO_UNTIMED_US;
    header->work_pixels += width * height;
}

enum result webp_animation_probe(const struct image_source *source, struct video_header *header,
                                 struct error_text *error)
{
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(source->bytes, source->byte_count, &features) != VP8_STATUS_OK ||
        features.width < 1 || features.height < 1)
        return error_set(error, RESULT_INVALID, "broken WebP");
    header->width = (uint32_t)features.width;
    header->height = (uint32_t)features.height;
    size_t at = RIFF_BYTES;
    while (features.has_animation && source->byte_count - at >= CHUNK_BYTES &&
           header->frames <= LIMIT_VIDEO_SOURCE_FRAMES) {
        const uint8_t *chunk = source->bytes + at;
        size_t length = number_at(chunk + 4, 4);
        if (length > source->byte_count - at - CHUNK_BYTES)
            return error_set(error, RESULT_INVALID, "the WebP is cut off");
        if (memcmp(chunk, "ANMF", 4) == 0 && length >= FRAME_BYTES)
            add_frame(chunk + CHUNK_BYTES, header);
        at += CHUNK_BYTES + length;
        at += length % 2 && at < source->byte_count;
    }
    if (!features.has_animation) {
        header->frames = 1;
        header->duration_us = VIDEO_UNTIMED_US;
        header->work_pixels = (uint64_t)header->width * header->height;
    }
    /* The decoder keeps a canvas and blends all of it. */
    header->work_pixels += (uint64_t)header->frames * header->width * header->height;
    return header->frames > 0 ? RESULT_OK
                              : error_set(error, RESULT_INVALID, "broken WebP: no frame");
}

static void flatten(const uint8_t *rgba, bool alpha, struct image_pixels *rgb)
{
    uint8_t *out = rgb->rgb;
    for (size_t i = 0; i < (size_t)rgb->width * rgb->height; i++, rgba += RGBA_BYTES) {
        for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
            *out++ = alpha ? image_codec_over_white(rgba[c], rgba[IMAGE_CHANNELS]) : rgba[c];
    }
}

static enum result take_frames(WebPAnimDecoder *decoder, const struct video_header *header,
                               struct video_taker *taker, struct error_text *error)
{
    bool alpha =
        WebPDemuxGetI(WebPAnimDecoderGetDemuxer(decoder), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG;
    struct image_pixels rgb = {0};
    enum result result = image_pixels_init(&rgb, header->width, header->height, error);
    for (uint32_t i = 0; result == RESULT_OK && !video_taker_is_done(taker); i++) {
        uint8_t *rgba = NULL;
        int end_ms = 0;
        if (!WebPAnimDecoderGetNext(decoder, &rgba, &end_ms))
            result = error_set(error, RESULT_INVALID, "broken WebP: frame %u", i);
        else if (video_taker_wants(taker, i)) {
            flatten(rgba, alpha, &rgb);
            result = video_taker_take(taker, i, &rgb, error);
        }
    }
    image_pixels_fini(&rgb);
    return result;
}

enum result webp_animation_run(const struct image_source *source, const struct video_header *header,
                               struct video_taker *taker, struct error_text *error)
{
    WebPAnimDecoderOptions options;
    WebPAnimInfo info;
    const WebPData data = {source->bytes, source->byte_count};
    if (!WebPAnimDecoderOptionsInit(&options))
        return error_set(error, RESULT_INVALID, "another version of libwebp");
    options.color_mode = MODE_RGBA;
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    if (!decoder)
        return error_set(error, RESULT_INVALID, "broken WebP");
    enum result result = RESULT_OK;
    if (!WebPAnimDecoderGetInfo(decoder, &info) || info.canvas_width != header->width ||
        info.canvas_height != header->height)
        result = error_set(error, RESULT_INVALID, "broken WebP: another size");
    if (result == RESULT_OK)
        result = take_frames(decoder, header, taker, error);
    WebPAnimDecoderDelete(decoder);
    return result;
}
