/*
 * Clients and proxies repeat failed requests. A request that crashed workers would do so again,
 * several restarts each time, so its fingerprint is kept for --poison-memory-s. Prompts are not
 * kept.
 *
 * A short unordered list: convictions are rare, and a look into an empty list costs one comparison.
 */
#include "frontend/serve/engine/poison_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/shared_bytes.h"
#include "proto/must.h"

void poison_memory_init(struct poison_memory *memory, int64_t keep_ms)
{
    *memory = (struct poison_memory){.key = keyed_hash_random_key(), .keep_ms = keep_ms};
}

void poison_memory_write_id(uint64_t fingerprint, char text[POISON_ID_BYTES])
{
    snprintf(text, POISON_ID_BYTES, "%016" PRIx64, fingerprint);
}

uint64_t poison_memory_fingerprint(const struct poison_memory *memory,
                                   const struct prepared_generation *prepared)
{
    const struct generation_request *request = &prepared->request;
    struct {
        uint64_t prompt;
        uint64_t biases;
        uint64_t images;
        uint64_t dry_breakers;
        struct cache_salt salt;
        struct sampling_params sampling;
    } parts;
    memset(&parts, 0, sizeof parts);
    parts.prompt = keyed_hash(&memory->key, prepared->prompt.ids,
                              prepared->prompt.count * sizeof *prepared->prompt.ids);
    parts.biases = keyed_hash(&memory->key, request->logit_bias,
                              request->logit_bias_count * sizeof *request->logit_bias);
    if (prepared->images)
        parts.images = keyed_hash(&memory->key, image_set_part(prepared->images),
                                  image_set_count(prepared->images) * sizeof(struct image_record));
    if (request->dry_breakers)
        parts.dry_breakers = keyed_hash(&memory->key, shared_bytes_data(request->dry_breakers),
                                        shared_bytes_length(request->dry_breakers));
    parts.salt = request->cache_salt;
    parts.sampling = request->sampling;
    parts.sampling.seed = 0;
    parts.sampling.mirostat_mu = 0;
    return keyed_hash(&memory->key, &parts, sizeof parts);
}

uint32_t poison_memory_refresh(struct poison_memory *memory, int64_t now_ms)
{
    for (uint32_t i = memory->count; i-- > 0;) {
        if (now_ms >= memory->places[i].until_ms)
            memory->places[i] = memory->places[--memory->count];
    }
    return memory->count;
}

/* The index of the fingerprint, or `count`. */
static uint32_t place_of(const struct poison_memory *memory, uint64_t fingerprint)
{
    uint32_t at = 0;
    while (at < memory->count && memory->places[at].fingerprint != fingerprint)
        at++;
    return at;
}

const struct poison_conviction *poison_memory_find(struct poison_memory *memory,
                                                   uint64_t fingerprint, int64_t now_ms)
{
    poison_memory_refresh(memory, now_ms);
    uint32_t at = place_of(memory, fingerprint);
    return at < memory->count ? &memory->places[at] : NULL;
}

void poison_memory_add(struct poison_memory *memory, const struct poison_conviction *conviction,
                       int64_t now_ms)
{
    poison_memory_refresh(memory, now_ms);
    uint32_t at = place_of(memory, conviction->fingerprint);
    if (at == POISON_MEMORY_PLACES) {
        at = 0;
        for (uint32_t i = 1; i < memory->count; i++) {
            if (memory->places[i].until_ms < memory->places[at].until_ms)
                at = i;
        }
    } else if (at == memory->count) {
        memory->count++;
    }
    memory->places[at] = *conviction;
    memory->places[at].since_ms = now_ms;
    memory->places[at].until_ms = now_ms + memory->keep_ms;
}

void poison_memory_remove(struct poison_memory *memory, uint64_t fingerprint)
{
    uint32_t at = place_of(memory, fingerprint);
    if (at < memory->count)
        memory->places[at] = memory->places[--memory->count];
}
