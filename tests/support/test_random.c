/*
 * splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed works. The numbers are the same
 * on every machine, so a failing seed can be repeated.
 */
#include "tests/support/test_random.h"

#include <string.h>

uint64_t test_random_next(struct test_random *random)
{
    random->state += 0x9e3779b97f4a7c15ull;
    uint64_t word = random->state;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    return word ^ (word >> 31);
}

uint32_t test_random_below(struct test_random *random, uint32_t bound)
{
    return (uint32_t)(test_random_next(random) % bound);
}

void test_random_fill(struct test_random *random, void *bytes, size_t count)
{
    uint8_t *at = bytes;
    while (count > 0) {
        uint64_t word = test_random_next(random);
        size_t part = count < sizeof word ? count : sizeof word;
        memcpy(at, &word, part);
        at += part;
        count -= part;
    }
}

uint64_t test_random_edgy(struct test_random *random)
{
    uint64_t shape = test_random_next(random);
    uint64_t near = (1ull << ((shape >> 8) % 64)) + ((shape >> 16) % 3) - 1;
    switch (shape % 6) {
    case 0: return 0;
    case 1: return ~0ull;
    case 2: return near;
    case 3: return ~near;
    case 4: return (shape >> 8) % 200;
    default: return test_random_next(random);
    }
}
