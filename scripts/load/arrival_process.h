/*
 * Arrival times of an open loop: independent intervals, regardless of the server.
 */
#ifndef SHOAL_SCRIPTS_LOAD_ARRIVAL_PROCESS_H
#define SHOAL_SCRIPTS_LOAD_ARRIVAL_PROCESS_H

#include "scripts/load/load_random.h"

struct arrival_process {
    double rate_per_s;
    double burstiness;
    double at_us; /* of the next arrival, since the beginning */
    struct load_random random;
};

/* The first request arrives at 0. `rate_per_s` > 0, INFINITY: all at once. `burstiness` > 0: the
 * shape of gamma intervals of mean 1 / rate; 1 is a Poisson process, less is burstier, INFINITY is
 * a fixed interval. */
void arrival_process_init(struct arrival_process *process, double rate_per_s, double burstiness,
                          uint64_t seed);
/* Returns the time of the next arrival in microseconds since the beginning, and advances to the one
 * after it. */
int64_t arrival_process_next_us(struct arrival_process *process);

#endif
