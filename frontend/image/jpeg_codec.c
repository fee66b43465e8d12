/*
 * JPEG by libjpeg-turbo, whose every error is a longjmp. Everything that must survive one is in a
 * struct of the caller's frame, and functions that libjpeg may leave that way keep nothing in
 * locals that is read afterwards.
 *
 * Colours are those of PIL: four channels are taken to be inverted, as Adobe writes them. Warnings
 * (extra bytes, a bad restart) are ignored as in PIL; the end of the file inside the image is an
 * error, also as in PIL.
 *
 * libjpeg saves no markers: it walks its list of saved ones for each new one, which is quadratic in
 * the number of markers. jpeg_codec_probe() reads the segments itself, once and before libjpeg, and
 * takes the orientation from them.
 *
 * Unsupported: two channels, 12 bits, more segments than LIMIT_JPEG_SEGMENTS, more scans than
 * LIMIT_JPEG_SCANS (each costs a pass over all pixels, even without data). XMP is ignored.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "frontend/image/exif_orientation.h"
#include "frontend/image/image_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

struct jpeg_session {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr bytes;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    enum result result; /* reason of the longjmp */
    struct error_text *error;
    struct image_source *source;
    struct image_pixels pixels;
};

static _Noreturn void leave(struct jpeg_session *session, enum result result)
{
    session->result = result;
    longjmp(session->back, 1);
}

static void on_error(j_common_ptr common)
{
    struct jpeg_session *session = common->client_data;
    char words[JMSG_LENGTH_MAX];
    common->err->format_message(common, words);
    switch (common->err->msg_code) {
    case JERR_OUT_OF_MEMORY:
        leave(session, error_set(session->error, RESULT_OUT_OF_MEMORY, "no memory for a JPEG"));
    case JERR_NO_BACKING_STORE:
        leave(session,
              error_set(session->error, RESULT_TOO_LARGE,
                        "this JPEG needs more than %u bytes to be decoded", LIMIT_JPEG_WORK_BYTES));
    default: leave(session, error_set(session->error, RESULT_INVALID, "broken JPEG: %s", words));
    }
}

static void on_message(j_common_ptr common, int level)
{
    (void)common;
    (void)level;
}

static boolean on_end(j_decompress_ptr jpeg)
{
    struct jpeg_session *session = jpeg->client_data;
    leave(session, error_set(session->error, RESULT_INVALID, "the JPEG is cut off"));
}

static void skip_bytes(j_decompress_ptr jpeg, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > jpeg->src->bytes_in_buffer)
        on_end(jpeg);
    jpeg->src->next_input_byte += count;
    jpeg->src->bytes_in_buffer -= (size_t)count;
}

static void do_nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

/* Called for each row of blocks of each scan. */
static void on_progress(j_common_ptr common)
{
    struct jpeg_session *session = common->client_data;
    if (session->jpeg.input_scan_number > (int)session->source->scans)
        leave(session, error_set(session->error, RESULT_INVALID,
                                 "broken JPEG: scans inside of other segments"));
}

static void session_open(struct jpeg_session *session)
{
    session->jpeg.err = jpeg_std_error(&session->errors);
    session->errors.error_exit = on_error;
    session->errors.emit_message = on_message;
    session->jpeg.client_data = session;
    jpeg_create_decompress(&session->jpeg);
    session->jpeg.client_data = session;
    session->jpeg.mem->max_memory_to_use = LIMIT_JPEG_WORK_BYTES;
    session->progress.progress_monitor = on_progress;
    session->jpeg.progress = &session->progress;
    session->bytes = (struct jpeg_source_mgr){.next_input_byte = session->source->bytes,
                                              .bytes_in_buffer = session->source->byte_count,
                                              .init_source = do_nothing,
                                              .fill_input_buffer = on_end,
                                              .skip_input_data = skip_bytes,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = do_nothing};
    session->jpeg.src = &session->bytes;
}

/* Runs `work`, which libjpeg may leave by longjmp. No local of this function changes meanwhile. */
static enum result session_run(struct jpeg_session *session,
                               void (*work)(struct jpeg_session *session))
{
    if (setjmp(session->back) == 0) {
        session_open(session);
        work(session);
    }
    return session->result;
}

/* --- headers ---------------------------------------------------------------------------------- */

#define MARKER_TEM     0x01u
#define MARKER_RESTART 0xd0u /* to 0xd7 */
#define MARKER_BEGIN   0xd8u
#define MARKER_END     0xd9u
#define MARKER_SCAN    0xdau
#define MARKER_EXIF    0xe1u

/* Result of a walk over a file's segments. */
struct jpeg_outline {
    uint32_t segments;
    uint32_t scans;
    bool has_exif; /* the first such segment counts, and only before the first scan */
    uint8_t orientation;
};

/* The code of the next marker at or after *at, as libjpeg finds it: bytes that are not 0xff, and
 * 0xff followed by 0 (a 0xff in a scan's data), are skipped. MARKER_END at the end of the file. */
static uint8_t next_marker(const struct image_source *source, size_t *at)
{
    while (*at < source->byte_count) {
        const uint8_t *found = memchr(source->bytes + *at, 0xff, source->byte_count - *at);
        if (!found)
            break;
        *at = (size_t)(found - source->bytes);
        while (*at < source->byte_count && source->bytes[*at] == 0xff)
            ++*at;
        if (*at < source->byte_count && source->bytes[(*at)++] != 0)
            return source->bytes[*at - 1];
    }
    return MARKER_END;
}

