/*
 * One mutex, held for look-ups only; compilation runs without it. An entry keeps its whole key, so
 * that two sources with one hash do not share a grammar. The list is in order of use.
 */
#include "frontend/grammar/grammar_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/shared_bytes.h"
#include "frontend/base/text_buffer.h"
#include "proto/keyed_hash.h"
#include "proto/must.h"

enum { SLOTS = 1024 };

struct entry {
    struct entry *next_in_slot;
    struct entry *newer;
    struct entry *older;
    uint64_t hash;
    struct shared_bytes *grammar; /* NULL: refused */
    struct shared_bytes *note;    /* NULL: none */
    struct grammar_error error;
    size_t bytes; /* all that the entry holds */
    size_t key_bytes;
    char key[];
};

struct grammar_cache {
    pthread_mutex_t mutex;
    struct keyed_hash_key hash_key;
    size_t max_bytes;
    struct entry *slots[SLOTS];
    struct entry *newest;
    struct entry *oldest;
    struct grammar_cache_counts counts;
};

struct grammar_cache *grammar_cache_create(size_t max_bytes)
{
    struct grammar_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    must(pthread_mutex_init(&cache->mutex, NULL) == 0);
    cache->hash_key = keyed_hash_random_key();
    cache->max_bytes = max_bytes;
    return cache;
}

/* --- with the mutex held --------------------------------------------------------------------- */

