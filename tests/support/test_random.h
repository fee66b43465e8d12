/*
 * Reproducible random numbers for tests: the caller keeps the state and prints the seed.
 */
#ifndef SHOAL_TESTS_SUPPORT_TEST_RANDOM_H
#define SHOAL_TESTS_SUPPORT_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct test_random {
    uint64_t state; /* any seed, also 0 */
};

uint64_t test_random_next(struct test_random *random);
/* In [0, bound); bound > 0. */
uint32_t test_random_below(struct test_random *random, uint32_t bound);
void test_random_fill(struct test_random *random, void *bytes, size_t count);

/* A number that is likely to break checks: 0, 1, all ones, near a power of two, small, or uniform. */
uint64_t test_random_edgy(struct test_random *random);

#endif
