/*
 * A hash of 64 or 128 bits whose collisions cannot be constructed without the key: SipHash-2-4
 * (Aumasson and Bernstein, 2012). For tables whose keys come from clients, and for contents of
 * clients that are identified by the hash alone.
 */
#ifndef SHOAL_PROTO_KEYED_HASH_H
#define SHOAL_PROTO_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

struct keyed_hash_key {
    uint64_t words[2];
};

/* Draws a key from the system's random numbers. */
struct keyed_hash_key keyed_hash_random_key(void);

uint64_t keyed_hash(const struct keyed_hash_key *key, const void *bytes, size_t count);
/* 128 bits: collisions are not to be expected for any number of contents. */
void keyed_hash_wide(const struct keyed_hash_key *key, const void *bytes, size_t count,
                     uint64_t hash[2]);

#endif
