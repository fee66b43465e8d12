/*
 * The format is a few blocks, and LZW with codes of up to 12 bits, least significant bit first; all
 * of it is implemented here, over bytes in memory with every length checked. A palette that is too
 * short continues in gray.
 */
#include "frontend/image/gif_frames.h"

#include <stdlib.h>
#include <string.h>

#define SCREEN_BYTES  13u /* signature and logical screen */
#define CODE_BITS     12u
#define CODES         (1u << CODE_BITS)
#define NOTHING       UINT16_MAX
#define BLOCK_IMAGE   0x2c
#define BLOCK_MORE    0x21
#define LABEL_CONTROL 0xf9

static enum result cut_off(struct error_text *error)
{
    return error_set(error, RESULT_INVALID, "the GIF is cut off");
}

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

/* --- blocks ----------------------------------------------------------------------------------- */

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
    for (unsigned i = 0; i < GIF_COLOURS; i++)
        memset(frame->palette[i], (int)i, IMAGE_CHANNELS);
    if (colours)
        memcpy(frame->palette, colours, bytes);
    return colours != NULL;
}

/* Reads an extension; only a graphic control is used. */
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
            frame->disposal = block[0] >> 2 & 7;
            frame->delay_cs = number_at(block + 1);
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

enum result gif_frames_open(const struct image_source *source, struct gif_reader *reader,
                            struct gif_frame *screen, struct error_text *error)
{
    *reader = (struct gif_reader){source, 0};
    *screen = (struct gif_frame){0};
    for (unsigned i = 0; i < GIF_COLOURS; i++)
        memset(screen->palette[i], (int)i, IMAGE_CHANNELS);
    const uint8_t *head = reader_take(reader, SCREEN_BYTES);
    if (!head || !reader_palette(reader, head[10], screen))
        return cut_off(error);
    if (head[4] != '7' && head[4] != '9')
        return error_set(error, RESULT_INVALID, "broken GIF: no known version");
    screen->screen_width = number_at(head + 6);
    screen->screen_height = number_at(head + 8);
    screen->background = head[11];
    return RESULT_OK;
}

enum result gif_frames_next(struct gif_reader *reader, const struct gif_frame *screen,
                            struct gif_frame *frame, struct error_text *error)
{
    *frame = *screen;
    for (;;) {
        const uint8_t *block = reader_take(reader, 1);
        if (!block)
            return RESULT_EMPTY;
        if (*block == BLOCK_IMAGE)
            break;
        if (*block != BLOCK_MORE || !reader_extension(reader, frame))
            return RESULT_EMPTY;
    }
    if (!reader_image(reader, frame))
        return cut_off(error);
    if (frame->width == 0 || frame->height == 0 || frame->code_bits < 1 || frame->code_bits > 8)
        return error_set(error, RESULT_INVALID, "broken GIF: an empty frame");
    return RESULT_OK;
}

bool gif_frames_skip(struct gif_reader *reader)
{
    for (;;) {
        const uint8_t *length = reader_take(reader, 1);
        if (!length || !reader_take(reader, *length))
            return false;
        if (*length == 0)
            return true;
    }
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

/* --- frames ----------------------------------------------------------------------------------- */

struct gif_colours {
    struct lzw lzw;
    size_t capacity;
    uint8_t *bytes;
};

struct gif_colours *gif_colours_create(void)
{
    return calloc(1, sizeof(struct gif_colours));
}

void gif_colours_destroy(struct gif_colours *colours)
{
    if (colours)
        free(colours->bytes);
    free(colours);
}

enum result gif_colours_read(struct gif_colours *colours, const struct image_source *source,
                             const struct gif_frame *frame, const uint8_t **out,
                             struct error_text *error)
{
    size_t count = (size_t)frame->width * frame->height;
    if (count > colours->capacity) {
        uint8_t *grown = realloc(colours->bytes, count);
        if (!grown)
            return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a GIF");
        colours->bytes = grown;
        colours->capacity = count;
    }
    colours->lzw.reader = (struct gif_reader){source, frame->data_at};
    colours->lzw.block_end = frame->data_at;
    colours->lzw.bits = colours->lzw.bit_count = 0;
    *out = colours->bytes;
    return lzw_run(&colours->lzw, frame->code_bits, colours->bytes, count, error);
}

/* Every eighth row from 0, then from 4, every fourth from 2, every second from 1. */
uint32_t gif_frames_next_row(const struct gif_frame *frame, uint32_t row, unsigned *pass)
{
    static const uint32_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    if (!frame->interlaced)
        return row + 1;
    row += step[*pass];
    while (row >= frame->height && *pass < 3)
        row = first[++*pass];
    return row;
}
