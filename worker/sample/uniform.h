/*
 * The counter-based random stream behind uniform_draw() (row_sampler.h): Philox4x32-10 of Salmon,
 * Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Stateless: the
 * number at a position does not depend on what was drawn before.
 */
#ifndef SHOAL_WORKER_SAMPLE_UNIFORM_H
#define SHOAL_WORKER_SAMPLE_UNIFORM_H

#include <stdint.h>

struct philox_block {
    uint32_t word[4];
};

/* Ten rounds over `counter` with `key`. Public for the published test vectors. */
struct philox_block uniform_philox(struct philox_block counter, uint64_t key);

#endif
