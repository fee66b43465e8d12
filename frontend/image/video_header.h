/*
 * What the headers of a video's file say, once checked.
 */
#ifndef SHOAL_FRONTEND_IMAGE_VIDEO_HEADER_H
#define SHOAL_FRONTEND_IMAGE_VIDEO_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/image/image_pixels.h"
#include "frontend/image/image_resizer.h"

enum video_kind {
    VIDEO_STILL, /* a JPEG or PNG: one frame */
    VIDEO_GIF,
    VIDEO_WEBP,
    VIDEO_CONTAINER, /* MP4, MOV, WebM, Matroska (video_container.h) */
    VIDEO_KINDS
};

struct video_header {
    enum video_kind kind;
    uint32_t width; /* upright: 1..LIMIT_SOURCE_IMAGE_SIDE, together <= LIMIT_VIDEO_FRAME_PIXELS */
    uint32_t height;
    uint32_t frames;      /* 1..LIMIT_VIDEO_SOURCE_FRAMES */
    uint64_t duration_us; /* of all frames, 1..LIMIT_VIDEO_US */
    uint64_t work_pixels; /* that decoding all frames writes, <= LIMIT_VIDEO_SOURCE_PIXELS */
};

/* True if every field is in its range. */
bool video_header_is_valid(const struct video_header *header);

/* Which frames of a file are wanted, and the size that they are resized to. */
struct video_order {
    const uint32_t *indices; /* [count] ascending, below the header's frames */
    uint32_t count;          /* 1..LIMIT_VIDEO_FRAMES */
    uint32_t width;          /* 1..LIMIT_IMAGE_SIDE; all frames together <= LIMIT_VIDEO_PIXELS */
    uint32_t height;
    enum image_filter filter;
    enum image_arithmetic arithmetic;
};

/* Bytes of a resized frame. */
size_t video_order_frame_bytes(const struct video_order *order);
/* True if it is in the bounds above and fits the header. */
bool video_order_is_valid(const struct video_order *order, const struct video_header *header);

#endif
