/*
 * Bounds of foreign numbers: sides before their product, so that nothing overflows.
 */
#include "frontend/image/video_header.h"

#include "proto/limits.h"

bool video_header_is_valid(const struct video_header *header)
{
    return header->kind < VIDEO_KINDS && header->width >= 1 &&
           header->width <= LIMIT_SOURCE_IMAGE_SIDE && header->height >= 1 &&
           header->height <= LIMIT_SOURCE_IMAGE_SIDE &&
           (uint64_t)header->width * header->height <= LIMIT_VIDEO_FRAME_PIXELS &&
           header->frames >= 1 && header->frames <= LIMIT_VIDEO_SOURCE_FRAMES &&
           header->duration_us >= 1 && header->duration_us <= LIMIT_VIDEO_US &&
           header->work_pixels <= LIMIT_VIDEO_SOURCE_PIXELS;
}

size_t video_order_frame_bytes(const struct video_order *order)
{
    return image_pixels_bytes(order->width, order->height);
}

bool video_order_is_valid(const struct video_order *order, const struct video_header *header)
{
    if (order->count < 1 || order->count > LIMIT_VIDEO_FRAMES || order->width < 1 ||
        order->width > LIMIT_IMAGE_SIDE || order->height < 1 || order->height > LIMIT_IMAGE_SIDE ||
        (unsigned)order->filter >= IMAGE_FILTERS ||
        (unsigned)order->arithmetic > IMAGE_ARITHMETIC_TORCH ||
        (uint64_t)order->width * order->height * order->count > LIMIT_VIDEO_PIXELS)
        return false;
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->indices[i] >= header->frames ||
            (i > 0 && order->indices[i] < order->indices[i - 1]))
            return false;
    }
    return true;
}
