/*
 * Assigns rows of the backend's feature pool (worker/backend/host/backend.h) to images: holds them
 * while sequences need them and keeps them afterwards in case the same image comes again.
 *
 * An image is identified by its content, its shape and its tenant's salt. Tenants never share
 * features, so a tenant cannot find out which images others have sent.
 *
 *   PENDING   from taking its rows until its encoding is launched completely
 *   READY     afterwards
 *
 * Each sequence that will still launch rows that read an image's features holds a reference. A
 * READY image without references is kept and evicted in least-recently-used order when rows or
 * entries are needed. A PENDING image is removed with its last reference.
 *
 * Steps and encodings take effect in launch order, so rows may be reassigned to another image while
 * steps that read them are under way.
 *
 * With a ledger, READY images outlive the worker: the next one begins with them, kept.
 */
#ifndef SHOAL_WORKER_CACHE_FEATURE_CACHE_H
#define SHOAL_WORKER_CACHE_FEATURE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/feature_ledger.h"

#define FEATURE_IMAGE_NONE UINT32_MAX

struct feature_cache;

/* A cache over `rows` pool rows that keeps up to `kept_images` images without references. */
struct feature_cache *feature_cache_create(uint32_t rows, uint32_t kept_images);
/* The number of images that such a cache has at most: records of its ledger. */
uint32_t feature_cache_capacity(uint32_t kept_images);
/* Records images in `ledger`, which outlives the cache and has feature_cache_capacity() records. The
 * cache is empty. Takes over the images that an earlier worker recorded; records that are damaged or
 * contradict each other are dropped. */
struct feature_restored {
    uint32_t images;
    uint32_t damaged;
};
struct feature_restored feature_cache_keep(struct feature_cache *cache,
                                           struct feature_ledger *ledger);
/* All references must have been given back; NULL is fine. Records of the ledger stay. */
void feature_cache_destroy(struct feature_cache *cache);

/* Adds a reference to this image, PENDING or READY. FEATURE_IMAGE_NONE: it is not in the cache. */
uint32_t feature_cache_share(struct feature_cache *cache, const struct feature_key *key);
/* Takes rows for an image that is not in the cache: PENDING, with one reference. Evicts images
 * without references, least recently used first, as needed. RESULT_FULL: evicting all of them is
 * not enough. */
enum result feature_cache_take(struct feature_cache *cache, const struct feature_key *key,
                               uint32_t *image) RESULT_CHECKED;
/* Marks an image READY: its encoding is launched completely. */
void feature_cache_set_ready(struct feature_cache *cache, uint32_t image);
/* Drops one reference. */
void feature_cache_give(struct feature_cache *cache, uint32_t image);

/* Removes all images without references. */
void feature_cache_reset(struct feature_cache *cache);

bool feature_cache_is_ready(const struct feature_cache *cache, uint32_t image);
uint32_t feature_cache_references(const struct feature_cache *cache, uint32_t image);
/* First pool row of an image. */
uint32_t feature_cache_first_row(const struct feature_cache *cache, uint32_t image);

struct feature_cache_figures {
    uint32_t rows;
    uint32_t used_rows; /* of held and kept images */
    uint32_t held_images;
    uint32_t kept_images;
    uint64_t evictions; /* of kept images */
};
struct feature_cache_figures feature_cache_figures(const struct feature_cache *cache);

#endif
