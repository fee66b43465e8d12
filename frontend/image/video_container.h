/*
 * Files of films: MP4, MOV, WebM, Matroska. The program shoal-av has them by FFmpeg's libraries
 * (frontend/media/libav/), every other program refuses them (video_container_none.c).
 */
#ifndef SHOAL_FRONTEND_IMAGE_VIDEO_CONTAINER_H
#define SHOAL_FRONTEND_IMAGE_VIDEO_CONTAINER_H

#include "frontend/image/video_codec.h"

/* As the functions of video_codec.h. RESULT_UNSUPPORTED if this program does not have it. */
enum result video_container_probe(const struct image_source *source, struct video_header *header,
                                  struct error_text *error) RESULT_CHECKED;
enum result video_container_run(const struct image_source *source,
                                const struct video_header *header, struct video_taker *taker,
                                struct error_text *error) RESULT_CHECKED;

#endif
