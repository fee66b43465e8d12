/*
 * A hash table of places in arrays of fixed size and, for each block of each pool, the place that
 * keeps it. Each place has something in some store, so the arrays are made for as many places as
 * there are blocks and checkpoint slots. Adding, finding and evicting cost O(1).
 *
 * The tree of places is not stored. If a parent is evicted first, a walk from the root no longer
 * reaches its descendants, and they are evicted in their order. No order of events can therefore
 * produce a wrong hit; the worst case is a block that stays unused until then.
 *
 * From which place a sequence can resume is decided in worker/schedule/sequence_prefix.h.
 */
#include "worker/cache/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

#include "proto/keyed_hash.h"
#include "proto/must.h"

struct place {
    struct prefix_name name;
    struct prefix_block block;
    struct kv_block_ref refs[PREFIX_STORES]; /* block KV_BLOCK_NONE: none */
    uint32_t next;                           /* in its bucket or in the free list */
};

struct prefix_cache {
    struct prefix_pools pools;
    struct keyed_hash_key key;
    uint32_t capacity;
    uint32_t used;
    uint32_t first_free;
    uint32_t *buckets;                /* [capacity] place or NONE */
    struct place *places;             /* [capacity] */
    uint32_t *keepers[PREFIX_STORES]; /* [blocks of the store] place that keeps each block */
    uint64_t evictions;
};

static struct kv_block_pool *pool_of(const struct prefix_cache *cache, uint32_t store)
{
    must(store < PREFIX_STORES);
    return cache->pools.store[store];
}

static bool allocate(struct prefix_cache *cache)
{
    cache->buckets = malloc(cache->capacity * sizeof *cache->buckets);
    cache->places = calloc(cache->capacity, sizeof *cache->places);
    bool good = cache->buckets && cache->places;
    for (uint32_t store = 0; store < PREFIX_STORES; store++) {
        if (!pool_of(cache, store))
            continue;
        size_t blocks = kv_block_pool_total(pool_of(cache, store));
        cache->keepers[store] = malloc(blocks * sizeof *cache->keepers[store]);
        good = good && cache->keepers[store];
        for (size_t i = 0; i < blocks && cache->keepers[store]; i++)
            cache->keepers[store][i] = PREFIX_PLACE_NONE;
    }
    return good;
}

static void release(struct prefix_cache *cache)
{
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        free(cache->keepers[store]);
    free(cache->buckets);
    free(cache->places);
    free(cache);
}

enum result prefix_cache_create(const struct prefix_pools *pools, struct prefix_cache **created)
{
    struct prefix_cache *cache = must_alloc(1, sizeof *cache);
    cache->pools = *pools;
    cache->key = pools->ledger ? kv_ledger_key(pools->ledger) : keyed_hash_random_key();
    uint64_t capacity = 0;
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        capacity += pool_of(cache, store) ? kv_block_pool_total(pool_of(cache, store)) : 0;
    must(capacity > 0 && capacity < PREFIX_PLACE_NONE);
    cache->capacity = (uint32_t)capacity;
    if (!allocate(cache)) {
        release(cache);
        return RESULT_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < cache->capacity; i++) {
        cache->buckets[i] = PREFIX_PLACE_NONE;
        cache->places[i].next = i + 1 < cache->capacity ? i + 1 : PREFIX_PLACE_NONE;
    }
    *created = cache;
    return RESULT_OK;
}

void prefix_cache_destroy(struct prefix_cache *cache)
{
    if (!cache)
        return;
    prefix_cache_reset(cache);
    must(cache->used == 0);
    release(cache);
}

/* --- names ------------------------------------------------------------------------------------ */

struct prefix_name prefix_cache_root(const struct prefix_cache *cache, const uint32_t salt[4])
{
    struct prefix_name root;
    keyed_hash_wide(&cache->key, salt, 4 * sizeof salt[0], root.words);
    return root;
}

struct prefix_name prefix_cache_name(const struct prefix_cache *cache,
                                     const struct prefix_block *block)
{
    struct prefix_name name;
    keyed_hash_wide(&cache->key, block, sizeof *block, name.words);
    return name;
}

static uint32_t *bucket_of(const struct prefix_cache *cache, struct prefix_name name)
{
    return &cache->buckets[name.words[0] % cache->capacity];
}

static bool has_name(const struct place *place, struct prefix_name name)
{
    return place->name.words[0] == name.words[0] && place->name.words[1] == name.words[1];
}

