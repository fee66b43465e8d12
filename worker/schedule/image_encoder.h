/*
 * Encodes images into features between steps. A batch of the images that running prefills need next
 * is encoded in parts (worker/backend/host/backend.h), one part in each turn, as large as the pace
 * allows beside streams that wait for their next token.
 *
 * Sequences get features in order of arrival, and each in the order of its prompt. Features in the
 * feature cache are shared; the other images are encoded, small ones together. If the pool has no
 * room for the first image in line, the youngest other sequences give back their features and
 * request them again later, so the first one always makes progress. Features that rows attend to
 * (model_vision.crossed_layers) are kept until their sequence ends, once all of its images have theirs; a sequence that
 * waits for room gets it before those after it.
 */
#ifndef SHOAL_WORKER_SCHEDULE_IMAGE_ENCODER_H
#define SHOAL_WORKER_SCHEDULE_IMAGE_ENCODER_H

#include "proto/worker_gauges.h"
#include "worker/backend/host/backend.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/sequence_table.h"
#include "worker/schedule/step_pace.h"

#define IMAGE_ENCODER_BATCH 64u /* images at once; a larger batch would delay each of them */

struct image_encoder {
    struct backend *backend;
    const struct model_vision *vision; /* NULL: the model takes no images */
    struct feature_cache *features;
    struct sequence_table *table;
    struct frontend_link *link;
    struct worker_gauges *gauges;
    uint32_t max_patch_rows; /* limit of a batch */

    /* The batch being encoded. */
    uint64_t work_left; /* patch rows times stages; 0: no batch */
    uint32_t patch_rows;
    uint32_t room_patch_rows; /* limit of this batch */
    uint32_t count;
    uint32_t features_held[IMAGE_ENCODER_BATCH];     /* held images of the feature cache */
    struct request_id requests[IMAGE_ENCODER_BATCH]; /* the first request of each */
    struct encode_image images[IMAGE_ENCODER_BATCH];
};

/* Whether a batch has stages that are not launched yet. */
bool image_encoder_is_busy(const struct image_encoder *encoder);

/* Gives back the images of an unfinished batch. There is no init: the caller sets the first fields
 * and zeroes those of the batch. */
void image_encoder_fini(struct image_encoder *encoder);

/* Gives cached features to the sequences that need them, starts a batch if none is being encoded
 * and images are needed, and launches a part of it (beside waiting streams, in the next call).
 * *patch_work: patch rows times stages launched. */
enum result image_encoder_advance(struct image_encoder *encoder, const struct step_pace *pace,
                                  uint64_t *patch_work, struct error_text *error) RESULT_CHECKED;

/* Adds the requests whose images are being encoded to the roster. */
void image_encoder_add_to_roster(const struct image_encoder *encoder);

#endif