static void note_exif(const uint8_t *bytes, size_t count, struct jpeg_outline *outline)
{
    if (outline->scans > 0 || outline->has_exif || count < 6 || memcmp(bytes, "Exif\0", 6) != 0)
        return;
    outline->has_exif = true;
    outline->orientation = exif_orientation_read(bytes, count);
}

/* Linear in the file's bytes. A segment that reaches over the end of the file ends the walk. */
static enum result read_outline(const struct image_source *source, struct jpeg_outline *outline,
                                struct error_text *error)
{
    *outline = (struct jpeg_outline){.orientation = 1};
    for (size_t at = 2;;) {
        uint8_t marker = next_marker(source, &at);
        if (marker == MARKER_BEGIN || marker == MARKER_END)
            return RESULT_OK;
        if (marker == MARKER_TEM || (marker >= MARKER_RESTART && marker < MARKER_BEGIN))
            continue; /* no length follows */
        if (++outline->segments > LIMIT_JPEG_SEGMENTS)
            return error_set(error, RESULT_INVALID, "a JPEG of more than %u segments",
                             LIMIT_JPEG_SEGMENTS);
        if (source->byte_count - at < 2)
            return RESULT_OK;
        size_t length = (size_t)source->bytes[at] << 8 | source->bytes[at + 1];
        if (length < 2 || length > source->byte_count - at)
            return RESULT_OK;
        outline->scans += marker == MARKER_SCAN;
        if (marker == MARKER_EXIF)
            note_exif(source->bytes + at + 2, length - 2, outline);
        at += length;
    }
}

static void read_header(struct jpeg_session *session)
{
    struct jpeg_decompress_struct *jpeg = &session->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    int channels = jpeg->num_components;
    if (channels != 1 && channels != 3 && channels != 4)
        leave(session, error_set(session->error, RESULT_UNSUPPORTED,
                                 "a JPEG of %d channels is not decoded", channels));
    session->source->width = jpeg->image_width;
    session->source->height = jpeg->image_height;
}

enum result jpeg_codec_probe(struct image_source *source, struct error_text *error)
{
    struct jpeg_session session = {.result = RESULT_OK, .error = error, .source = source};
    struct jpeg_outline outline;
    enum result result = read_outline(source, &outline, error);
    if (result != RESULT_OK)
        return result;
    if (outline.scans > LIMIT_JPEG_SCANS)
        return error_set(error, RESULT_INVALID, "a JPEG of more than %u scans is not decoded",
                         LIMIT_JPEG_SCANS);
    source->orientation = outline.orientation;
    source->scans = outline.scans > 0 ? outline.scans : 1;
    result = session_run(&session, read_header);
    jpeg_destroy_decompress(&session.jpeg);
    return result;
}

/* --- pixels ----------------------------------------------------------------------------------- */

static uint8_t of_255(uint32_t a, uint32_t b)
{
    uint32_t product = a * b + 128;
    return (uint8_t)(((product >> 8) + product) >> 8);
}

/* PIL's cmyk2rgb of inverted channels: a stored value is the remaining light. */
static void convert_cmyk(const uint8_t *cmyk, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++, cmyk += 4) {
        for (unsigned c = 0; c < IMAGE_CHANNELS; c++)
            *rgb++ = (uint8_t)(cmyk[3] - of_255(255u - cmyk[c], cmyk[3]));
    }
}

static void read_rows(struct jpeg_session *session)
{
    struct jpeg_decompress_struct *jpeg = &session->jpeg;
    bool cmyk = jpeg->out_color_space == JCS_CMYK;
    size_t row_bytes = image_pixels_bytes(jpeg->output_width, 1);
    JSAMPARRAY line =
        cmyk ? jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * 4, 1)
             : NULL;
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *out = session->pixels.rgb + jpeg->output_scanline * row_bytes;
        if (cmyk) {
            (void)jpeg_read_scanlines(jpeg, line, 1);
            convert_cmyk(line[0], jpeg->output_width, out);
        } else {
            (void)jpeg_read_scanlines(jpeg, &out, 1);
        }
    }
}

static void decode(struct jpeg_session *session)
{
    struct jpeg_decompress_struct *jpeg = &session->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    must(jpeg->image_width == session->source->width &&
         jpeg->image_height == session->source->height);
    jpeg->out_color_space = jpeg->num_components == 4 ? JCS_CMYK : JCS_EXT_RGB;
    jpeg->scale_num = 1;
    jpeg->scale_denom = session->source->reduction;
    jpeg_calc_output_dimensions(jpeg);
    enum result result = image_codec_begin(session->source, jpeg->output_width, jpeg->output_height,
                                           &session->pixels, session->error);
    if (result != RESULT_OK)
        leave(session, result);
    (void)jpeg_start_decompress(jpeg);
    read_rows(session);
}

enum result jpeg_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                              struct error_text *error)
{
    struct image_source copy = *source;
    struct jpeg_session session = {.result = RESULT_OK, .error = error, .source = &copy};
    enum result result = session_run(&session, decode);
    jpeg_destroy_decompress(&session.jpeg);
    if (result == RESULT_OK)
        *pixels = session.pixels;
    else
        image_pixels_fini(&session.pixels);
    return result;
}