/* Compares names only. */
static uint32_t look_up(const struct prefix_cache *cache, struct prefix_name name)
{
    uint32_t at = *bucket_of(cache, name);
    while (at != PREFIX_PLACE_NONE && !has_name(&cache->places[at], name))
        at = cache->places[at].next;
    return at;
}

static bool is_made_of(const struct place *place, const struct prefix_block *block)
{
    return memcmp(&place->block, block, sizeof *block) == 0;
}

uint32_t prefix_cache_find(const struct prefix_cache *cache, struct prefix_name name,
                           const struct prefix_block *block)
{
    uint32_t at = look_up(cache, name);
    return at != PREFIX_PLACE_NONE && is_made_of(&cache->places[at], block) ? at
                                                                            : PREFIX_PLACE_NONE;
}

uint32_t prefix_cache_add(struct prefix_cache *cache, struct prefix_name name,
                          const struct prefix_block *block)
{
    uint32_t at = look_up(cache, name);
    if (at != PREFIX_PLACE_NONE)
        return is_made_of(&cache->places[at], block) ? at : PREFIX_PLACE_NONE;
    /* The caller holds a block that no place keeps, so a place is free. */
    at = cache->first_free;
    must(at != PREFIX_PLACE_NONE);
    struct place *place = &cache->places[at];
    cache->first_free = place->next;
    cache->used++;
    uint32_t *bucket = bucket_of(cache, name);
    *place = (struct place){.name = name, .block = *block, .next = *bucket};
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        place->refs[store].block = KV_BLOCK_NONE;
    *bucket = at;
    return at;
}

/* --- blocks of places ------------------------------------------------------------------------- */

static void forget(struct prefix_cache *cache, uint32_t at)
{
    struct place *place = &cache->places[at];
    uint32_t *link = bucket_of(cache, place->name);
    while (*link != at)
        link = &cache->places[*link].next;
    *link = place->next;
    place->next = cache->first_free;
    cache->first_free = at;
    cache->used--;
}

bool prefix_cache_has(const struct prefix_cache *cache, uint32_t place, uint32_t store,
                      struct kv_block_ref *ref)
{
    must(place < cache->capacity && store < PREFIX_STORES);
    *ref = cache->places[place].refs[store];
    return ref->block != KV_BLOCK_NONE;
}

void prefix_cache_keep(struct prefix_cache *cache, uint32_t place, uint32_t store,
                       struct kv_block_ref ref)
{
    must(place < cache->capacity);
    must(cache->places[place].refs[store].block == KV_BLOCK_NONE);
    must(cache->keepers[store][ref.block] == PREFIX_PLACE_NONE);
    kv_block_pool_keep(pool_of(cache, store), ref);
    cache->places[place].refs[store] = ref;
    cache->keepers[store][ref.block] = place;
    if (cache->pools.ledger)
        kv_ledger_note(cache->pools.ledger, store, ref.block, &cache->places[place].block);
}

bool prefix_cache_is_recorded(const struct prefix_cache *cache, uint32_t place, uint32_t store)
{
    struct kv_block_ref ref;
    if (!cache->pools.ledger)
        return true;
    return prefix_cache_has(cache, place, store, &ref) &&
           kv_ledger_is_committed(cache->pools.ledger, store, ref.block);
}

/* True if the place has nothing left in any store. */
static bool drop_store(struct prefix_cache *cache, uint32_t at, uint32_t store)
{
    struct place *place = &cache->places[at];
    struct kv_block_ref ref = place->refs[store];
    must(ref.block != KV_BLOCK_NONE);
    if (cache->pools.ledger) /* before the block can be taken */
        kv_ledger_forget(cache->pools.ledger, store, ref.block);
    kv_block_pool_drop(pool_of(cache, store), ref);
    cache->keepers[store][ref.block] = PREFIX_PLACE_NONE;
    place->refs[store].block = KV_BLOCK_NONE;
    uint32_t other = 0;
    while (other < PREFIX_STORES && place->refs[other].block == KV_BLOCK_NONE)
        other++;
    return other == PREFIX_STORES;
}

void prefix_cache_drop(struct prefix_cache *cache, uint32_t place, uint32_t store)
{
    if (drop_store(cache, place, store))
        forget(cache, place);
}

/* --- eviction --------------------------------------------------------------------------------- */

