/*
 * Decodes every kind of image file: the first bytes choose the codec, the codec reads the size, the
 * limits are checked, and only then are pixels decoded.
 *
 * Bytes after the image in the file are ignored, and no second kind is tried if the first fails.
 * Other kinds of files are unsupported; of several frames the first is used; colour profiles and
 * gamma are ignored, as in PIL's conversion.
 */
#include "frontend/image/image_decoder.h"

#include <stdbool.h>
#include <string.h>

#include "frontend/image/image_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

static const struct {
    const char *name;
    const char *magic; /* first bytes of a file */
    size_t magic_bytes;
    const char *form; /* NULL, or the bytes at offset 8 (RIFF) */
    enum result (*probe)(struct image_source *source, struct error_text *error);
    enum result (*decode)(const struct image_source *source, struct image_pixels *pixels,
                          struct error_text *error);
} kinds[IMAGE_KINDS] = {
    [IMAGE_JPEG] = {"JPEG", "\xff\xd8\xff", 3, NULL, jpeg_codec_probe, jpeg_codec_decode},
    [IMAGE_PNG] = {"PNG", "\x89PNG\r\n\x1a\n", 8, NULL, png_codec_probe, png_codec_decode},
    [IMAGE_WEBP] = {"WebP", "RIFF", 4, "WEBP", webp_codec_probe, webp_codec_decode},
    [IMAGE_GIF] = {"GIF", "GIF8", 4, NULL, gif_codec_probe, gif_codec_decode},
};

static enum image_kind find_kind(const uint8_t *bytes, size_t byte_count)
{
    enum image_kind kind = 0;
    for (; kind < IMAGE_KINDS; kind++) {
        const char *form = kinds[kind].form;
        if (byte_count >= 12 && memcmp(bytes, kinds[kind].magic, kinds[kind].magic_bytes) == 0 &&
            (!form || memcmp(bytes + 8, form, 4) == 0))
            break;
    }
    return kind;
}

static bool is_turned(uint8_t orientation)
{
    return orientation >= 5 && orientation <= 8;
}

enum result image_decoder_probe(const uint8_t *bytes, size_t byte_count,
                                struct image_header *header, struct error_text *error)
{
    struct image_source source = {
        .bytes = bytes, .byte_count = byte_count, .orientation = 1, .scans = 1};
    if (byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         byte_count, LIMIT_SOURCE_IMAGE_BYTES);
    enum image_kind kind = find_kind(bytes, byte_count);
    if (kind == IMAGE_KINDS)
        return error_set(error, RESULT_UNSUPPORTED, IMAGE_UNKNOWN_KIND);
    enum result result = kinds[kind].probe(&source, error);
    if (result != RESULT_OK)
        return result;
    if (source.width > LIMIT_SOURCE_IMAGE_SIDE || source.height > LIMIT_SOURCE_IMAGE_SIDE ||
        (uint64_t)source.width * source.height > LIMIT_SOURCE_IMAGE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "a %s of %u x %u pixels; the most is %u pixels, and %u for a side",
                         kinds[kind].name, source.width, source.height, LIMIT_SOURCE_IMAGE_PIXELS,
                         LIMIT_SOURCE_IMAGE_SIDE);
    bool turned = is_turned(source.orientation);
    *header = (struct image_header){.kind = kind,
                                    .width = turned ? source.height : source.width,
                                    .height = turned ? source.width : source.height,
                                    .orientation = source.orientation,
                                    .scans = source.scans};
    return RESULT_OK;
}

/* As stored, not upright. */
static enum result decode(const uint8_t *bytes, size_t byte_count,
                          const struct image_header *header, uint32_t reduction, uint8_t *out,
                          struct image_pixels *pixels, struct error_text *error)
{
    bool turned = is_turned(header->orientation);
    const struct image_source source = {.bytes = bytes,
                                        .byte_count = byte_count,
                                        .width = turned ? header->height : header->width,
                                        .height = turned ? header->width : header->height,
                                        .orientation = header->orientation,
                                        .scans = header->scans,
                                        .reduction = reduction,
                                        .out = out};
    must(header->kind < IMAGE_KINDS);
    return kinds[header->kind].decode(&source, pixels, error);
}

enum result image_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct image_header *header, uint32_t wanted_width,
                              uint32_t wanted_height, struct image_pixels *pixels,
                              struct error_text *error)
{
    uint32_t reduction = image_header_reduction(header, wanted_width, wanted_height);
    struct image_pixels decoded;
    enum result result = decode(bytes, byte_count, header, reduction, NULL, &decoded, error);
    if (result != RESULT_OK)
        return result;
    result = image_pixels_orient(&decoded, header->orientation, error);
    if (result == RESULT_OK)
        *pixels = decoded;
    else
        image_pixels_fini(&decoded);
    return result;
}

enum result image_decoder_run_into(const uint8_t *bytes, size_t byte_count,
                                   const struct image_header *header, uint32_t wanted_width,
                                   uint32_t wanted_height, uint8_t *out, struct error_text *error)
{
    uint32_t reduction = image_header_reduction(header, wanted_width, wanted_height);
    bool upright = header->orientation <= 1;
    struct image_pixels decoded;
    enum result result =
        decode(bytes, byte_count, header, reduction, upright ? out : NULL, &decoded, error);
    if (result != RESULT_OK)
        return result;
    if (!upright)
        image_pixels_orient_into(&decoded, header->orientation, out);
    image_pixels_fini(&decoded);
    return RESULT_OK;
}
