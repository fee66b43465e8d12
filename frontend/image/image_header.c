/*
 * A huge JPEG costs little more than its bytes when it is decoded at a fraction of its size, which
 * libjpeg does while it transforms blocks. The fraction keeps twice the size that is wanted, so that
 * the resizing afterwards decides how the result looks.
 */
#include "frontend/image/image_header.h"

#include "proto/limits.h"

#define REDUCTION_MOST 8u
#define REDUCTION_KEPT 2u /* times the wanted size */

bool image_header_is_valid(const struct image_header *header)
{
    return header->kind < IMAGE_KINDS && header->width >= 1 &&
           header->width <= LIMIT_SOURCE_IMAGE_SIDE && header->height >= 1 &&
           header->height <= LIMIT_SOURCE_IMAGE_SIDE &&
           (uint64_t)header->width * header->height <= LIMIT_SOURCE_IMAGE_PIXELS &&
           header->orientation >= 1 && header->orientation <= 8 && header->scans >= 1 &&
           header->scans <= (header->kind == IMAGE_JPEG ? LIMIT_JPEG_SCANS : 1);
}

uint32_t image_header_reduction(const struct image_header *header, uint32_t wanted_width,
                                uint32_t wanted_height)
{
    uint32_t reduction = 1;
    if (header->kind != IMAGE_JPEG || !wanted_width || !wanted_height ||
        (uint64_t)header->width * header->height <= LIMIT_JPEG_EXACT_PIXELS)
        return reduction;
    while (reduction < REDUCTION_MOST &&
           header->width / (reduction * 2) >= (uint64_t)wanted_width * REDUCTION_KEPT &&
           header->height / (reduction * 2) >= (uint64_t)wanted_height * REDUCTION_KEPT)
        reduction *= 2;
    return reduction;
}

void image_header_decoded_size(const struct image_header *header, uint32_t wanted_width,
                               uint32_t wanted_height, uint32_t *width, uint32_t *height)
{
    uint32_t reduction = image_header_reduction(header, wanted_width, wanted_height);
    *width = (header->width + reduction - 1) / reduction;
    *height = (header->height + reduction - 1) / reduction;
}
