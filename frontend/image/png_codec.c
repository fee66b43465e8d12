/*
 * PNG by libpng, whose errors are longjmps like libjpeg's (jpeg_codec.c).
 *
 * Everything becomes 8-bit RGB: palettes and small depths are expanded, alpha and transparent
 * colours are put over white, of 16 bits the upper 8 are used. But gray of 16 bits is clipped at
 * 255 as in PIL: most such images become nearly white there, and models were trained on that.
 * Transparent gray below 8 bits follows PNG's rules; PIL compares the colour before expansion with
 * the one after it.
 *
 * The size is read by hand before libpng is started, and so are the chunks that may hold the
 * orientation. libpng skips chunks that do not change pixels.
 *
 * Gamma, profiles and an animation's other frames are ignored. Broken checksums are errors.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "frontend/image/exif_orientation.h"
#include "frontend/image/image_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

#define SIGNATURE_BYTES 8u
#define CHUNK_BYTES     12u /* length, name, checksum */
#define HEADER_BYTES    13u
#define CACHED_CHUNKS   64u /* of unknown names; none is kept */
#define CHUNK_MEMORY    65536u

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* --- headers ---------------------------------------------------------------------------------- */

/* The orientation of an eXIf chunk at any place, as in PIL. */
static uint8_t find_orientation(const struct image_source *source)
{
    size_t at = SIGNATURE_BYTES;
    while (source->byte_count - at >= CHUNK_BYTES) {
        const uint8_t *chunk = source->bytes + at;
        uint32_t length = number_at(chunk);
        if (length > source->byte_count - at - CHUNK_BYTES)
            return 1;
        if (memcmp(chunk + 4, "eXIf", 4) == 0)
            return exif_orientation_read(chunk + 8, length);
        at += CHUNK_BYTES + length;
    }
    return 1;
}

enum result png_codec_probe(struct image_source *source, struct error_text *error)
{
    const uint8_t *header = source->bytes + SIGNATURE_BYTES;
    if (source->byte_count < SIGNATURE_BYTES + CHUNK_BYTES + HEADER_BYTES)
        return error_set(error, RESULT_INVALID, "the PNG is cut off");
    if (number_at(header) != HEADER_BYTES || memcmp(header + 4, "IHDR", 4) != 0)
        return error_set(error, RESULT_INVALID, "broken PNG: no header");
    source->width = number_at(header + 8);
    source->height = number_at(header + 12);
    if (source->width == 0 || source->height == 0)
        return error_set(error, RESULT_INVALID, "broken PNG: a size of zero");
    source->orientation = find_orientation(source);
    return RESULT_OK;
}

/* --- pixels ----------------------------------------------------------------------------------- */

enum png_layout { GRAY_16 = 2, RGB_8 = 3, RGBA_8 = 4 }; /* bytes of a pixel as libpng gives it */

struct png_session {
    png_structp png;
    png_infop info;
    jmp_buf back;
    const struct image_source *source;
    size_t at;
    enum png_layout layout;
    bool interlaced;
    bool has_key; /* GRAY_16: a gray that is transparent */
    uint16_t key;
    uint8_t *rows; /* not RGB_8 yet: one row, or all of an interlaced image */
    struct image_pixels pixels;
    enum result result;
    struct error_text *error;
};

static _Noreturn void leave(struct png_session *session, enum result result)
{
    session->result = result;
    longjmp(session->back, 1);
}

static void on_error(png_structp png, png_const_charp words)
{
    struct png_session *session = png_get_error_ptr(png);
    leave(session, error_set(session->error, RESULT_INVALID, "broken PNG: %s", words));
}

static void on_warning(png_structp png, png_const_charp words)
{
    (void)png;
    (void)words;
}

static void read_bytes(png_structp png, png_bytep out, size_t count)
{
    struct png_session *session = png_get_io_ptr(png);
    if (count > session->source->byte_count - session->at)
        leave(session, error_set(session->error, RESULT_INVALID, "the PNG is cut off"));
    memcpy(out, session->source->bytes + session->at, count);
    session->at += count;
}

