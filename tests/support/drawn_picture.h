/*
 * Pictures that tests draw themselves, and hashes of pixels, both as scripts/golden/image_pixels.py
 * has them.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAWN_PICTURE_H
#define SHOAL_TESTS_SUPPORT_DRAWN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Ramps and noise by turns, in squares of 16. Fills rgb[height * width * 3]. */
void drawn_picture_fill(uint8_t *rgb, uint32_t width, uint32_t height, uint32_t seed);

/* FNV-1a over bytes, and over little-endian words of 8, the last filled up with zeros. */
uint64_t drawn_picture_text_hash(const char *text, size_t count);
uint64_t drawn_picture_hash(const uint8_t *bytes, size_t count);

#endif
