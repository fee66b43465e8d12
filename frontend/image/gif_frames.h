/*
 * The blocks of a GIF and the colours of its frames, for gif_codec.c (the first frame as an image) and
 * gif_animation.c (all of them).
 */
#ifndef SHOAL_FRONTEND_IMAGE_GIF_FRAMES_H
#define SHOAL_FRONTEND_IMAGE_GIF_FRAMES_H

#include <stdbool.h>

#include "frontend/image/image_codec.h"

#define GIF_COLOURS 256u

enum gif_disposal { GIF_KEEP = 1, GIF_TO_BACKGROUND = 2, GIF_TO_PREVIOUS = 3 };

struct gif_frame {
    uint32_t screen_width;
    uint32_t screen_height;
    uint32_t left;
    uint32_t top;
    uint32_t width;
    uint32_t height;
    bool interlaced;
    bool has_clear;
    uint8_t clear;      /* the colour that is transparent */
    uint8_t background; /* colour of the screen */
    uint8_t disposal;   /* enum gif_disposal; 0 and others: as GIF_KEEP */
    uint32_t delay_cs;  /* hundredths of a second */
    uint8_t code_bits;
    uint8_t palette[GIF_COLOURS][IMAGE_CHANNELS];
    size_t data_at; /* of the first block of codes */
};

struct gif_reader {
    const struct image_source *source;
    size_t at;
};

/* Begins a file: *screen gets the screen's size, palette and background. */
enum result gif_frames_open(const struct image_source *source, struct gif_reader *reader,
                            struct gif_frame *screen, struct error_text *error) RESULT_CHECKED;
/* Reads on to the next frame, which inherits from `screen`. RESULT_EMPTY at the end of the file, which
 * is missing frames, or whatever follows the last one. */
enum result gif_frames_next(struct gif_reader *reader, const struct gif_frame *screen,
                            struct gif_frame *frame, struct error_text *error) RESULT_CHECKED;
/* Passes the codes of the frame just read, undecoded. False if the file ends within them. */
bool gif_frames_skip(struct gif_reader *reader);

struct gif_colours; /* working memory and result of a decoding */

struct gif_colours *gif_colours_create(void); /* NULL without memory */
void gif_colours_destroy(struct gif_colours *colours);
/* Decodes a frame: *out is [height, width] in the order of rows as stored, valid until the next call. */
enum result gif_colours_read(struct gif_colours *colours, const struct image_source *source,
                             const struct gif_frame *frame, const uint8_t **out,
                             struct error_text *error) RESULT_CHECKED;

/* The row where the stored row after the one at `row` belongs; *pass is 0 at first. */
uint32_t gif_frames_next_row(const struct gif_frame *frame, uint32_t row, unsigned *pass);

#endif