static bool is_full_group(const struct prefix_cache *cache, uint32_t store)
{
    return store != PREFIX_CHECKPOINT && cache->pools.layout->groups[store].kind == KV_FULL;
}

static bool is_idle(const struct prefix_cache *cache, uint32_t at, uint32_t store)
{
    struct kv_block_ref ref = cache->places[at].refs[store];
    return ref.block != KV_BLOCK_NONE &&
           kv_block_pool_references(pool_of(cache, store), ref.block) == 0;
}

bool prefix_cache_evict(struct prefix_cache *cache, uint32_t store)
{
    struct kv_block_ref ref;
    if (kv_block_pool_oldest(pool_of(cache, store), &ref) != RESULT_OK)
        return false;
    uint32_t at = cache->keepers[store][ref.block];
    must(at != PREFIX_PLACE_NONE);
    bool empty = drop_store(cache, at, store);
    cache->evictions++;
    /* No sequence can resume at a place without a full group's block. */
    for (uint32_t other = 0; other < PREFIX_STORES && is_full_group(cache, store); other++) {
        if (!is_idle(cache, at, other))
            continue;
        empty = drop_store(cache, at, other);
        cache->evictions++;
    }
    if (empty)
        forget(cache, at);
    return true;
}

void prefix_cache_reset(struct prefix_cache *cache)
{
    for (uint32_t store = 0; store < PREFIX_STORES; store++) {
        uint32_t blocks = pool_of(cache, store) ? kv_block_pool_total(pool_of(cache, store)) : 0;
        for (uint32_t block = 0; block < blocks; block++) {
            uint32_t at = cache->keepers[store][block];
            if (at != PREFIX_PLACE_NONE)
                prefix_cache_drop(cache, at, store);
        }
    }
}

/* --- blocks of an earlier worker -------------------------------------------------------------- */

static int compare_stamps(const void *first, const void *second)
{
    const struct kv_ledger_entry *a = first;
    const struct kv_ledger_entry *b = second;
    if (a->stamp != b->stamp)
        return a->stamp < b->stamp ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Adds the entry's block to its place; false if the place has a block in this store already. */
static bool restore_entry(struct prefix_cache *cache, uint32_t store,
                          const struct kv_ledger_entry *entry)
{
    struct prefix_name name = prefix_cache_name(cache, &entry->block);
    uint32_t at = prefix_cache_add(cache, name, &entry->block);
    if (at == PREFIX_PLACE_NONE || cache->places[at].refs[store].block != KV_BLOCK_NONE)
        return false;
    cache->places[at].refs[store] = kv_block_pool_restore(pool_of(cache, store), entry->number);
    cache->keepers[store][entry->number] = at;
    return true;
}

static void restore_store(struct prefix_cache *cache, uint32_t store,
                          struct prefix_restored *restored)
{
    struct kv_ledger *ledger = cache->pools.ledger;
    uint32_t total = kv_block_pool_total(pool_of(cache, store));
    struct kv_ledger_entry *entries = must_alloc(total, sizeof *entries);
    uint32_t count = 0;
    for (uint32_t number = 0; number < total; number++) {
        enum result result = kv_ledger_read(ledger, store, number, &entries[count]);
        if (result == RESULT_OK) {
            count++;
        } else {
            restored->damaged += result == RESULT_CORRUPT;
            kv_ledger_forget(ledger, store, number);
        }
    }
    qsort(entries, count, sizeof *entries, compare_stamps);
    for (uint32_t i = 0; i < count; i++) {
        bool added = restore_entry(cache, store, &entries[i]);
        restored->blocks += added;
        restored->redundant += !added;
        if (!added)
            kv_ledger_forget(ledger, store, entries[i].number);
    }
    kv_block_pool_restore_end(pool_of(cache, store));
    free(entries);
}

struct prefix_restored prefix_cache_restore(struct prefix_cache *cache)
{
    struct prefix_restored restored = {0};
    must(cache->used == 0 && cache->pools.ledger);
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        if (pool_of(cache, store))
            restore_store(cache, store, &restored);
    return restored;
}

void prefix_cache_detach(struct prefix_cache *cache)
{
    cache->pools.ledger = NULL;
}

struct prefix_cache_figures prefix_cache_figures(const struct prefix_cache *cache)
{
    return (struct prefix_cache_figures){.places = cache->used, .evictions = cache->evictions};
}
