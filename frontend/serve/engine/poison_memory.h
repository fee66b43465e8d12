/*
 * Convictions: fingerprints of requests that crashed workers. The same request of the same tenant is
 * refused for a while.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_POISON_MEMORY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_POISON_MEMORY_H

#include <stdbool.h>

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/base/client_key.h"
#include "frontend/serve/worker/death_cause.h"
#include "proto/keyed_hash.h"

#define POISON_MEMORY_PLACES 256u

struct poison_conviction {
    uint64_t fingerprint;    /* also its id */
    struct client_key owner; /* of the request's client */
    enum death_cause cause;  /* of the last death */
    uint32_t deaths;         /* of workers that computed the request */
    int64_t since_ms;
    int64_t until_ms;
};

#define POISON_ID_BYTES 17u
/* Writes a conviction's id for logs and clients: 16 hexadecimal digits. */
void poison_memory_write_id(uint64_t fingerprint, char text[POISON_ID_BYTES]);

struct poison_memory {
    struct keyed_hash_key key;
    int64_t keep_ms;
    uint32_t count;
    struct poison_conviction places[POISON_MEMORY_PLACES]; /* in no order */
};

void poison_memory_init(struct poison_memory *memory, int64_t keep_ms);

/* Hashes prompt ids, image records, cache salt and sampling parameters, without the seed, because a
 * client that retries gets another one. The salt belongs to the tenant (tenant_salt.h), so the same
 * body of another tenant has another fingerprint. */
uint64_t poison_memory_fingerprint(const struct poison_memory *memory,
                                   const struct prepared_generation *prepared);
/* Keeps `conviction` from now on; the times are set here. If the list is full, the entry that
 * expires first is replaced. */
void poison_memory_add(struct poison_memory *memory, const struct poison_conviction *conviction,
                       int64_t now_ms);
/* NULL if there is none, or it has expired. Valid until the next call. */
const struct poison_conviction *poison_memory_find(struct poison_memory *memory,
                                                   uint64_t fingerprint, int64_t now_ms);
/* Removes the conviction if there is one. */
void poison_memory_remove(struct poison_memory *memory, uint64_t fingerprint);
/* Removes expired entries; returns the number of the others, which are the first of `places`. */
uint32_t poison_memory_refresh(struct poison_memory *memory, int64_t now_ms);

#endif
