/*
 * Fingerprints of requests that crashed workers: the same request is refused for a while.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_POISON_MEMORY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_POISON_MEMORY_H

#include <stdbool.h>

#include "frontend/api/generation/prepared_generation.h"
#include "proto/keyed_hash.h"

#define POISON_MEMORY_PLACES 256u

struct poison_memory {
    struct keyed_hash_key key;
    int64_t keep_ms;
    uint32_t count;
    struct {
        uint64_t fingerprint;
        int64_t until_ms;
    } places[POISON_MEMORY_PLACES];
};

void poison_memory_init(struct poison_memory *memory, int64_t keep_ms);

/* Hashes prompt ids, image records and sampling parameters, without the seed, because a client that
 * retries gets another one. */
uint64_t poison_memory_fingerprint(const struct poison_memory *memory,
                                   const struct prepared_generation *prepared);
/* If the list is full, the entry that expires first is replaced. */
void poison_memory_add(struct poison_memory *memory, uint64_t fingerprint, int64_t now_ms);
bool poison_memory_has(struct poison_memory *memory, uint64_t fingerprint, int64_t now_ms);

#endif
