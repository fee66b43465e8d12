/*
 * Decodes frames of a video's file: animated GIF and WebP, films (video_container.h), or a JPEG or PNG
 * as a video of one frame.
 * The first bytes decide the kind. Runs in the media process.
 *
 * Frames are those of PIL, converted to RGB with alpha over white. Times are sums of the frames'
 * durations, of which 0 counts as a tenth of a second.
 *
 * Every failure has a text about the video, for the client who sent it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_VIDEO_DECODER_H
#define SHOAL_FRONTEND_IMAGE_VIDEO_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/image/video_header.h"
#include "proto/result.h"

/* Reads headers only. RESULT_TOO_LARGE beyond LIMIT_VIDEO_*, RESULT_UNSUPPORTED for another kind of
 * file, RESULT_INVALID for one that is cut off or contradicts itself. */
enum result video_decoder_probe(const uint8_t *bytes, size_t byte_count,
                                struct video_header *header,
                                struct error_text *error) RESULT_CHECKED;

/* Decodes the frames up to the last one that is wanted, and writes those that are, resized, to
 * out[order->count][video_order_frame_bytes()]. `header` is video_decoder_probe()'s of the same bytes
 * and `order` is valid for it. RESULT_INVALID, RESULT_OUT_OF_MEMORY. */
enum result video_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct video_header *header, const struct video_order *order,
                              uint8_t *out, struct error_text *error) RESULT_CHECKED;

#endif
