/*
 * Frames of a GIF on its screen, as PIL composes them. A frame is painted over what the one before
 * left: all of it, or its place made clear (the background's colour if the frame has no transparent
 * one), or its place as it was before. If the first frame has no transparent colour, a place that is
 * made clear gets the colour itself.
 *
 * The screen has four bytes a pixel, because a place that is clear stays so until a frame covers it.
 * Delays of less than two hundredths count as ten, as in browsers.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/image/gif_frames.h"
#include "frontend/image/video_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

#define RGBA_BYTES     4u
#define LEAST_DELAY_CS 2u
#define US_PER_CS      10000u

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static bool is_inside(const struct gif_frame *frame, const struct video_header *header)
{
    return frame->left + frame->width <= header->width &&
           frame->top + frame->height <= header->height;
}

static enum result outside(uint32_t index, struct error_text *error)
{
    return error_set(error, RESULT_INVALID, "broken GIF: frame %u is not inside the screen", index);
}

enum result gif_animation_probe(const struct image_source *source, struct video_header *header,
                                struct error_text *error)
{
    struct gif_reader reader;
    struct gif_frame screen, frame;
    enum result result = gif_frames_open(source, &reader, &screen, error);
    while (result == RESULT_OK && header->frames <= LIMIT_VIDEO_SOURCE_FRAMES) {
        result = gif_frames_next(&reader, &screen, &frame, error);
        if (result != RESULT_OK)
            break;
        if (header->frames == 0) {
            header->width = larger(frame.screen_width, frame.left + frame.width);
            header->height = larger(frame.screen_height, frame.top + frame.height);
        }
        if (!is_inside(&frame, header))
            return outside(header->frames, error);
        header->frames++;
        header->duration_us +=
            frame.delay_cs < LEAST_DELAY_CS ? VIDEO_UNTIMED_US : frame.delay_cs * US_PER_CS;
        header->work_pixels += (uint64_t)frame.width * frame.height;
        if (!gif_frames_skip(&reader))
            return error_set(error, RESULT_INVALID, "the GIF is cut off");
    }
    if (result == RESULT_EMPTY && header->frames == 0)
        return error_set(error, RESULT_INVALID, "broken GIF: no frame");
    return result == RESULT_EMPTY ? RESULT_OK : result;
}

/* --- painting --------------------------------------------------------------------------------- */

struct gif_canvas {
    uint32_t width;
    uint32_t height;
    bool opaque;    /* the first frame has no transparent colour: the screen has no clear places */
    uint8_t *rgba;  /* [height, width, 4] */
    uint8_t *saved; /* likewise: the place of a frame with GIF_TO_PREVIOUS; NULL: none yet */
    struct image_pixels rgb; /* the screen over white */
    struct gif_frame last;   /* painted; width 0: none */
};

static uint8_t *canvas_row(const struct gif_canvas *canvas, uint8_t *pixels, uint32_t row,
                           uint32_t left)
{
    return pixels + ((size_t)row * canvas->width + left) * RGBA_BYTES;
}

static void set_pixel(uint8_t *pixel, const uint8_t rgb[IMAGE_CHANNELS], uint8_t alpha)
{
    memcpy(pixel, rgb, IMAGE_CHANNELS);
    pixel[IMAGE_CHANNELS] = alpha;
}

/* Fills a frame's place with one pixel. */
static void fill(struct gif_canvas *canvas, const struct gif_frame *place,
                 const uint8_t rgb[IMAGE_CHANNELS], uint8_t alpha)
{
    for (uint32_t y = 0; y < place->height; y++) {
        uint8_t *row = canvas_row(canvas, canvas->rgba, place->top + y, place->left);
        for (uint32_t x = 0; x < place->width; x++)
            set_pixel(row + (size_t)x * RGBA_BYTES, rgb, alpha);
    }
}

static void copy_place(const struct gif_canvas *canvas, const struct gif_frame *place,
                       uint8_t *from, uint8_t *to)
{
    for (uint32_t y = 0; y < place->height; y++)
        memcpy(canvas_row(canvas, to, place->top + y, place->left),
               canvas_row(canvas, from, place->top + y, place->left),
               (size_t)place->width * RGBA_BYTES);
}

