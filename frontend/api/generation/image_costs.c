/*
 * Decoding takes time by pixels and scans, of which a small file may have many.
 */
#include "frontend/api/generation/image_costs.h"

#include "proto/limits.h"

enum result image_costs_add_file(struct image_costs *costs, size_t bytes, struct error_text *why)
{
    costs->file_bytes += bytes;
    if (costs->file_bytes <= LIMIT_REQUEST_SOURCE_BYTES)
        return RESULT_OK;
    return error_set(why, RESULT_TOO_LARGE, "with it the files have more than %u bytes",
                     LIMIT_REQUEST_SOURCE_BYTES);
}

enum result image_costs_add_video(struct image_costs *costs, const struct video_header *header,
                                  uint32_t shown, struct error_text *why)
{
    costs->video_pixels += header->work_pixels + (uint64_t)header->width * header->height * shown;
    if (costs->video_pixels <= LIMIT_VIDEO_SOURCE_PIXELS)
        return RESULT_OK;
    return error_set(why, RESULT_TOO_LARGE, "with it the videos have more than %llu pixels",
                     LIMIT_VIDEO_SOURCE_PIXELS);
}

enum result image_costs_add_image(struct image_costs *costs, const struct image_header *header,
                                  struct error_text *why)
{
    uint64_t pixels = (uint64_t)header->width * header->height;
    costs->pixels += pixels;
    costs->passes += pixels * header->scans;
    if (costs->pixels > LIMIT_REQUEST_SOURCE_PIXELS)
        return error_set(why, RESULT_TOO_LARGE, "with it the images have more than %u pixels",
                         LIMIT_REQUEST_SOURCE_PIXELS);
    if (costs->passes > LIMIT_REQUEST_SOURCE_PASSES)
        return error_set(why, RESULT_TOO_LARGE,
                         "with it the scans of the images have more than %llu pixels",
                         LIMIT_REQUEST_SOURCE_PASSES);
    return RESULT_OK;
}
