/*
 * Counters of requests that the server ended.
 */
#ifndef SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_COUNTERS_H
#define SHOAL_FRONTEND_SERVE_ROUTES_GENERATION_COUNTERS_H

#include <stdint.h>

struct generation_counters {
    uint64_t slow_readers_cut;
    uint64_t deadlines_exceeded;
};

#endif
