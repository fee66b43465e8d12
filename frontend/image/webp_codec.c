/*
 * WebP by libwebp: lossy and lossless, with and without alpha. Of an animation the first frame is
 * used, on a transparent canvas, or a black one if the file declares no alpha, as in PIL.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "frontend/image/exif_orientation.h"
#include "frontend/image/image_codec.h"
#include "proto/must.h"

#define RIFF_BYTES  12u
#define CHUNK_BYTES 8u
#define RGBA_BYTES  4u

/* --- headers ---------------------------------------------------------------------------------- */

static size_t number_at(const uint8_t *bytes)
{
    return (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 |
           (size_t)bytes[3] << 24;
}

static uint8_t find_orientation(const struct image_source *source)
{
    size_t at = RIFF_BYTES;
    while (source->byte_count >= at && source->byte_count - at >= CHUNK_BYTES) {
        const uint8_t *chunk = source->bytes + at;
        size_t length = number_at(chunk + 4);
        if (length > source->byte_count - at - CHUNK_BYTES)
            return 1;
        if (memcmp(chunk, "EXIF", 4) == 0)
            return exif_orientation_read(chunk + CHUNK_BYTES, length);
        at += CHUNK_BYTES + length + length % 2;
    }
    return 1;
}

static enum result refuse(VP8StatusCode status, struct error_text *error)
{
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a WebP");
    return error_set(error, RESULT_INVALID, "%s",
                     status == VP8_STATUS_NOT_ENOUGH_DATA ? "the WebP is cut off" : "broken WebP");
}

enum result webp_codec_probe(struct image_source *source, struct error_text *error)
{
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(source->bytes, source->byte_count, &features);
    if (status != VP8_STATUS_OK)
        return refuse(status, error);
    if (features.width < 1 || features.height < 1)
        return error_set(error, RESULT_INVALID, "broken WebP: a size of zero");
    source->width = (uint32_t)features.width;
    source->height = (uint32_t)features.height;
    source->orientation = find_orientation(source);
    return RESULT_OK;
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* One frame as RGBA of `width` x `height`, malloc'd. */
static enum result decode_rgba(const uint8_t *bytes, size_t byte_count, uint32_t width,
                               uint32_t height, uint8_t **rgba, struct error_text *error)
{
    size_t size = (size_t)width * height * RGBA_BYTES;
    WebPDecoderConfig config;
    must(WebPInitDecoderConfig(&config));
    uint8_t *out = malloc(size);
    if (!out)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a WebP");
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)(width * RGBA_BYTES);
    config.output.u.RGBA.size = size;
    VP8StatusCode status = WebPDecode(bytes, byte_count, &config);
    if (status != VP8_STATUS_OK) {
        free(out);
        return refuse(status, error);
    }
    *rgba = out;
    return RESULT_OK;
}

static void lay_over_white(const uint8_t *rgba, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, rgba += RGBA_BYTES) {
        for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
            *out++ = image_codec_over_white(rgba[c], rgba[3]);
    }
}

/* The common case: decodes directly into the result. */
static enum result decode_opaque(const struct image_source *source, struct image_pixels *pixels,
                                 struct error_text *error)
{
    size_t stride = image_pixels_bytes(source->width, 1);
    enum result result = image_codec_begin(source, source->width, source->height, pixels, error);
    if (result != RESULT_OK)
        return result;
    WebPDecoderConfig config;
    must(WebPInitDecoderConfig(&config));
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels->rgb;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = stride * source->height;
    VP8StatusCode status = WebPDecode(source->bytes, source->byte_count, &config);
    if (status == VP8_STATUS_OK)
        return RESULT_OK;
    image_pixels_fini(pixels);
    return refuse(status, error);
}

static enum result decode_alpha(const struct image_source *source, struct image_pixels *pixels,
                                struct error_text *error)
{
    uint8_t *rgba = NULL;
    enum result result =
        decode_rgba(source->bytes, source->byte_count, source->width, source->height, &rgba, error);
    if (result == RESULT_OK)
        result = image_codec_begin(source, source->width, source->height, pixels, error);
    if (result == RESULT_OK)
        lay_over_white(rgba, source->width * source->height, pixels->rgb);
    free(rgba);
    return result;
}

static enum result place_frame(const WebPIterator *frame, bool alpha, struct image_pixels *pixels,
                               struct error_text *error)
{
    uint8_t *rgba = NULL;
    uint32_t width = (uint32_t)frame->width, height = (uint32_t)frame->height;
    uint32_t left = (uint32_t)frame->x_offset, top = (uint32_t)frame->y_offset;
    if (width > pixels->width || left > pixels->width - width || height > pixels->height ||
        top > pixels->height - height)
        return error_set(error, RESULT_INVALID, "broken WebP: a frame outside the image");
    enum result result =
        decode_rgba(frame->fragment.bytes, frame->fragment.size, width, height, &rgba, error);
    for (uint32_t y = 0; result == RESULT_OK && y < height; y++) {
        uint8_t *in = rgba + (size_t)y * width * RGBA_BYTES;
        uint8_t *out = pixels->rgb + ((size_t)(top + y) * pixels->width + left) * IMAGE_CHANNELS;
        for (uint32_t x = 0; x < width && !alpha; x++)
            in[x * RGBA_BYTES + 3] = 255;
        lay_over_white(in, width, out);
    }
    free(rgba);
    return result;
}

static enum result decode_animation(const struct image_source *source, bool alpha,
                                    struct image_pixels *pixels, struct error_text *error)
{
    WebPData data = {source->bytes, source->byte_count};
    WebPIterator frame;
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (!demuxer)
        return error_set(error, RESULT_INVALID, "the WebP is cut off or broken");
    struct image_pixels canvas = {0};
    enum result result = image_codec_begin(source, source->width, source->height, &canvas, error);
    if (result == RESULT_OK && !WebPDemuxGetFrame(demuxer, 1, &frame))
        result = error_set(error, RESULT_INVALID, "broken WebP: no frame");
    else if (result == RESULT_OK) {
        memset(canvas.rgb, alpha ? 255 : 0, image_pixels_bytes(canvas.width, canvas.height));
        result = place_frame(&frame, alpha, &canvas, error);
        WebPDemuxReleaseIterator(&frame);
    }
    WebPDemuxDelete(demuxer);
    if (result == RESULT_OK)
        *pixels = canvas;
    else
        image_pixels_fini(&canvas);
    return result;
}

enum result webp_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                              struct error_text *error)
{
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(source->bytes, source->byte_count, &features);
    if (status != VP8_STATUS_OK)
        return refuse(status, error);
    must((uint32_t)features.width == source->width && (uint32_t)features.height == source->height);
    if (features.has_animation)
        return decode_animation(source, features.has_alpha, pixels, error);
    return features.has_alpha ? decode_alpha(source, pixels, error)
                              : decode_opaque(source, pixels, error);
}
