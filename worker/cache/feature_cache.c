/*
 * An allocator of consecutive pool rows and an LRU cache in one. Images are listed in the order of
 * their rows, so the gap between two neighbours is free. Rows are taken first fit; if no gap is
 * large enough, the least recently used image without references is evicted and the search is
 * repeated. Images are never moved.
 *
 * There are a few dozen images, each of which took at least a millisecond to encode, so every
 * operation walks the list.
 */
#include "worker/cache/feature_cache.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

struct feature_image {
    struct feature_key key;
    uint32_t first_row;
    uint32_t references;
    bool used; /* this entry is in use */
    bool ready;
    uint64_t last_use;
};

struct feature_cache {
    uint32_t rows;
    uint32_t kept_max;
    uint32_t capacity;
    uint32_t count; /* images in the cache */
    uint32_t kept;  /* of these, without references */
    uint32_t used_rows;
    uint64_t clock; /* of last_use */
    uint64_t evictions;
    uint32_t *order;              /* [capacity]; the first `count`: images by first row */
    struct feature_image *images; /* [capacity] */
};

struct feature_cache *feature_cache_create(uint32_t rows, uint32_t kept_images)
{
    must(rows > 0 && kept_images <= LIMIT_KEPT_IMAGES);
    struct feature_cache *cache = must_alloc(1, sizeof *cache);
    cache->rows = rows;
    cache->kept_max = kept_images;
    cache->capacity = kept_images + LIMIT_REQUEST_IMAGES;
    cache->order = must_alloc(cache->capacity, sizeof *cache->order);
    cache->images = must_alloc(cache->capacity, sizeof *cache->images);
    return cache;
}

void feature_cache_destroy(struct feature_cache *cache)
{
    if (!cache)
        return;
    must(cache->kept == cache->count);
    free(cache->order);
    free(cache->images);
    free(cache);
}

static struct feature_image *image_at(const struct feature_cache *cache, uint32_t image)
{
    must(image < cache->capacity && cache->images[image].used);
    return &cache->images[image];
}

static bool is_same(const struct feature_key *a, const struct feature_key *b)
{
    return memcmp(a->content_hash, b->content_hash, sizeof a->content_hash) == 0 &&
           memcmp(a->salt, b->salt, sizeof a->salt) == 0 && a->shape.tiles == b->shape.tiles &&
           a->shape.width == b->shape.width && a->shape.height == b->shape.height &&
           a->rows == b->rows;
}

static uint32_t find(const struct feature_cache *cache, const struct feature_key *key)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        if (is_same(&cache->images[cache->order[i]].key, key))
            return cache->order[i];
    }
    return FEATURE_IMAGE_NONE;
}

uint32_t feature_cache_share(struct feature_cache *cache, const struct feature_key *key)
{
    uint32_t image = find(cache, key);
    if (image == FEATURE_IMAGE_NONE)
        return image;
    if (cache->images[image].references++ == 0)
        cache->kept--;
    return image;
}

static void forget(struct feature_cache *cache, uint32_t image)
{
    struct feature_image *gone = image_at(cache, image);
    must(gone->references == 0);
    uint32_t at = 0;
    while (cache->order[at] != image)
        must(++at < cache->count);
    cache->count--;
    cache->used_rows -= gone->key.rows;
    memmove(&cache->order[at], &cache->order[at + 1], (cache->count - at) * sizeof *cache->order);
    *gone = (struct feature_image){0};
}

/* Removes the least recently used image without references; false if there is none. */
static bool forget_oldest(struct feature_cache *cache)
{
    uint32_t oldest = FEATURE_IMAGE_NONE;
    for (uint32_t i = 0; i < cache->count; i++) {
        uint32_t image = cache->order[i];
        if (cache->images[image].references == 0 &&
            (oldest == FEATURE_IMAGE_NONE ||
             cache->images[image].last_use < cache->images[oldest].last_use))
            oldest = image;
    }
    if (oldest == FEATURE_IMAGE_NONE)
        return false;
    forget(cache, oldest);
    cache->kept--;
    return true;
}

/* The same, counted as an eviction. */
static bool evict(struct feature_cache *cache)
{
    bool gone = forget_oldest(cache);
    cache->evictions += gone;
    return gone;
}

/* Finds the first gap of `rows` rows: its index in the order and its first row. False if there is
 * none. */
static bool find_gap(const struct feature_cache *cache, uint32_t rows, uint32_t *place,
                     uint32_t *first_row)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i <= cache->count; i++) {
        const struct feature_image *next =
            i < cache->count ? &cache->images[cache->order[i]] : NULL;
        if ((next ? next->first_row : cache->rows) - end >= rows) {
            *place = i;
            *first_row = end;
            return true;
        }
        if (next)
            end = next->first_row + next->key.rows;
    }
    return false;
}

enum result feature_cache_take(struct feature_cache *cache, const struct feature_key *key,
                               uint32_t *image)
{
    must(key->rows > 0 && find(cache, key) == FEATURE_IMAGE_NONE);
    uint32_t place;
    uint32_t first_row;
    while (cache->count == cache->capacity || !find_gap(cache, key->rows, &place, &first_row)) {
        if (!evict(cache))
            return RESULT_FULL;
    }
    uint32_t at = 0;
    while (cache->images[at].used)
        at++;
    cache->images[at] =
        (struct feature_image){.key = *key, .first_row = first_row, .references = 1, .used = true};
    memmove(&cache->order[place + 1], &cache->order[place],
            (cache->count - place) * sizeof *cache->order);
    cache->order[place] = at;
    cache->count++;
    cache->used_rows += key->rows;
    *image = at;
    return RESULT_OK;
}

void feature_cache_set_ready(struct feature_cache *cache, uint32_t image)
{
    struct feature_image *ready = image_at(cache, image);
    must(!ready->ready && ready->references > 0);
    ready->ready = true;
}

void feature_cache_give(struct feature_cache *cache, uint32_t image)
{
    struct feature_image *given = image_at(cache, image);
    must(given->references > 0);
    if (--given->references > 0)
        return;
    if (!given->ready) {
        forget(cache, image);
        return;
    }
    given->last_use = ++cache->clock;
    cache->kept++;
    if (cache->kept > cache->kept_max)
        must(evict(cache));
}

void feature_cache_reset(struct feature_cache *cache)
{
    while (forget_oldest(cache))
        ;
}

bool feature_cache_is_ready(const struct feature_cache *cache, uint32_t image)
{
    return image_at(cache, image)->ready;
}

uint32_t feature_cache_references(const struct feature_cache *cache, uint32_t image)
{
    return image_at(cache, image)->references;
}

uint32_t feature_cache_first_row(const struct feature_cache *cache, uint32_t image)
{
    return image_at(cache, image)->first_row;
}

struct feature_cache_figures feature_cache_figures(const struct feature_cache *cache)
{
    return (struct feature_cache_figures){.rows = cache->rows,
                                          .used_rows = cache->used_rows,
                                          .held_images = cache->count - cache->kept,
                                          .kept_images = cache->kept,
                                          .evictions = cache->evictions};
}
