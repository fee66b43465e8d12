/*
 * An allocator of consecutive pool rows and an LRU cache in one. Images are listed in the order of
 * their rows, so the gap between two neighbours is free. Rows are taken first fit; if no gap is
 * large enough, the least recently used image without references is evicted and the search is
 * repeated. Images are never moved.
 *
 * Entry i is record i of the ledger. Records of an earlier worker are sorted by their rows and taken
 * if they follow each other without overlap within the pool; no count or place is believed.
 *
 * There are a few dozen images, each of which took at least a millisecond to encode, so every
 * operation walks the list.
 */
#include "worker/cache/feature_cache.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

#define STAMP_HELD UINT64_MAX /* of images in use: a later worker evicts them last */

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
    struct feature_ledger *ledger; /* NULL: images end with this worker */
    uint32_t *order;               /* [capacity]; the first `count`: images by first row */
    struct feature_image *images;  /* [capacity] */
};

uint32_t feature_cache_capacity(uint32_t kept_images)
{
    return kept_images + LIMIT_REQUEST_RECORDS;
}

struct feature_cache *feature_cache_create(uint32_t rows, uint32_t kept_images)
{
    must(rows > 0 && kept_images <= LIMIT_KEPT_IMAGES);
    struct feature_cache *cache = must_alloc(1, sizeof *cache);
    cache->rows = rows;
    cache->kept_max = kept_images;
    cache->capacity = feature_cache_capacity(kept_images);
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
           a->shape.frames == b->shape.frames && a->shape.sound == b->shape.sound &&
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

static void set_stamp(const struct feature_cache *cache, uint32_t image, uint64_t stamp)
{
    if (cache->ledger)
        feature_ledger_set_stamp(cache->ledger, image, stamp);
}

uint32_t feature_cache_share(struct feature_cache *cache, const struct feature_key *key)
{
    uint32_t image = find(cache, key);
    if (image == FEATURE_IMAGE_NONE)
        return image;
    if (cache->images[image].references++ == 0) {
        cache->kept--;
        set_stamp(cache, image, STAMP_HELD);
    }
    return image;
}

static void forget(struct feature_cache *cache, uint32_t image)
{
    struct feature_image *gone = image_at(cache, image);
    must(gone->references == 0);
    if (cache->ledger)
        feature_ledger_forget(cache->ledger, image);
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
    if (!cache->ledger)
        return;
    set_stamp(cache, image, STAMP_HELD);
    feature_ledger_note(cache->ledger, image, &ready->key, ready->first_row);
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
    set_stamp(cache, image, given->last_use);
    cache->kept++;
    while (cache->kept > cache->kept_max)
        must(evict(cache));
}

/* --- images of an earlier worker -------------------------------------------------------------- */

struct found_image {
    struct feature_entry entry;
    uint32_t image;
};

static int by_first_row(const void *a, const void *b)
{
    uint32_t left = ((const struct found_image *)a)->entry.first_row;
    uint32_t right = ((const struct found_image *)b)->entry.first_row;
    return (left > right) - (left < right);
}

static int by_stamp(const void *a, const void *b)
{
    uint64_t left = ((const struct found_image *)a)->entry.stamp;
    uint64_t right = ((const struct found_image *)b)->entry.stamp;
    return (left > right) - (left < right);
}

/* Adds an image after all others. False: its rows overlap or leave the pool, or it is there. */
static bool restore(struct feature_cache *cache, const struct found_image *found)
{
    const struct feature_key *key = &found->entry.key;
    uint32_t end = 0;
    if (cache->count > 0) {
        const struct feature_image *last = &cache->images[cache->order[cache->count - 1]];
        end = last->first_row + last->key.rows;
    }
    if (key->rows == 0 || found->entry.first_row < end || found->entry.first_row > cache->rows ||
        key->rows > cache->rows - found->entry.first_row || find(cache, key) != FEATURE_IMAGE_NONE)
        return false;
    cache->images[found->image] = (struct feature_image){
        .key = *key, .first_row = found->entry.first_row, .used = true, .ready = true};
    cache->order[cache->count++] = found->image;
    cache->used_rows += key->rows;
    cache->kept++;
    return true;
}

struct feature_restored feature_cache_keep(struct feature_cache *cache,
                                           struct feature_ledger *ledger)
{
    must(cache->count == 0 && feature_ledger_count(ledger) == cache->capacity);
    struct feature_restored restored = {0};
    struct found_image *found = must_alloc(cache->capacity, sizeof *found);
    uint32_t count = 0;
    cache->ledger = ledger;
    for (uint32_t i = 0; i < cache->capacity; i++) {
        enum result result = feature_ledger_read(ledger, i, &found[count].entry);
        found[count].image = i;
        count += result == RESULT_OK;
        restored.damaged += result == RESULT_CORRUPT;
        if (result == RESULT_CORRUPT)
            feature_ledger_forget(ledger, i);
    }
    qsort(found, count, sizeof *found, by_first_row);
    for (uint32_t i = 0; i < count; i++) {
        if (restore(cache, &found[i]))
            continue;
        feature_ledger_forget(ledger, found[i].image);
        restored.damaged++;
    }
    qsort(found, count, sizeof *found, by_stamp);
    for (uint32_t i = 0; i < count; i++) {
        if (cache->images[found[i].image].used)
            cache->images[found[i].image].last_use = ++cache->clock;
    }
    restored.images = cache->count;
    free(found);
    return restored;
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
