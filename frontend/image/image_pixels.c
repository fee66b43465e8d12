/*
 * Memory of decoded images, and turning a stored image upright.
 *
 * EXIF's orientations are the eight ways to map a rectangle onto itself: a mirror and quarter
 * turns. Each is described by the place of the upright image's first pixel in the stored one and by
 * the distance there from one pixel to the next, along a row and along a column; one loop then
 * handles all of them. The upright image gets new memory: turning in place would need cycles
 * through all pixels.
 */
#include "frontend/image/image_pixels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

size_t image_pixels_bytes(uint32_t width, uint32_t height)
{
    return (size_t)width * height * IMAGE_CHANNELS;
}

enum result image_pixels_init(struct image_pixels *pixels, uint32_t width, uint32_t height,
                              struct error_text *error)
{
    must(width >= 1 && width <= LIMIT_SOURCE_IMAGE_SIDE && height >= 1 &&
         height <= LIMIT_SOURCE_IMAGE_SIDE);
    *pixels = (struct image_pixels){.width = width, .height = height};
    pixels->rgb = malloc(image_pixels_bytes(width, height));
    return pixels->rgb ? RESULT_OK
                       : error_set(error, RESULT_OUT_OF_MEMORY,
                                   "no memory for an image of %u x %u pixels", width, height);
}

void image_pixels_fini(struct image_pixels *pixels)
{
    if (pixels->store == PIXELS_ON_HEAP)
        free(pixels->rgb);
    *pixels = (struct image_pixels){0};
}

/* Whether a row of the upright image is a column of the stored one, and whether it runs backwards
 * along the stored image's width and height. */
struct orientation {
    bool swapped;
    bool from_right;
    bool from_bottom;
};

static const struct orientation orientations[9] = {
    [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
    [5] = {true, false, false}, [6] = {true, false, true}, [7] = {true, true, true},
    [8] = {true, true, false},
};

void image_pixels_orient_into(const struct image_pixels *pixels, unsigned orientation, uint8_t *out)
{
    struct orientation how = orientations[orientation < 9 ? orientation : 1];
    uint32_t width = pixels->width, height = pixels->height;
    uint32_t upright_width = how.swapped ? height : width;
    uint32_t upright_height = how.swapped ? width : height;
    ptrdiff_t across = how.from_right ? -(ptrdiff_t)IMAGE_CHANNELS : (ptrdiff_t)IMAGE_CHANNELS;
    ptrdiff_t down = (how.from_bottom ? -1 : 1) * (ptrdiff_t)width * (ptrdiff_t)IMAGE_CHANNELS;
    const uint8_t *first = pixels->rgb +
                           (how.from_right ? (size_t)(width - 1) * IMAGE_CHANNELS : 0) +
                           (how.from_bottom ? image_pixels_bytes(width, height - 1) : 0);
    ptrdiff_t along_row = how.swapped ? down : across;
    ptrdiff_t along_column = how.swapped ? across : down;
    for (uint32_t y = 0; y < upright_height; y++) {
        const uint8_t *in = first + (ptrdiff_t)y * along_column;
        for (uint32_t x = 0; x < upright_width; x++, in += along_row, out += IMAGE_CHANNELS)
            memcpy(out, in, IMAGE_CHANNELS);
    }
}

enum result image_pixels_orient(struct image_pixels *pixels, unsigned orientation,
                                struct error_text *error)
{
    if (orientation < 2 || orientation > 8)
        return RESULT_OK;
    bool swapped = orientations[orientation].swapped;
    struct image_pixels upright;
    enum result result = image_pixels_init(&upright, swapped ? pixels->height : pixels->width,
                                           swapped ? pixels->width : pixels->height, error);
    if (result != RESULT_OK)
        return result;
    image_pixels_orient_into(pixels, orientation, upright.rgb);
    image_pixels_fini(pixels);
    *pixels = upright;
    return RESULT_OK;
}
