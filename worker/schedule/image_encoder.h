/*
 * Pictures become features in the background of steps: a batch of those that running prefills need
 * next is encoded in parts (worker/backend/host/backend.h), one in each turn, as large as the pace
 * allows beside streams that wait for their next token.
 *
 * Who needs features gets them in the order of arrival and of its prompt. What the feature cache
 * has is shared; the rest is encoded, small pictures together. When the pool has no room for the
 * first one in line, the youngest others give back what they hold and come again later, so the
 * first one always moves.
 */
#ifndef SHOAL_WORKER_SCHEDULE_IMAGE_ENCODER_H
#define SHOAL_WORKER_SCHEDULE_IMAGE_ENCODER_H

#include "proto/worker_gauges.h"
#include "worker/backend/host/backend.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/sequence_table.h"
#include "worker/schedule/step_pace.h"

#define IMAGE_ENCODER_BATCH 64u /* pictures at once; more would each wait for all the others */

struct image_encoder {
    struct backend *backend;
    const struct model_vision *vision; /* NULL: there are never any pictures */
    struct feature_cache *features;
    struct sequence_table *table;
    struct frontend_link *link;
    struct worker_gauges *gauges;
    uint32_t most_patch_rows; /* of a batch */

    /* The batch under way. */
    uint64_t work_left; /* patch rows times stages; 0 when there is none */
    uint32_t patch_rows;
    uint32_t room_patch_rows; /* of this batch */
    uint32_t count;
    uint32_t images[IMAGE_ENCODER_BATCH];            /* of the feature cache, held */
    struct request_id requests[IMAGE_ENCODER_BATCH]; /* whose they were first */
    struct encode_picture pictures[IMAGE_ENCODER_BATCH];
};

/* A batch is under way, of which there is more to launch. */
bool image_encoder_is_busy(const struct image_encoder *encoder);

/* The last fields are zeroed by the caller. Gives back what a batch that is not finished holds. */
void image_encoder_fini(struct image_encoder *encoder);

/* Shares what is there with those that need it, begins a batch if none is under way and something
 * is needed, and launches a part of it; beside streams that wait, in the next call. *patch_work:
 * patch rows times stages that were launched. */
enum result image_encoder_advance(struct image_encoder *encoder, const struct step_pace *pace,
                                  uint64_t *patch_work, struct error_text *error) RESULT_CHECKED;

/* Adds those whose pictures are being encoded to the roster. */
void image_encoder_add_to_roster(const struct image_encoder *encoder);

#endif
