/*
 * The vision part of the fake backend (fake_backend.h): a feature pool in which every row records
 * its image and the index of the feature.
 *
 * Like steps, encodings take effect at the earliest moment that the contract allows (when the call
 * returns) or at the latest (before the next step launched after them is computed). Rows of a batch
 * that was begun but not finished must not be read.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_VISION_H
#define SHOAL_TESTS_SUPPORT_FAKE_VISION_H

#include "worker/backend/host/encode_batch.h"
#include "worker/backend/host/step_batch.h"

struct fake_vision_options {
    const struct model_vision *vision; /* outlives it */
    uint32_t patch_rows;
    uint32_t feature_rows;
    bool late;
};

struct fake_vision;

struct fake_vision *fake_vision_create(const struct fake_vision_options *options);
void fake_vision_destroy(struct fake_vision *fake);

void fake_vision_begin(struct fake_vision *fake, const struct encode_batch *batch);
uint64_t fake_vision_part(struct fake_vision *fake, uint64_t work);
/* To be called when a step is launched: it sees everything encoded before. Returns its number. */
uint64_t fake_vision_launch(struct fake_vision *fake);
/* To be called when that step is computed, in the order of launches. */
void fake_vision_settle(struct fake_vision *fake, uint64_t step);

struct fake_vision_totals {
    uint64_t begins;
    uint64_t ends;
    uint64_t parts;
    uint64_t images;      /* encoded whole */
    uint32_t most_images; /* of one batch */
};
struct fake_vision_totals fake_vision_totals(const struct fake_vision *fake);

/* Feature `index` of an image: a hash of its tile, of scale and bias, and of its place. */
uint64_t fake_vision_feature(const struct encode_image *image, const struct model_vision *vision,
                             uint32_t index);

/* The value of a row: its token, or the feature in its place, hashed with its position and visible
 * end if these differ from those of text. */
struct fake_row {
    uint64_t value;
    uint32_t position;
    struct rope_position rope;
    uint32_t visible_end;
};
uint64_t fake_vision_row(const struct fake_row *row);
/* The current value of a row of the pool. */
uint64_t fake_vision_read(const struct fake_vision *fake, uint32_t feature_row);

#endif
