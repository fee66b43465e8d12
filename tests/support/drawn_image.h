/*
 * Images that tests draw themselves, and hashes of pixels. scripts/golden/image_pixels.py computes
 * both in the same way.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAWN_IMAGE_H
#define SHOAL_TESTS_SUPPORT_DRAWN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Fills rgb[height * width * 3] with alternating squares of ramps and noise, 16 pixels wide. */
void drawn_image_fill(uint8_t *rgb, uint32_t width, uint32_t height, uint32_t seed);

/* FNV-1a over bytes, and over little-endian words of 8 bytes, the last padded with zeros. */
uint64_t drawn_image_text_hash(const char *text, size_t count);
uint64_t drawn_image_hash(const uint8_t *bytes, size_t count);

#endif
