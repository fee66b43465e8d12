/*
 * Decodes the first frame of a GIF with the same result as PIL: on the logical screen, enlarged if
 * the frame extends beyond it, in the frame's own palette or the file's, transparent pixels over
 * white. Around a smaller frame the screen is transparent if the frame has a transparent colour,
 * else it has colour 0.
 *
 * Other frames and the background colour are ignored. A file with fewer pixels than its frame is
 * invalid.
 */
#include <string.h>

#include "frontend/image/gif_frames.h"
#include "proto/must.h"

static enum result first_frame(const struct image_source *source, struct gif_frame *frame,
                               struct error_text *error)
{
    struct gif_reader reader;
    struct gif_frame screen;
    enum result result = gif_frames_open(source, &reader, &screen, error);
    if (result == RESULT_OK)
        result = gif_frames_next(&reader, &screen, frame, error);
    if (result == RESULT_EMPTY)
        return error_set(error, RESULT_INVALID, "%s",
                         reader.at == source->byte_count ? "the GIF is cut off"
                                                         : "broken GIF: no frame");
    return result;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

enum result gif_codec_probe(struct image_source *source, struct error_text *error)
{
    struct gif_frame frame;
    enum result result = first_frame(source, &frame, error);
    if (result == RESULT_OK) {
        source->width = larger(frame.screen_width, frame.left + frame.width);
        source->height = larger(frame.screen_height, frame.top + frame.height);
    }
    return result;
}

/* --- pixels ----------------------------------------------------------------------------------- */

static void paint(const struct gif_frame *frame, const uint8_t *colours, uint32_t count,
                  uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, out += IMAGE_CHANNELS) {
        if (frame->has_clear && colours[i] == frame->clear)
            memset(out, 255, IMAGE_CHANNELS);
        else
            memcpy(out, frame->palette[colours[i]], IMAGE_CHANNELS);
    }
}

static void paint_frame(const struct gif_frame *frame, const uint8_t *colours,
                        struct image_pixels *pixels)
{
    uint8_t around = frame->has_clear ? frame->clear : 0;
    size_t row_bytes = image_pixels_bytes(pixels->width, 1);
    for (uint32_t x = 0; x < pixels->width; x++)
        paint(frame, &around, 1, pixels->rgb + (size_t)x * IMAGE_CHANNELS);
    for (uint32_t y = 1; y < pixels->height; y++)
        memcpy(pixels->rgb + y * row_bytes, pixels->rgb, row_bytes);
    unsigned pass = 0;
    for (uint32_t i = 0, row = 0; i < frame->height; i++) {
        must(row < frame->height);
        paint(frame, colours + (size_t)i * frame->width, frame->width,
              pixels->rgb +
                  ((size_t)(frame->top + row) * pixels->width + frame->left) * IMAGE_CHANNELS);
        row = gif_frames_next_row(frame, row, &pass);
    }
}

enum result gif_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                             struct error_text *error)
{
    struct gif_frame frame;
    const uint8_t *colours = NULL;
    enum result result = first_frame(source, &frame, error);
    if (result != RESULT_OK)
        return result;
    must(source->width >= frame.left + frame.width && source->height >= frame.top + frame.height);
    struct gif_colours *working = gif_colours_create();
    struct image_pixels screen = {0};
    if (!working)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
    result = gif_colours_read(working, source, &frame, &colours, error);
    if (result == RESULT_OK)
        result = image_codec_begin(source, source->width, source->height, &screen, error);
    if (result == RESULT_OK) {
        paint_frame(&frame, colours, &screen);
        *pixels = screen;
    }
    gif_colours_destroy(working);
    return result;
}
