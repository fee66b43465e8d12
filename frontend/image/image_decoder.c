/*
 * One door for all kinds of files: look at the first bytes, ask that kind's codec for the size,
 * hold it to the limits, and only then let it decode.
 *
 * A file is what its first bytes say. What follows the picture in it (a polyglot's other half) is
 * never looked at, and no second kind is tried when the first fails.
 *
 * Refuses to do: other kinds, several frames, colour profiles and gamma (as PIL's conversion).
 */
#include "frontend/image/image_decoder.h"

#include <stdbool.h>
#include <string.h>

#include "frontend/image/image_codec.h"
#include "proto/limits.h"
#include "proto/must.h"

#define REDUCTION_MOST 8u
#define REDUCTION_KEPT                                                                             \
    2u /* times what is wanted: enough that the last resizing decides the look                     \
        */

static const struct {
    const char *name;
    const char *magic; /* what files begin with */
    size_t magic_bytes;
    const char *form; /* NULL, or what stands 8 bytes behind the beginning (RIFF) */
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
    if (byte_count > LIMIT_PICTURE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         byte_count, LIMIT_PICTURE_BYTES);
    enum image_kind kind = find_kind(bytes, byte_count);
    if (kind == IMAGE_KINDS)
        return error_set(error, RESULT_UNSUPPORTED, "this is no JPEG, PNG, WebP or GIF file");
    enum result result = kinds[kind].probe(&source, error);
    if (result != RESULT_OK)
        return result;
    if (source.width > LIMIT_PICTURE_SIDE || source.height > LIMIT_PICTURE_SIDE ||
        (uint64_t)source.width * source.height > LIMIT_PICTURE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "a %s of %u x %u pixels; the most is %u pixels, and %u for a side",
                         kinds[kind].name, source.width, source.height, LIMIT_PICTURE_PIXELS,
                         LIMIT_PICTURE_SIDE);
    bool turned = is_turned(source.orientation);
    *header = (struct image_header){.kind = kind,
                                    .width = turned ? source.height : source.width,
                                    .height = turned ? source.width : source.height,
                                    .orientation = source.orientation,
                                    .scans = source.scans};
    return RESULT_OK;
}

/* By how much a JPEG can be decoded smaller, where it has more than the pixels that are always
 * decoded exactly. */
static uint32_t choose_reduction(const struct image_header *header, uint32_t wanted_width,
                                 uint32_t wanted_height)
{
    uint32_t reduction = 1;
    if (header->kind != IMAGE_JPEG || !wanted_width || !wanted_height ||
        (uint64_t)header->width * header->height <= LIMIT_PICTURE_EXACT_PIXELS)
        return reduction;
    while (reduction < REDUCTION_MOST &&
           header->width / (reduction * 2) >= (uint64_t)wanted_width * REDUCTION_KEPT &&
           header->height / (reduction * 2) >= (uint64_t)wanted_height * REDUCTION_KEPT)
        reduction *= 2;
    return reduction;
}

enum result image_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct image_header *header, uint32_t wanted_width,
                              uint32_t wanted_height, const atomic_bool *cancelled,
                              struct image_pixels *pixels, struct error_text *error)
{
    bool turned = is_turned(header->orientation);
    struct image_source source = {.bytes = bytes,
                                  .byte_count = byte_count,
                                  .width = turned ? header->height : header->width,
                                  .height = turned ? header->width : header->height,
                                  .orientation = header->orientation,
                                  .scans = header->scans,
                                  .reduction =
                                      choose_reduction(header, wanted_width, wanted_height),
                                  .cancelled = cancelled};
    must(header->kind < IMAGE_KINDS);
    struct image_pixels decoded;
    enum result result = image_codec_check(&source, error);
    if (result == RESULT_OK)
        result = kinds[header->kind].decode(&source, &decoded, error);
    if (result != RESULT_OK)
        return result;
    result = image_codec_check(&source, error);
    if (result == RESULT_OK)
        result = image_pixels_orient(&decoded, header->orientation, error);
    if (result == RESULT_OK)
        *pixels = decoded;
    else
        image_pixels_fini(&decoded);
    return result;
}
