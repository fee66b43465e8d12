/*
 * A bucket's level is an integer in units of 1/60,000 of a request, token or image: a limit of N a minute adds N units a
 * millisecond, without rounding.
 *
 * An entry whose requests have ended and whose buckets are full is the same as none, and its place is given to the next key.
 */
#include "frontend/http/key_usage.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define UNITS 60000

enum { REQUESTS, TOKENS, IMAGES, BUCKETS };

static const char *const bucket_names[BUCKETS] = {"requests", "tokens", "images"};

struct bucket {
    int64_t level; /* units; limit * UNITS when full */
    int64_t limit; /* a minute; 0: none */
};

struct key_entry {
    bool used;
    struct client_key key;
    struct bucket buckets[BUCKETS];
    int64_t filled_at_ms;
    uint64_t concurrent;
};

struct key_usage {
    uint32_t count;
    struct key_entry entries[];
};

struct key_usage *key_usage_create(uint32_t max_keys)
{
    struct key_usage *usage = must_alloc(1, sizeof *usage + max_keys * sizeof usage->entries[0]);
    usage->count = max_keys;
    return usage;
}

void key_usage_destroy(struct key_usage *usage)
{
    free(usage);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The level at `now_ms`. */
static int64_t level_at(const struct key_entry *entry, int which, int64_t now_ms)
{
    const struct bucket *bucket = &entry->buckets[which];
    int64_t full = bucket->limit * UNITS;
    int64_t passed_ms = now_ms - entry->filled_at_ms;
    int64_t missing = full - bucket->level;
    if (bucket->limit == 0 || passed_ms >= missing / bucket->limit + 1)
        return full;
    return min64(full, bucket->level + passed_ms * bucket->limit);
}

static void fill(struct key_entry *entry, int64_t now_ms)
{
    for (int i = 0; i < BUCKETS; i++)
        entry->buckets[i].level = level_at(entry, i, now_ms);
    entry->filled_at_ms = now_ms;
}

static bool is_idle(const struct key_entry *entry, int64_t now_ms)
{
    for (int i = 0; i < BUCKETS; i++) {
        if (level_at(entry, i, now_ms) < entry->buckets[i].limit * UNITS)
            return false;
    }
    return entry->concurrent == 0;
}

static struct key_entry *entry_find(struct key_usage *usage, const struct client_key *key)
{
    for (uint32_t i = 0; i < usage->count; i++) {
        struct key_entry *entry = &usage->entries[i];
        if (entry->used && memcmp(&entry->key, key, sizeof *key) == 0)
            return entry;
    }
    return NULL;
}

/* The entry of `key`, filled up to now; a free or idle one if it has none; NULL if there is no room. */
static struct key_entry *entry_take(struct key_usage *usage, const struct client_key *key,
                                    const struct key_limits *limits, int64_t now_ms)
{
    const uint64_t wanted[BUCKETS] = {limits->requests, limits->tokens, limits->images};
    struct key_entry *entry = entry_find(usage, key);
    bool fresh = !entry;
    for (uint32_t i = 0; i < usage->count && !entry; i++) {
        if (!usage->entries[i].used || is_idle(&usage->entries[i], now_ms))
            entry = &usage->entries[i];
    }
    if (!entry)
        return NULL;
    if (fresh)
        *entry = (struct key_entry){.used = true, .key = *key};
    else
        fill(entry, now_ms);
    entry->filled_at_ms = now_ms;
    for (int i = 0; i < BUCKETS; i++) { /* a reload may have changed the limits */
        struct bucket *bucket = &entry->buckets[i];
        int64_t limit = (int64_t)wanted[i];
        if (bucket->limit == 0)
            bucket->level = limit * UNITS;
        bucket->limit = limit;
        bucket->level = min64(bucket->level, limit * UNITS);
    }
    return entry;
}

static uint32_t seconds_until_one(const struct bucket *bucket)
{
    int64_t ms = (UNITS - bucket->level + bucket->limit - 1) / bucket->limit;
    return (uint32_t)((ms + 999) / 1000);
}

enum key_verdict key_usage_begin(struct key_usage *usage, const struct client_key *key,
                                 const struct key_limits *limits, int64_t now_ms,
                                 uint32_t *retry_after_s)
{
    static const enum key_verdict over[BUCKETS] = {KEY_OVER_REQUESTS, KEY_OVER_TOKENS,
                                                   KEY_OVER_IMAGES};
    if (limits->requests + limits->tokens + limits->images + limits->concurrent == 0)
        return KEY_ADMITTED;
    struct key_entry *entry = entry_take(usage, key, limits, now_ms);
    if (!entry)
        return KEY_ADMITTED;
    for (int i = 0; i < BUCKETS; i++) {
        const struct bucket *bucket = &entry->buckets[i];
        if (bucket->limit > 0 && bucket->level < UNITS) {
            *retry_after_s = seconds_until_one(bucket);
            return over[i];
        }
    }
    if (limits->concurrent > 0 && entry->concurrent >= limits->concurrent) {
        *retry_after_s = 1;
        return KEY_OVER_CONCURRENT;
    }
    entry->buckets[REQUESTS].level -= entry->buckets[REQUESTS].limit > 0 ? UNITS : 0;
    entry->concurrent++;
    return KEY_ADMITTED;
}

void key_usage_end(struct key_usage *usage, const struct client_key *key)
{
    struct key_entry *entry = entry_find(usage, key);
    if (entry && entry->concurrent > 0)
        entry->concurrent--;
}

static void take(struct key_usage *usage, const struct client_key *key, int which, uint64_t amount,
                 int64_t now_ms)
{
    struct key_entry *entry = entry_find(usage, key);
    if (!entry || entry->buckets[which].limit == 0)
        return;
    must(amount <= UINT32_MAX);
    fill(entry, now_ms);
    entry->buckets[which].level -= (int64_t)amount * UNITS;
}

void key_usage_take_tokens(struct key_usage *usage, const struct client_key *key, uint64_t tokens,
                           int64_t now_ms)
{
    take(usage, key, TOKENS, tokens, now_ms);
}

void key_usage_take_images(struct key_usage *usage, const struct client_key *key, uint64_t images,
                           int64_t now_ms)
{
    take(usage, key, IMAGES, images, now_ms);
}

void key_usage_append_headers(struct key_usage *usage, const struct client_key *key, int64_t now_ms,
                              struct text_buffer *out)
{
    const struct key_entry *entry = entry_find(usage, key);
    for (int i = 0; entry && i < BUCKETS; i++) {
        const char *name = bucket_names[i];
        int64_t limit = entry->buckets[i].limit;
        if (limit == 0)
            continue;
        int64_t level = level_at(entry, i, now_ms);
        int64_t reset_ms = (limit * UNITS - level + limit - 1) / limit;
        text_buffer_append_format(out,
                                  "x-ratelimit-limit-%s: %lld\r\nx-ratelimit-remaining-%s: %lld\r\n"
                                  "x-ratelimit-reset-%s: %lld.%03llds\r\n",
                                  name, (long long)limit, name,
                                  (long long)(level > 0 ? level / UNITS : 0), name,
                                  (long long)(reset_ms / 1000), (long long)(reset_ms % 1000));
    }
}
