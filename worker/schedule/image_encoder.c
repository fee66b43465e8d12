/*
 * Encoding a large image takes as long as many steps. It is therefore cut into parts: a turn
 * launches as much as waiting streams can spare, or more if no stream waits for a token.
 *
 * While a batch is being encoded, its images are PENDING in the feature cache and the encoder holds
 * a reference, so they are finished even if the first request has ended and a second one needs
 * them. A batch that no sequence needs any more is dropped.
 *
 * Until features are ready, the step policy gives their sequence no rows beyond the images before.
 */
#include "worker/schedule/image_encoder.h"

#include <string.h>

#include "proto/must.h"
#include "worker/schedule/gauge_board.h"

#define BATCH_PATCH_ROWS 4096u /* images are combined up to this; a single one may be larger */

static void batch_release(struct image_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->count; i++)
        feature_cache_give(encoder->features, encoder->features_held[i]);
    encoder->count = 0;
    encoder->patch_rows = 0;
    encoder->work_left = 0;
}

void image_encoder_fini(struct image_encoder *encoder)
{
    batch_release(encoder);
}

static bool batch_is_wanted(const struct image_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->count; i++) {
        if (feature_cache_references(encoder->features, encoder->features_held[i]) > 1)
            return true;
    }
    return false;
}

/* Whether the batch being filled has room for another image; one of another tower waits. */
static bool batch_has_room(const struct image_encoder *encoder, struct image_shape shape,
                           uint32_t patch_rows)
{
    if (encoder->count == 0)
        return true;
    uint32_t most = encoder->room_patch_rows;
    if (model_vision_of(encoder->vision, shape) !=
        model_vision_of(encoder->vision, encoder->images[0].shape))
        return false;
    return encoder->count < IMAGE_ENCODER_BATCH && encoder->patch_rows < most &&
           patch_rows <= most - encoder->patch_rows;
}

static void batch_add(struct image_encoder *encoder, const struct sequence *sequence,
                      uint32_t image, uint32_t features)
{
    const struct sequence_images *images = &sequence->request.images;
    const struct image_record *record = &images->records[image];
    uint32_t at = encoder->count++;
    encoder->features_held[at] = features;
    encoder->requests[at] = sequence->request.id;
    encoder->patch_rows += images->images[image].patch_rows;
    struct encode_image *encoded = &encoder->images[at];
    *encoded = (struct encode_image){.shape = images->images[image].key.shape,
                                     .mosaic = images->images[image].mosaic,
                                     .pixels = sequence_images_pixels(images, image),
                                     .first_feature =
                                         feature_cache_first_row(encoder->features, features)};
    memcpy(encoded->scale, record->scale, sizeof encoded->scale);
    memcpy(encoded->bias, record->bias, sizeof encoded->bias);
}

/* Whether the sequence holds features that it can take again later. Rows that attend to features go on reading them;
 * before all are ready there are no such rows. */
static bool may_give(const struct image_encoder *encoder, const struct sequence *sequence)
{
    const struct sequence_images *images = &sequence->request.images;
    return images->held > 0 &&
           (!images->crossed ||
            sequence_images_ready_tokens(images, encoder->features, 0) != UINT32_MAX);
}

/* Takes pool rows for an image that is not in the cache. If the batch is empty, the youngest
 * sequences after `at` give their features back for it, if they may. False: not now. */
static bool take_rows(struct image_encoder *encoder, const struct feature_key *key, uint32_t at,
                      uint32_t *features)
{
    uint32_t young = sequence_table_running(encoder->table);
    for (;;) {
        if (feature_cache_take(encoder->features, key, features) == RESULT_OK)
            return true;
        if (encoder->count > 0)
            return false;
        do {
            if (--young <= at)
                return false;
        } while (!may_give(encoder, sequence_table_running_at(encoder->table, young)));
        struct sequence *other = sequence_table_running_at(encoder->table, young);
        sequence_images_release(&other->request.images, encoder->features, UINT32_MAX);
    }
}

/* Gets one image that running sequence `at` needs: shared, or added to the batch being filled.
 * False: not now, and neither the images after it. */
static bool get_features(struct image_encoder *encoder, uint32_t at, uint32_t image, bool may_add)
{
    struct sequence *sequence = sequence_table_running_at(encoder->table, at);
    struct sequence_images *images = &sequence->request.images;
    struct sequence_image *wanted = &images->images[image];
    uint32_t features = feature_cache_share(encoder->features, &wanted->key);
    bool is_hit = features != FEATURE_IMAGE_NONE;
    if (!is_hit) {
        if (!may_add || !batch_has_room(encoder, wanted->key.shape, wanted->patch_rows) ||
            !take_rows(encoder, &wanted->key, at, &features))
            return false;
        batch_add(encoder, sequence, image, features);
        must(feature_cache_share(encoder->features, &wanted->key) == features);
    }
    sequence_images_hold(images, image, encoder->features, features);
    if (!wanted->looked_up) {
        wanted->looked_up = true;
        images->hits += is_hit;
        gauge_board_add_image(encoder->gauges, is_hit);
    }
    return true;
}

