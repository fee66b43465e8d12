/*
 * The orientation in an image's EXIF data.
 */
#ifndef SHOAL_FRONTEND_IMAGE_EXIF_ORIENTATION_H
#define SHOAL_FRONTEND_IMAGE_EXIF_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* EXIF's tag 274 of the first directory, 1..8; 1 if it is absent or the data are broken (the image
 * is accepted all the same). `bytes` begin with the TIFF header or with "Exif\0\0". */
uint8_t exif_orientation_read(const uint8_t *bytes, size_t byte_count);

#endif
