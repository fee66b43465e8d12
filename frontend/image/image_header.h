/*
 * What the headers of an image file say, once checked. Requests are refused, planned and counted by
 * it before anything of an image's size is allocated.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_HEADER_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_HEADER_H

#include <stdbool.h>
#include <stdint.h>

enum image_kind { IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP, IMAGE_GIF, IMAGE_KINDS };

/* What a client is told of a file of another kind. */
#define IMAGE_UNKNOWN_KIND "this is no JPEG, PNG, WebP or GIF file"

struct image_header {
    enum image_kind kind;
    uint32_t width; /* upright, as decoding gives it: 1..LIMIT_SOURCE_IMAGE_SIDE */
    uint32_t height;
    uint8_t orientation; /* EXIF's, 1..8: how the stored image is turned to stand upright */
    uint32_t scans;      /* of a JPEG, each of which costs a pass over all pixels; otherwise 1 */
};

/* True if every field is in its range and the pixels are at most LIMIT_SOURCE_IMAGE_PIXELS. */
bool image_header_is_valid(const struct image_header *header);

/*
 * By how much the sides of the decoded image are divided: 1, or 2, 4 or 8 for a JPEG of more than
 * LIMIT_JPEG_EXACT_PIXELS if the result is still twice wanted_width and wanted_height (0: unknown),
 * the size to which the image is going to be resized.
 */
uint32_t image_header_reduction(const struct image_header *header, uint32_t wanted_width,
                                uint32_t wanted_height);
/* The size of the decoded image: sides divided by the reduction, rounded up. */
void image_header_decoded_size(const struct image_header *header, uint32_t wanted_width,
                               uint32_t wanted_height, uint32_t *width, uint32_t *height);

#endif
