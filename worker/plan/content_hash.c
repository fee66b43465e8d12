/*
 * Four independent lanes of exclusive-or, multiply and rotate take 32 bytes a round, so that the
 * multiplier is always busy: about 10 bytes a nanosecond, four times as many as one lane byte by
 * byte. The multiplication carries every input bit to its lane's top bits, the rotation to its
 * bottom bits; the end mixes lanes, length and seed.
 *
 * Collisions can be constructed: the hash is no protection against malicious contents.
 */
#include "worker/plan/content_hash.h"

#include <string.h>

#define LANES       4u
#define MULTIPLIER  0x9fb21c651e98df25u /* odd, bits without pattern */
#define ROUND_BYTES (LANES * sizeof(uint64_t))

static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * MULTIPLIER;
    return lane << 29 | lane >> 35;
}

uint64_t content_hash(const void *bytes, size_t byte_count, uint64_t seed)
{
    uint64_t lanes[LANES] = {seed + 1, seed + 3, seed + 5, seed + 7};
    const uint8_t *at = bytes;
    size_t left = byte_count;
    for (; left >= ROUND_BYTES; left -= ROUND_BYTES, at += ROUND_BYTES) {
        uint64_t words[LANES];
        memcpy(words, at, sizeof words);
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = mix(lanes[i], words[i]);
    }
    uint64_t rest[LANES] = {0};
    if (left > 0)
        memcpy(rest, at, left);
    uint64_t hash = mix(seed, byte_count);
    for (size_t i = 0; i < LANES; i++)
        hash = mix(hash, mix(lanes[i], rest[i]));
    hash = (hash ^ hash >> 32) * MULTIPLIER;
    return hash ^ hash >> 29;
}
