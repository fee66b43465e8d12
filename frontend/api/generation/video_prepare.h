/*
 * One video of a request, in the steps of image_prepare.h: read, then decoded. Between them the plan
 * says what becomes of it.
 *
 * Results and texts are as those of image_prepare.c: the text says what is wrong with "it", and the
 * caller adds the place in the body.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_VIDEO_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_VIDEO_PREPARE_H

#include "frontend/api/generation/image_costs.h"
#include "frontend/api/generation/request_images.h"
#include "frontend/image/image_reader.h"
#include "frontend/image/image_set.h"
#include "frontend/image/video_processor.h"

/* What reading and decoding need, the same for all videos of a request. */
struct video_means {
    const struct video_processor *processor;
    const struct media_policy *media;
    const struct image_reader *reader;
    const atomic_bool *cancelled;
};

struct video_work; /* of one video */

/* Reads its files and their headers and plans it. */
enum result video_prepare_read(const struct video_means *means, const struct request_image *named,
                               struct image_costs *costs, struct video_work **work,
                               struct error_text *why) RESULT_CHECKED;
const struct video_plan *video_prepare_plan(const struct video_work *work);
/* Its file; NULL: a list of frames. */
const struct file_bytes *video_prepare_file(const struct video_work *work);
/* Fills what the plan says of the records of its temporal patches: records[places[patch]], or
 * records[patch] if `places` is NULL. */
void video_prepare_records(const struct video_means *means, const struct video_work *work,
                           const uint32_t *places, struct image_record *records);
/* Decodes and resizes the frames into these records of the set, from `first` on, and sets their hashes.
 */
enum result video_prepare_decode(const struct video_means *means, struct video_work *work,
                                 const uint32_t *places, struct image_set *set, uint32_t first,
                                 struct error_text *why) RESULT_CHECKED;
void video_prepare_end(struct video_work *work); /* NULL is allowed */

#endif
