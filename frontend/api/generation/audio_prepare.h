/*
 * A sound of a request, from its name to the mel rows of its record. The caller is image_prepare.c,
 * which has the order of all images, videos and sounds, and the limits of a request.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_AUDIO_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_AUDIO_PREPARE_H

#include "frontend/api/generation/image_costs.h"
#include "frontend/api/generation/video_prepare.h"
#include "frontend/audio/audio_processor.h"

struct audio_work;

/* Reads and counts the sound. *work is the caller's and freed by audio_prepare_end(). Results as of
 * image_source_read(), the reader's probe_audio() and audio_processor_plan(); the text is about the
 * sound. */
enum result audio_prepare_read(const struct video_means *means,
                               const struct audio_processor *processor,
                               const struct request_image *named, struct image_costs *costs,
                               struct audio_work **work, struct error_text *why) RESULT_CHECKED;
/* The same for the sound of a video's file, which outlives the work. */
enum result audio_prepare_read_track(const struct video_means *means,
                                     const struct audio_processor *processor,
                                     const struct file_bytes *file, struct audio_work **work,
                                     struct error_text *why) RESULT_CHECKED;
void audio_prepare_end(struct audio_work *work); /* NULL is allowed */
const struct audio_plan *audio_prepare_plan(const struct audio_work *work);

/* Fills the records of the sound's pieces, whose sizes are the plan's: first + places[piece] of the set, or
 * first + piece if places is NULL. */
enum result audio_prepare_decode(const struct video_means *means,
                                 const struct audio_processor *processor, struct audio_work *work,
                                 struct image_set *set, uint32_t first, const uint32_t *places,
                                 struct error_text *why) RESULT_CHECKED;

#endif
