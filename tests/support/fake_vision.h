/*
 * The vision part of the fake backend (fake_backend.h): a feature pool in which every row says
 * which picture's which feature it is.
 *
 * Like steps, encodings take effect at the earliest moment that the contract allows, when their
 * calls return, or at the latest, before the next step that is launched behind them is computed.
 * Rows of a batch that was begun and not finished hold nothing that may be read.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_VISION_H
#define SHOAL_TESTS_SUPPORT_FAKE_VISION_H

#include "worker/backend/host/backend.h"

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
/* A step is launched: what was encoded before is there for it. Returns its number. */
uint64_t fake_vision_launch(struct fake_vision *fake);
/* That step is computed now, after those before it. */
void fake_vision_settle(struct fake_vision *fake, uint64_t step);

struct fake_vision_totals {
    uint64_t begins;
    uint64_t ends;
    uint64_t parts;
    uint64_t pictures;      /* encoded whole */
    uint32_t most_pictures; /* of one batch */
};
struct fake_vision_totals fake_vision_totals(const struct fake_vision *fake);

/* Feature `index` of a picture: a hash of its tile, of how bytes become numbers and of its place.
 */
uint64_t fake_vision_feature(const struct encode_picture *picture,
                             const struct model_vision *vision, uint32_t index);

/* What a row is made of: its token, or the value of the feature in its place; changed by where it
 * stands and what it sees, if that is not as in text. */
struct fake_row {
    uint64_t value;
    uint32_t position;
    struct rope_position rope;
    uint32_t visible_end;
};
uint64_t fake_vision_row(const struct fake_row *row);
/* A row of the pool as it is now. */
uint64_t fake_vision_read(const struct fake_vision *fake, uint32_t feature_row);

#endif