/* Walks the sequences that need images, oldest first. */
static void get_all_features(struct image_encoder *encoder, bool may_add)
{
    for (uint32_t at = 0; at < sequence_table_running(encoder->table); at++) {
        const struct sequence *sequence = sequence_table_running_at(encoder->table, at);
        const struct sequence_images *images = &sequence->request.images;
        if (images->count == 0 || sequence->state != SEQUENCE_PREFILL)
            continue;
        for (;;) {
            uint32_t image = sequence_images_wanted(images, sequence->computed_tokens);
            if (image == images->count)
                break;
            if (!get_features(encoder, at, image, may_add)) {
                /* Younger sequences must not take the room that this one waits for. */
                may_add = false;
                break;
            }
        }
    }
}

static bool streams_wait(const struct sequence_table *table)
{
    for (uint32_t i = 0; i < sequence_table_running(table); i++) {
        const struct sequence *sequence = sequence_table_running_at(table, i);
        if (sequence_generated_tokens(sequence) > 0 && !sequence_draws_last(sequence))
            return true;
    }
    return false;
}

/* How many patch rows a new batch may have beyond its first image: beside streams no more than they
 * can spare for one stage, because some devices cut only between stages. */
static uint32_t batch_room(const struct image_encoder *encoder, const struct step_pace *pace)
{
    uint32_t most =
        encoder->max_patch_rows < BATCH_PATCH_ROWS ? encoder->max_patch_rows : BATCH_PATCH_ROWS;
    bool beside = streams_wait(encoder->table);
    uint64_t work = step_pace_patch_work(pace, beside);
    return beside && work < most ? (uint32_t)work : most;
}

/* Hands the images to the backend, which copies their pixels. */
static enum result begin(struct image_encoder *encoder, struct error_text *error)
{
    struct backend *backend = encoder->backend;
    const struct encode_batch batch = {.image_count = encoder->count, .images = encoder->images};
    encoder->work_left = (uint64_t)encoder->patch_rows *
                         model_vision_of(encoder->vision, encoder->images[0].shape)->stages;
    image_encoder_add_to_roster(encoder);
    return backend->interface->encode_begin(backend, &batch, error);
}

static enum result launch_part(struct image_encoder *encoder, uint64_t work, uint64_t *patch_work,
                               struct error_text *error)
{
    struct backend *backend = encoder->backend;
    uint64_t left;
    enum result result = backend->interface->encode_part(backend, work, &left, error);
    if (result != RESULT_OK)
        return result;
    must(left < encoder->work_left);
    *patch_work = encoder->work_left - left;
    encoder->work_left = left;
    return RESULT_OK;
}

static void finish(struct image_encoder *encoder)
{
    gauge_board_add_patches(encoder->gauges, encoder->patch_rows);
    for (uint32_t i = 0; i < encoder->count; i++)
        feature_cache_set_ready(encoder->features, encoder->features_held[i]);
    batch_release(encoder);
}

enum result image_encoder_advance(struct image_encoder *encoder, const struct step_pace *pace,
                                  uint64_t *patch_work, struct error_text *error)
{
    *patch_work = 0;
    if (!encoder->vision)
        return RESULT_OK;
    if (encoder->count > 0 && !batch_is_wanted(encoder))
        batch_release(encoder);
    bool begins = encoder->count == 0;
    if (begins)
        encoder->room_patch_rows = batch_room(encoder, pace);
    get_all_features(encoder, begins);
    if (encoder->count == 0)
        return RESULT_OK;
    bool beside = streams_wait(encoder->table);
    enum result result = begins ? begin(encoder, error) : RESULT_OK;
    if (begins && beside)
        return result; /* copying the pixels used the time that a step can spare */
    if (result == RESULT_OK)
        result = launch_part(encoder, step_pace_patch_work(pace, beside), patch_work, error);
    if (result == RESULT_OK && encoder->work_left == 0)
        finish(encoder);
    return result;
}

bool image_encoder_is_busy(const struct image_encoder *encoder)
{
    return encoder->count > 0;
}

void image_encoder_add_to_roster(const struct image_encoder *encoder)
{
    for (uint32_t i = 0; i < encoder->count; i++) {
        if (sequence_table_find(encoder->table, encoder->requests[i]))
            frontend_link_roster_add(encoder->link, encoder->requests[i].slot);
    }
}