static void session_open(struct png_session *session)
{
    static const uint8_t ignored[] = "iCCP\0iTXt\0zTXt\0tEXt\0sPLT\0eXIf\0hIST\0pCAL\0sCAL";
    session->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, session, on_error, on_warning);
    session->info = session->png ? png_create_info_struct(session->png) : NULL;
    if (!session->info)
        leave(session, error_set(session->error, RESULT_OUT_OF_MEMORY, "no memory for a PNG"));
    png_set_user_limits(session->png, LIMIT_SOURCE_IMAGE_SIDE, LIMIT_SOURCE_IMAGE_SIDE);
    png_set_chunk_cache_max(session->png, CACHED_CHUNKS);
    png_set_chunk_malloc_max(session->png, CHUNK_MEMORY);
    png_set_keep_unknown_chunks(session->png, PNG_HANDLE_CHUNK_NEVER, ignored,
                                (int)(sizeof ignored / 5));
    png_set_read_fn(session->png, session, read_bytes);
}

/* Sets libpng up for one of the three layouts. */
static void choose_layout(struct png_session *session)
{
    png_structp png = session->png;
    png_infop info = session->info;
    int depth = png_get_bit_depth(png, info), colour = png_get_color_type(png, info);
    bool has_key = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    session->interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    session->layout = has_key || colour & PNG_COLOR_MASK_ALPHA ? RGBA_8 : RGB_8;
    if (depth == 16 && colour == PNG_COLOR_TYPE_GRAY) {
        png_color_16p key = NULL;
        session->layout = GRAY_16;
        if (has_key && png_get_tRNS(png, info, NULL, NULL, &key) && key) {
            session->has_key = true;
            session->key = key->gray;
        }
    } else {
        png_set_expand(png);
        png_set_strip_16(png);
        png_set_gray_to_rgb(png);
    }
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
    must(png_get_rowbytes(png, info) == (size_t)session->source->width * session->layout);
}

static void convert_row(const struct png_session *session, const uint8_t *in, uint8_t *out)
{
    for (uint32_t x = 0; x < session->source->width; x++, in += session->layout) {
        if (session->layout == GRAY_16) {
            bool clear = session->has_key && session->key == (in[0] << 8 | in[1]);
            memset(out, clear || in[0] ? 255 : in[1], IMAGE_CHANNELS);
            out += IMAGE_CHANNELS;
        } else {
            for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
                *out++ = image_codec_over_white(in[c], in[3]);
        }
    }
}

static void read_rows(struct png_session *session)
{
    uint32_t width = session->source->width, height = session->source->height;
    size_t out_bytes = image_pixels_bytes(width, 1);
    size_t row_bytes = (size_t)width * session->layout;
    bool direct = session->layout == RGB_8;
    if (!direct)
        session->rows = calloc(session->interlaced ? height : 1, row_bytes);
    if (!direct && !session->rows)
        leave(session, error_set(session->error, RESULT_OUT_OF_MEMORY, "no memory for a PNG"));
    for (int pass = 0; pass < (session->interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); pass++) {
        for (uint32_t y = 0; y < height; y++) {
            uint8_t *out = session->pixels.rgb + y * out_bytes;
            uint8_t *row = direct ? out : session->rows + (session->interlaced ? y * row_bytes : 0);
            png_read_row(session->png, row, NULL);
            if (!direct && !session->interlaced)
                convert_row(session, row, out);
        }
    }
    for (uint32_t y = 0; !direct && session->interlaced && y < height; y++)
        convert_row(session, session->rows + y * row_bytes, session->pixels.rgb + y * out_bytes);
}

static void decode(struct png_session *session)
{
    const struct image_source *source = session->source;
    session_open(session);
    png_read_info(session->png, session->info);
    must(png_get_image_width(session->png, session->info) == source->width &&
         png_get_image_height(session->png, session->info) == source->height);
    choose_layout(session);
    enum result result =
        image_codec_begin(source, source->width, source->height, &session->pixels, session->error);
    if (result != RESULT_OK)
        leave(session, result);
    read_rows(session);
}

/* Runs the decoding, which libpng may leave by longjmp. No local of this function changes
 * meanwhile. */
static enum result session_run(struct png_session *session)
{
    if (setjmp(session->back) == 0)
        decode(session);
    return session->result;
}

enum result png_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                             struct error_text *error)
{
    struct png_session session = {.result = RESULT_OK, .error = error, .source = source};
    enum result result = session_run(&session);
    png_destroy_read_struct(&session.png, &session.info, NULL);
    free(session.rows);
    if (result == RESULT_OK)
        *pixels = session.pixels;
    else
        image_pixels_fini(&session.pixels);
    return result;
}
