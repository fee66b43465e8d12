/*
 * Many random requests in an engine rig: fills, cancels and empties slots at random until a number of
 * requests has ended, and then checks that all resources are free.
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
    /* Draws a request into `drawn`, which was begun and still has to be ended. */
    void (*make)(void *context, struct test_random *random, struct drawn_request *drawn);
    /* NULL, or called with each reply after its comparison with the request alone. */
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
