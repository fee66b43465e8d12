/*
 * A crowd of drawn requests in an engine rig: slots that are filled, cancelled and emptied at
 * random, until so many requests have ended; then everything must have been given back.
 */
#ifndef SHOAL_TESTS_SUPPORT_REQUEST_CROWD_H
#define SHOAL_TESTS_SUPPORT_REQUEST_CROWD_H

#include "tests/support/drawn_request.h"
#include "tests/support/engine_rig.h"

#define CROWD_SLOTS 24u

struct request_crowd_options {
    uint64_t seed;
    uint32_t slots;        /* <= CROWD_SLOTS */
    uint32_t requests;     /* to be run */
    uint32_t cancels;      /* one of so many looks at a live request cancels it; 0: never */
    uint32_t cache_resets; /* one of so many looks forgets the prefix cache; 0: never */
    bool reads_slowly;     /* events are not always collected after a turn */
    /* Draws a request into `drawn`, which is begun and not yet ended. */
    void (*make)(void *context, struct test_random *random, struct drawn_request *drawn);
    /* NULL, or is shown what came of it, once it was held against what it gives alone. */
    void (*settle)(void *context, const struct drawn_request *drawn,
                   const struct test_reply *reply);
    void *context;
};

struct request_crowd_totals {
    uint32_t finished;
    uint32_t cancelled;
    uint32_t by_length;
    uint32_t by_stop;
    uint64_t prompt_tokens; /* of those that drew a token, as the next one */
    uint64_t cached_tokens;
};
struct request_crowd_totals request_crowd_run(struct engine_rig *rig,
                                              const struct request_crowd_options *options);

#endif
