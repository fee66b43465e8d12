/*
 * Where decoded pixels live, and how a picture that a camera stored lying is made to stand.
 *
 * EXIF's orientations are the eight ways to put a rectangle onto itself: a mirror and quarter
 * turns. Each is described by where the upright picture's first pixel lies in the stored one and by
 * how far it is there from one pixel to the next, along a row and along a column; then one loop
 * does all of them.
 *
 * Refuses to do: turning in place, which for quarter turns would need cycles through all of it.
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
    must(width >= 1 && width <= LIMIT_PICTURE_SIDE && height >= 1 && height <= LIMIT_PICTURE_SIDE);
    *pixels = (struct image_pixels){.width = width, .height = height};
    pixels->rgb = malloc(image_pixels_bytes(width, height));
    return pixels->rgb ? RESULT_OK
                       : error_set(error, RESULT_OUT_OF_MEMORY,
                                   "no memory for a picture of %u x %u pixels", width, height);
}

void image_pixels_fini(struct image_pixels *pixels)
{
    free(pixels->rgb);
    *pixels = (struct image_pixels){0};
}

/* Of the upright picture: is a row of it a column of the stored one, and does it run backwards
 * along the stored picture's width, along its height. */
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

enum result image_pixels_orient(struct image_pixels *pixels, unsigned orientation,
                                struct error_text *error)
{
    if (orientation < 2 || orientation > 8)
        return RESULT_OK;
    struct orientation how = orientations[orientation];
    uint32_t width = pixels->width, height = pixels->height;
    struct image_pixels upright;
    enum result result = image_pixels_init(&upright, how.swapped ? height : width,
                                           how.swapped ? width : height, error);
    if (result != RESULT_OK)
        return result;
    ptrdiff_t across = how.from_right ? -(ptrdiff_t)IMAGE_CHANNELS : (ptrdiff_t)IMAGE_CHANNELS;
    ptrdiff_t down = (how.from_bottom ? -1 : 1) * (ptrdiff_t)width * (ptrdiff_t)IMAGE_CHANNELS;
    const uint8_t *first = pixels->rgb +
                           (how.from_right ? (size_t)(width - 1) * IMAGE_CHANNELS : 0) +
                           (how.from_bottom ? image_pixels_bytes(width, height - 1) : 0);
    ptrdiff_t along_row = how.swapped ? down : across;
    ptrdiff_t along_column = how.swapped ? across : down;
    uint8_t *out = upright.rgb;
    for (uint32_t y = 0; y < upright.height; y++) {
        const uint8_t *in = first + (ptrdiff_t)y * along_column;
        for (uint32_t x = 0; x < upright.width; x++, in += along_row, out += IMAGE_CHANNELS)
            memcpy(out, in, IMAGE_CHANNELS);
    }
    image_pixels_fini(pixels);
    *pixels = upright;
    return RESULT_OK;
}
