/*
 * What the images and videos of a request cost together, as far as it is known before any is decoded.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_IMAGE_COSTS_H
#define SHOAL_FRONTEND_API_GENERATION_IMAGE_COSTS_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_header.h"
#include "frontend/image/video_header.h"
#include "proto/result.h"

struct image_costs { /* zeroed at first */
    uint64_t file_bytes;
    uint64_t pixels;
    uint64_t passes; /* pixels times scans */
    uint64_t tokens;
    uint64_t video_pixels; /* decoded, converted and resized */
};

/* Adds a file, or an image that is going to be decoded. RESULT_TOO_LARGE beyond LIMIT_REQUEST_SOURCE_*;
 * the text refers to the image as "it". */
enum result image_costs_add_file(struct image_costs *costs, size_t bytes,
                                 struct error_text *why) RESULT_CHECKED;
/* A video of which so many frames are shown. RESULT_TOO_LARGE beyond LIMIT_VIDEO_SOURCE_PIXELS. */
enum result image_costs_add_video(struct image_costs *costs, const struct video_header *header,
                                  uint32_t shown, struct error_text *why) RESULT_CHECKED;
enum result image_costs_add_image(struct image_costs *costs, const struct image_header *header,
                                  struct error_text *why) RESULT_CHECKED;

#endif
