/*
 * Decodes the first frame of a GIF with the same result as PIL: on the logical screen, enlarged if
 * the frame extends beyond it, in the frame's own palette or the file's, transparent pixels over
 * white. Around a smaller frame the screen is transparent if the frame has a transparent colour,
 * else it has colour 0. A palette that is too short continues in gray.
 *
 * The format is a few blocks, and LZW with codes of up to 12 bits, least significant bit first; all
 * of it is implemented here, over bytes in memory with every length checked.
 *
 * Other frames and the background colour are ignored. A file with fewer pixels than its frame is
 * invalid.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/image/image_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

#define SCREEN_BYTES  13u /* signature and logical screen */
#define COLOURS       256u
#define CODE_BITS     12u
#define CODES         (1u << CODE_BITS)
#define NOTHING       UINT16_MAX
#define BLOCK_IMAGE   0x2c
#define BLOCK_MORE    0x21
#define LABEL_CONTROL 0xf9

struct gif_frame {
    uint32_t screen_width;
    uint32_t screen_height;
    uint32_t left;
    uint32_t top;
    uint32_t width;
    uint32_t height;
    bool interlaced;
    bool has_clear;
    uint8_t clear; /* the colour that is transparent */
    uint8_t code_bits;
    uint8_t palette[COLOURS][IMAGE_CHANNELS];
    size_t data_at; /* of the first block of codes */
};

static enum result cut_off(struct error_text *error)
{
    return error_set(error, RESULT_INVALID, "the GIF is cut off");
}

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

/* --- blocks ----------------------------------------------------------------------------------- */

struct gif_reader {
    const struct image_source *source;
    size_t at;
};

/* The next `count` bytes, or NULL if fewer are left. */
static const uint8_t *reader_take(struct gif_reader *reader, size_t count)
{
    if (count > reader->source->byte_count - reader->at)
        return NULL;
    const uint8_t *bytes = reader->source->bytes + reader->at;
    reader->at += count;
    return bytes;
}

/* The colours that a flag byte announces. */
static bool reader_palette(struct gif_reader *reader, uint8_t flags, struct gif_frame *frame)
{
    if (!(flags & 0x80))
        return true;
    size_t bytes = IMAGE_CHANNELS << ((flags & 7) + 1);
    const uint8_t *colours = reader_take(reader, bytes);
    for (unsigned i = 0; i < COLOURS; i++)
        memset(frame->palette[i], (int)i, IMAGE_CHANNELS);
    if (colours)
        memcpy(frame->palette, colours, bytes);
    return colours != NULL;
}

/* Reads an extension; only the transparency of a graphic control is used. */
static bool reader_extension(struct gif_reader *reader, struct gif_frame *frame)
{
    const uint8_t *label = reader_take(reader, 1);
    if (!label)
        return false;
    for (;;) {
        const uint8_t *length = reader_take(reader, 1);
        const uint8_t *block = length ? reader_take(reader, *length) : NULL;
        if (!block)
            return false;
        if (*length == 0)
            return true;
        if (*label == LABEL_CONTROL && *length >= 4) {
            frame->has_clear = block[0] & 1;
            frame->clear = block[3];
        }
    }
}

static bool reader_image(struct gif_reader *reader, struct gif_frame *frame)
{
    const uint8_t *place = reader_take(reader, 9);
    if (!place)
        return false;
    frame->left = number_at(place);
    frame->top = number_at(place + 2);
    frame->width = number_at(place + 4);
    frame->height = number_at(place + 6);
    frame->interlaced = place[8] & 0x40;
    if (!reader_palette(reader, place[8], frame))
        return false;
    const uint8_t *bits = reader_take(reader, 1);
    if (!bits)
        return false;
    frame->code_bits = *bits;
    frame->data_at = reader->at;
    return true;
}

