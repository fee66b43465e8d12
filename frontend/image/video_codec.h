/*
 * The functions of each decoder of videos, for video_decoder.c.
 */
#ifndef SHOAL_FRONTEND_IMAGE_VIDEO_CODEC_H
#define SHOAL_FRONTEND_IMAGE_VIDEO_CODEC_H

#include "frontend/image/image_codec.h"
#include "frontend/image/video_header.h"

#define VIDEO_UNTIMED_US 100000u /* of a frame whose duration is 0 */

/* Takes decoded frames in order and keeps the ones that are wanted. */
struct video_taker {
    const struct video_order *order;
    uint8_t *out;
    uint32_t taken; /* of the order */
};

/* True if no further frame is wanted. */
bool video_taker_is_done(const struct video_taker *taker);
/* True if frame `index` is wanted next; codecs need not convert others. */
bool video_taker_wants(const struct video_taker *taker, uint32_t index);
/* Resizes a wanted frame into its places. RESULT_OUT_OF_MEMORY. */
enum result video_taker_take(struct video_taker *taker, uint32_t index,
                             const struct image_pixels *frame,
                             struct error_text *error) RESULT_CHECKED;

/* Fill all fields of the header but `kind`; limits are checked by the caller. */
enum result gif_animation_probe(const struct image_source *source, struct video_header *header,
                                struct error_text *error) RESULT_CHECKED;
enum result webp_animation_probe(const struct image_source *source, struct video_header *header,
                                 struct error_text *error) RESULT_CHECKED;

/* Hand frames to the taker until it is done. RESULT_INVALID if frames are missing or broken. */
enum result gif_animation_run(const struct image_source *source, const struct video_header *header,
                              struct video_taker *taker, struct error_text *error) RESULT_CHECKED;
enum result webp_animation_run(const struct image_source *source, const struct video_header *header,
                               struct video_taker *taker, struct error_text *error) RESULT_CHECKED;

#endif
