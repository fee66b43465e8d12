/*
 * How much CPU time an image may take.
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_BUDGET_POLICY_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_BUDGET_POLICY_H

#include <stdint.h>

#include "frontend/image/image_header.h"
#include "frontend/image/video_header.h"

/* CPU time in microseconds for a file of `byte_count` bytes. `header` NULL: only the headers are
 * read. */
int64_t media_budget_cpu_us(uint32_t byte_count, const struct image_header *header);
/* The same for decoding a video. */
int64_t media_budget_video_cpu_us(uint32_t byte_count, const struct video_header *header,
                                  const struct video_order *order);
/* The same for counting or decoding the samples of an audio file. How long it lasts is not known
 * before, so this is the time of the longest. */
int64_t media_budget_audio_cpu_us(uint32_t byte_count);
/* Wall time after which the process counts as hung, whatever CPU time it had. */
int64_t media_budget_wall_us(int64_t cpu_us);

#endif
