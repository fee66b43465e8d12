/*
 * Seeded random numbers: the same seed gives the same load on every machine.
 */
#ifndef SHOAL_SCRIPTS_LOAD_LOAD_RANDOM_H
#define SHOAL_SCRIPTS_LOAD_LOAD_RANDOM_H

#include <stdint.h>

struct load_random {
    uint64_t state;
};

void load_random_init(struct load_random *random, uint64_t seed);
uint64_t load_random_next(struct load_random *random);
/* In [0, below); 0 when `below` is 0. */
uint64_t load_random_below(struct load_random *random, uint64_t below);
/* In (0, 1]: its logarithm is finite. */
double load_random_unit(struct load_random *random);
/* Gamma with that shape and scale 1; shape > 0. */
double load_random_gamma(struct load_random *random, double shape);

#endif
