/*
 * Which picture's features lie in which rows of the backend's feature pool (worker/backend/
 * backend.h): who needs them now, and which are kept in case the same picture comes again.
 *
 * An image is known by its content, its shape and whose it is: tenants never share, and cannot find
 * out which pictures others have sent. It is PENDING from when rows are taken for it
 * until its encoding is launched whole, then READY. Whoever will still launch rows that read its
 * features holds a reference. A ready image that nobody holds is kept, the least recently used
 * ones only until rows or places are wanted; a pending one that nobody holds is forgotten.
 *
 * Steps and encodings take effect in the order of their launch, so rows may be given to another
 * picture while steps that read them are under way.
 */
#ifndef SHOAL_WORKER_CACHE_FEATURE_CACHE_H
#define SHOAL_WORKER_CACHE_FEATURE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/image_record.h"
#include "proto/result.h"
#include "worker/plan/model_vision.h"

#define FEATURE_IMAGE_NONE UINT32_MAX

struct feature_key {
    uint8_t content_hash[IMAGE_HASH_BYTES];
    uint32_t salt[4]; /* run_params.h: cache_salt */
    struct picture_shape shape;
    uint32_t rows; /* of the pool: placeholders of the picture */
};

struct feature_cache;

/* Over `rows` rows of the pool, of which up to `kept_images` images that nobody holds are kept. */
struct feature_cache *feature_cache_create(uint32_t rows, uint32_t kept_images);
/* All references must have been given back; NULL is fine. */
void feature_cache_destroy(struct feature_cache *cache);

/* One more reference to this picture's image, pending or ready; FEATURE_IMAGE_NONE: not there. */
uint32_t feature_cache_share(struct feature_cache *cache, const struct feature_key *key);
/* Rows for a picture that is not there: pending, with one reference. Images that nobody holds are
 * evicted for it, least recently used first. RESULT_FULL: not even so. */
enum result feature_cache_take(struct feature_cache *cache, const struct feature_key *key,
                               uint32_t *image) RESULT_CHECKED;
/* All of its encoding is launched. */
void feature_cache_set_ready(struct feature_cache *cache, uint32_t image);
/* One reference less. */
void feature_cache_give(struct feature_cache *cache, uint32_t image);

/* Forgets the images that nobody holds. */
void feature_cache_reset(struct feature_cache *cache);

bool feature_cache_is_ready(const struct feature_cache *cache, uint32_t image);
uint32_t feature_cache_references(const struct feature_cache *cache, uint32_t image);
/* Where its rows begin. */
uint32_t feature_cache_first_row(const struct feature_cache *cache, uint32_t image);

struct feature_cache_figures {
    uint32_t rows;
    uint32_t used_rows; /* of held and of kept images */
    uint32_t held_images;
    uint32_t kept_images;
    uint64_t evictions; /* of kept images */
};
struct feature_cache_figures feature_cache_figures(const struct feature_cache *cache);

#endif
