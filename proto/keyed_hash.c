/*
 * SipHash with a key that is drawn at each start of the server.
 *
 * Clients choose what is hashed here (their prompts). With a known hash they could construct
 * prompts that collide: fill one set of a table, or make another client's prompt pass for a cached
 * one. With a secret random key they cannot compute any value.
 *
 * 64 bits under a secret key distinguish prompts; they are not a cryptographic digest.
 */
#include "proto/keyed_hash.h"

#include <string.h>
#include <sys/random.h>

#include "proto/must.h"

struct keyed_hash_key keyed_hash_random_key(void)
{
    struct keyed_hash_key key;
    must(getrandom(&key, sizeof key, 0) == sizeof key);
    return key;
}

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

/* The state before the last rounds; `width` is 0 for 64 bits and 0xee for 128 in SipHash. */
static void take_bytes(uint64_t v[4], const struct keyed_hash_key *key, const void *bytes,
                       size_t count, uint64_t width)
{
    uint64_t k0 = key->words[0];
    uint64_t k1 = key->words[1];
    v[0] = k0 ^ 0x736f6d6570736575ull;
    v[1] = k1 ^ 0x646f72616e646f6dull ^ width;
    v[2] = k0 ^ 0x6c7967656e657261ull;
    v[3] = k1 ^ 0x7465646279746573ull;
    const uint8_t *at = bytes;
    size_t left = count;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word); /* little-endian, as all of Shoal's targets are */
        take_word(v, word);
    }
    uint64_t last = (uint64_t)(count & 0xff) << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)at[i] << (8 * i);
    take_word(v, last);
}

static uint64_t finish(uint64_t v[4])
{
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t keyed_hash(const struct keyed_hash_key *key, const void *bytes, size_t count)
{
    uint64_t v[4];
    take_bytes(v, key, bytes, count, 0);
    v[2] ^= 0xff;
    return finish(v);
}

void keyed_hash_wide(const struct keyed_hash_key *key, const void *bytes, size_t count,
                     uint64_t hash[2])
{
    uint64_t v[4];
    take_bytes(v, key, bytes, count, 0xee);
    v[2] ^= 0xee;
    hash[0] = finish(v);
    v[1] ^= 0xdd;
    hash[1] = finish(v);
}