static void entry_unlink(struct grammar_cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void entry_link_newest(struct grammar_cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void entry_drop(struct grammar_cache *cache, struct entry *entry)
{
    struct entry **at = &cache->slots[entry->hash % SLOTS];
    while (*at != entry)
        at = &(*at)->next_in_slot;
    *at = entry->next_in_slot;
    entry_unlink(cache, entry);
    cache->counts.bytes -= entry->bytes;
    cache->counts.entries--;
    shared_bytes_release(entry->grammar);
    shared_bytes_release(entry->note);
    free(entry);
}

static struct entry *entry_find(struct grammar_cache *cache, uint64_t hash, const char *key,
                                size_t key_bytes)
{
    for (struct entry *entry = cache->slots[hash % SLOTS]; entry; entry = entry->next_in_slot) {
        if (entry->hash == hash && entry->key_bytes == key_bytes &&
            memcmp(entry->key, key, key_bytes) == 0)
            return entry;
    }
    return NULL;
}

/* What an entry says; *grammar and *note are new references. */
static enum result entry_answer(const struct entry *entry, struct shared_bytes **grammar,
                                struct shared_bytes **note, struct grammar_error *error)
{
    *grammar = shared_bytes_share(entry->grammar);
    *note = shared_bytes_share(entry->note);
    *error = entry->error;
    return entry->grammar ? RESULT_OK : RESULT_INVALID;
}

/* --- without it ------------------------------------------------------------------------------ */

/* A new entry, not linked; NULL: out of memory. Takes references. */
static struct entry *entry_make(uint64_t hash, const char *key, size_t key_bytes,
                                struct shared_bytes *grammar, struct shared_bytes *note,
                                const struct grammar_error *error)
{
    struct entry *entry = calloc(1, sizeof *entry + key_bytes);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->grammar = shared_bytes_share(grammar);
    entry->note = shared_bytes_share(note);
    entry->error = *error;
    entry->bytes =
        sizeof *entry + key_bytes + shared_bytes_length(grammar) + shared_bytes_length(note);
    entry->key_bytes = key_bytes;
    memcpy(entry->key, key, key_bytes);
    return entry;
}

static void entry_keep(struct grammar_cache *cache, struct entry *entry)
{
    must(pthread_mutex_lock(&cache->mutex) == 0);
    struct entry *other = entry_find(cache, entry->hash, entry->key, entry->key_bytes);
    if (other)
        entry_drop(cache, other);
    entry->next_in_slot = cache->slots[entry->hash % SLOTS];
    cache->slots[entry->hash % SLOTS] = entry;
    entry_link_newest(cache, entry);
    cache->counts.bytes += entry->bytes;
    cache->counts.entries++;
    for (; cache->counts.bytes > cache->max_bytes && cache->oldest; cache->counts.dropped++)
        entry_drop(cache, cache->oldest);
    must(pthread_mutex_unlock(&cache->mutex) == 0);
}

/* The result of a builder that failed. An empty language and a regex that is nested too deeply are
 * properties of the source. */
static enum result failure_read(const struct grammar_builder *builder, struct grammar_error *error)
{
    enum grammar_failure failure = grammar_builder_failure(builder);
    if (failure == GRAMMAR_CANCELLED)
        return RESULT_CANCELLED;
    *error = (struct grammar_error){0};
    snprintf(error->message, sizeof error->message, "%s", grammar_builder_reason(builder));
    bool is_property = failure == GRAMMAR_EMPTY_LANGUAGE || failure == GRAMMAR_TOO_DEEP;
    return is_property ? RESULT_INVALID : RESULT_TOO_LARGE;
}

static enum result grammar_make(const atomic_bool *cancelled, grammar_compiler *compile,
                                void *context, struct shared_bytes **grammar,
                                struct shared_bytes **note, struct grammar_error *error)
{
    const struct grammar_bounds bounds = {.cancelled = cancelled};
    struct grammar_builder *builder = grammar_builder_open(&bounds);
    struct grammar_blob_out blob = {0};
    struct text_buffer text = {0};
    symbol_id root = GRAMMAR_NONE;
    enum result result = RESULT_OUT_OF_MEMORY;
    *error = (struct grammar_error){0};
    if (!builder)
        return result;
    bool compiled = compile(context, builder, &root, &text, error);
    if (compiled && !text.failed && grammar_builder_finish(builder, root, &blob)) {
        *grammar = shared_bytes_create(blob.bytes, blob.size);
        *note = text.length > 0 ? shared_bytes_create(text.bytes, text.length) : NULL;
        result = *grammar && (*note || text.length == 0) ? RESULT_OK : RESULT_OUT_OF_MEMORY;
        free(blob.bytes);
    } else if (grammar_builder_failed(builder)) {
        result = failure_read(builder, error);
    } else if (error->message[0]) {
        result = RESULT_INVALID;
    }
    grammar_builder_close(builder);
    text_buffer_fini(&text);
    if (result == RESULT_OK)
        return result;
    shared_bytes_release(*grammar);
    shared_bytes_release(*note);
    *grammar = *note = NULL;
    return result;
}

enum result grammar_cache_find(struct grammar_cache *cache, const char *key, size_t key_bytes,
                               const atomic_bool *cancelled, grammar_compiler *compile,
                               void *context, struct shared_bytes **grammar,
                               struct shared_bytes **note, struct grammar_error *error)
{
    *grammar = *note = NULL;
    if (!cache)
        return grammar_make(cancelled, compile, context, grammar, note, error);
    uint64_t hash = keyed_hash(&cache->hash_key, key, key_bytes);
    must(pthread_mutex_lock(&cache->mutex) == 0);
    struct entry *entry = entry_find(cache, hash, key, key_bytes);
    enum result result = RESULT_OK;
    *(entry ? &cache->counts.hits : &cache->counts.misses) += 1;
    if (entry) {
        entry_unlink(cache, entry);
        entry_link_newest(cache, entry);
        result = entry_answer(entry, grammar, note, error);
    }
    must(pthread_mutex_unlock(&cache->mutex) == 0);
    if (entry)
        return result;
    result = grammar_make(cancelled, compile, context, grammar, note, error);
    if (result == RESULT_OK || result == RESULT_INVALID) {
        struct entry *made = entry_make(hash, key, key_bytes, *grammar, *note, error);
        if (made)
            entry_keep(cache, made);
    }
    return result;
}

void grammar_cache_count(struct grammar_cache *cache, struct grammar_cache_counts *counts)
{
    must(pthread_mutex_lock(&cache->mutex) == 0);
    *counts = cache->counts;
    must(pthread_mutex_unlock(&cache->mutex) == 0);
}

void grammar_cache_destroy(struct grammar_cache *cache)
{
    if (!cache)
        return;
    while (cache->oldest)
        entry_drop(cache, cache->oldest);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}