/* Everything up to the first frame's codes. */
static enum result read_frame(const struct image_source *source, struct gif_frame *frame,
                              struct error_text *error)
{
    struct gif_reader reader = {source, 0};
    *frame = (struct gif_frame){0};
    for (unsigned i = 0; i < COLOURS; i++)
        memset(frame->palette[i], (int)i, IMAGE_CHANNELS);
    const uint8_t *screen = reader_take(&reader, SCREEN_BYTES);
    if (!screen || !reader_palette(&reader, screen[10], frame))
        return cut_off(error);
    if (screen[4] != '7' && screen[4] != '9')
        return error_set(error, RESULT_INVALID, "broken GIF: no known version");
    frame->screen_width = number_at(screen + 6);
    frame->screen_height = number_at(screen + 8);
    for (;;) {
        const uint8_t *block = reader_take(&reader, 1);
        if (!block)
            return cut_off(error);
        if (*block == BLOCK_IMAGE)
            break;
        if (*block != BLOCK_MORE)
            return error_set(error, RESULT_INVALID, "broken GIF: no frame");
        if (!reader_extension(&reader, frame))
            return cut_off(error);
    }
    if (!reader_image(&reader, frame))
        return cut_off(error);
    if (frame->width == 0 || frame->height == 0 || frame->code_bits < 1 || frame->code_bits > 8)
        return error_set(error, RESULT_INVALID, "broken GIF: an empty frame");
    return RESULT_OK;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

enum result gif_codec_probe(struct image_source *source, struct error_text *error)
{
    struct gif_frame frame;
    enum result result = read_frame(source, &frame, error);
    if (result == RESULT_OK) {
        source->width = larger(frame.screen_width, frame.left + frame.width);
        source->height = larger(frame.screen_height, frame.top + frame.height);
    }
    return result;
}

/* --- codes ------------------------------------------------------------------------------------ */

/* A code's string is that of `before`, if it is longer than 1, and one more colour. */
struct lzw_entry {
    uint16_t before;
    uint16_t length;
    uint8_t last;
    uint8_t first;
};

struct lzw {
    struct gif_reader reader;
    size_t block_end; /* of the block of codes that `reader` is in */
    uint32_t bits;
    unsigned bit_count;
    struct lzw_entry entries[CODES];
};

/* The next code of `width` bits; false at the end of the data. */
static bool lzw_code(struct lzw *lzw, unsigned width, uint32_t *code)
{
    while (lzw->bit_count < width) {
        if (lzw->reader.at == lzw->block_end) {
            const uint8_t *length = reader_take(&lzw->reader, 1);
            if (!length || *length == 0 ||
                *length > lzw->reader.source->byte_count - lzw->reader.at)
                return false;
            lzw->block_end = lzw->reader.at + *length;
        }
        lzw->bits |= (uint32_t)lzw->reader.source->bytes[lzw->reader.at++] << lzw->bit_count;
        lzw->bit_count += 8;
    }
    *code = lzw->bits & ((1u << width) - 1);
    lzw->bits >>= width;
    lzw->bit_count -= width;
    return true;
}

/* Writes a code's string to out[from..], as much of it as `count` lets. */
static void lzw_write(const struct lzw *lzw, uint32_t code, uint8_t *out, size_t from, size_t count)
{
    const struct lzw_entry *entry = &lzw->entries[code];
    for (size_t at = from + entry->length; at > from; entry = &lzw->entries[entry->before]) {
        at--;
        if (at < count)
            out[at] = entry->last;
    }
}

/* Colours of a whole frame, row by row as stored. */
static enum result lzw_run(struct lzw *lzw, unsigned code_bits, uint8_t *out, size_t count,
                           struct error_text *error)
{
    uint32_t clear = 1u << code_bits, next = clear + 2, before = NOTHING, code;
    unsigned width = code_bits + 1;
    for (uint32_t i = 0; i < clear; i++)
        lzw->entries[i] = (struct lzw_entry){0, 1, (uint8_t)i, (uint8_t)i};
    for (size_t at = 0; at < count;) {
        if (!lzw_code(lzw, width, &code) || code == clear + 1)
            return cut_off(error);
        if (code == clear) {
            next = clear + 2;
            width = code_bits + 1;
            before = NOTHING;
            continue;
        }
        if (before == NOTHING ? code > clear : code > next || (code == next && next == CODES))
            return error_set(error, RESULT_INVALID, "broken GIF: a code that stands for nothing");
        if (before != NOTHING && next < CODES) {
            const struct lzw_entry *b = &lzw->entries[before];
            uint8_t last = code == next ? b->first : lzw->entries[code].first;
            lzw->entries[next] =
                (struct lzw_entry){(uint16_t)before, (uint16_t)(b->length + 1), last, b->first};
            next++;
            if (next == 1u << width && width < CODE_BITS)
                width++;
        }
        lzw_write(lzw, code, out, at, count);
        at += lzw->entries[code].length;
        before = code;
    }
    return RESULT_OK;
}

/* --- pixels ----------------------------------------------------------------------------------- */

/* The place of the n-th stored row: every eighth from 0, then from 4, every fourth from 2, every
 * second from 1. */
static uint32_t next_row(const struct gif_frame *frame, uint32_t row, unsigned *pass)
{
    static const uint32_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    if (!frame->interlaced)
        return row + 1;
    row += step[*pass];
    while (row >= frame->height && *pass < 3)
        row = first[++*pass];
    return row;
}

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
        row = next_row(frame, row, &pass);
    }
}

enum result gif_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                             struct error_text *error)
{
    struct gif_frame frame;
    enum result result = read_frame(source, &frame, error);
    if (result != RESULT_OK)
        return result;
    must(source->width >= frame.left + frame.width && source->height >= frame.top + frame.height);
    size_t count = (size_t)frame.width * frame.height;
    struct lzw *lzw = calloc(1, sizeof *lzw);
    uint8_t *colours = malloc(count);
    struct image_pixels screen = {0};
    if (!lzw || !colours) {
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
    } else {
        lzw->reader = (struct gif_reader){source, frame.data_at};
        lzw->block_end = frame.data_at;
        result = lzw_run(lzw, frame.code_bits, colours, count, error);
    }
    if (result == RESULT_OK)
        result = image_codec_begin(source, source->width, source->height, &screen, error);
    if (result == RESULT_OK) {
        paint_frame(&frame, colours, &screen);
        *pixels = screen;
    }
    free(colours);
    free(lzw);
    return result;
}