/* Removes the last frame as it says. */
static void dispose(struct gif_canvas *canvas)
{
    const struct gif_frame *last = &canvas->last;
    if (last->disposal == GIF_TO_PREVIOUS && canvas->saved)
        copy_place(canvas, last, canvas->saved, canvas->rgba);
    else if (last->disposal == GIF_TO_BACKGROUND)
        fill(canvas, last, last->palette[last->has_clear ? last->clear : last->background],
             last->has_clear && !canvas->opaque ? 0 : 255);
}

/* Before the first frame: clear if it has a transparent colour, else colour 0. */
static void begin_screen(struct gif_canvas *canvas, const struct gif_frame *first)
{
    const struct gif_frame all = {.width = canvas->width, .height = canvas->height};
    uint8_t around = first->has_clear ? first->clear : 0;
    canvas->opaque = !first->has_clear;
    fill(canvas, &all, first->palette[around], canvas->opaque ? 255 : 0);
}

static enum result paint(struct gif_canvas *canvas, const struct gif_frame *frame,
                         const uint8_t *colours, struct error_text *error)
{
    if (canvas->last.width == 0)
        begin_screen(canvas, frame);
    else
        dispose(canvas);
    if (frame->disposal == GIF_TO_PREVIOUS && !canvas->saved)
        canvas->saved = malloc((size_t)canvas->width * canvas->height * RGBA_BYTES);
    if (frame->disposal == GIF_TO_PREVIOUS && !canvas->saved)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
    if (frame->disposal == GIF_TO_PREVIOUS)
        copy_place(canvas, frame, canvas->rgba, canvas->saved);
    unsigned pass = 0;
    for (uint32_t i = 0, row = 0; i < frame->height; i++) {
        must(row < frame->height);
        uint8_t *out = canvas_row(canvas, canvas->rgba, frame->top + row, frame->left);
        for (uint32_t x = 0; x < frame->width; x++, colours++, out += RGBA_BYTES) {
            if (!frame->has_clear || *colours != frame->clear)
                set_pixel(out, frame->palette[*colours], 255);
        }
        row = gif_frames_next_row(frame, row, &pass);
    }
    canvas->last = *frame;
    return RESULT_OK;
}

static void flatten(struct gif_canvas *canvas)
{
    const uint8_t *in = canvas->rgba;
    uint8_t *out = canvas->rgb.rgb;
    for (size_t i = 0; i < (size_t)canvas->width * canvas->height; i++, in += RGBA_BYTES) {
        if (in[IMAGE_CHANNELS])
            memcpy(out, in, IMAGE_CHANNELS);
        else
            memset(out, 255, IMAGE_CHANNELS);
        out += IMAGE_CHANNELS;
    }
}

static enum result canvas_init(struct gif_canvas *canvas, const struct video_header *header,
                               struct error_text *error)
{
    *canvas = (struct gif_canvas){.width = header->width, .height = header->height};
    canvas->rgba = malloc((size_t)header->width * header->height * RGBA_BYTES);
    if (!canvas->rgba)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
    return image_pixels_init(&canvas->rgb, header->width, header->height, error);
}

static void canvas_fini(struct gif_canvas *canvas)
{
    free(canvas->rgba);
    free(canvas->saved);
    image_pixels_fini(&canvas->rgb);
}

enum result gif_animation_run(const struct image_source *source, const struct video_header *header,
                              struct video_taker *taker, struct error_text *error)
{
    struct gif_reader reader;
    struct gif_frame screen, frame;
    struct gif_canvas canvas;
    const uint8_t *bytes = NULL;
    struct gif_colours *colours = gif_colours_create();
    enum result result = canvas_init(&canvas, header, error);
    if (!colours)
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
    if (result == RESULT_OK)
        result = gif_frames_open(source, &reader, &screen, error);
    for (uint32_t i = 0; result == RESULT_OK && !video_taker_is_done(taker); i++) {
        result = gif_frames_next(&reader, &screen, &frame, error);
        if (result == RESULT_OK && !is_inside(&frame, header))
            result = outside(i, error);
        if (result == RESULT_OK)
            result = gif_colours_read(colours, source, &frame, &bytes, error);
        if (result == RESULT_OK)
            result = paint(&canvas, &frame, bytes, error);
        if (result == RESULT_OK && video_taker_wants(taker, i)) {
            flatten(&canvas);
            result = video_taker_take(taker, i, &canvas.rgb, error);
        }
        (void)gif_frames_skip(&reader);
    }
    gif_colours_destroy(colours);
    canvas_fini(&canvas);
    return result == RESULT_EMPTY ? RESULT_OK : result; /* the caller counts the frames */
}
