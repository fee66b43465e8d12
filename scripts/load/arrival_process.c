/*
 * An open loop models real clients, which do not wait for each other: a slow server gets a queue
 * instead of fewer requests. The times depend on the seed only, never on the server.
 *
 * Intervals are not stretched to make a run last exactly requests / rate, as some tools do: the
 * times of a Poisson process are random, and so is their number in a minute.
 */
#include "scripts/load/arrival_process.h"

#include <math.h>

void arrival_process_init(struct arrival_process *process, double rate_per_s, double burstiness,
                          uint64_t seed)
{
    *process = (struct arrival_process){.rate_per_s = rate_per_s, .burstiness = burstiness};
    load_random_init(&process->random, seed);
}

int64_t arrival_process_next_us(struct arrival_process *process)
{
    int64_t at_us = (int64_t)process->at_us;
    if (isinf(process->rate_per_s))
        return at_us;
    double mean_us = 1e6 / process->rate_per_s;
    if (isinf(process->burstiness))
        process->at_us += mean_us;
    else
        process->at_us += load_random_gamma(&process->random, process->burstiness) * mean_us /
                          process->burstiness;
    return at_us;
}
