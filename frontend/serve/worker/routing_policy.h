/*
 * Chooses the worker for the next request.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_ROUTING_POLICY_H
#define SHOAL_FRONTEND_SERVE_WORKER_ROUTING_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTING_NONE UINT32_MAX

struct routing_candidate {
    bool open;              /* ready, and accepts requests */
    uint32_t load;          /* its requests */
    uint32_t shared_blocks; /* leading blocks of the prompt in its prefix table */
};

/*
 * The least busy worker, where a long shared prefix outweighs a few requests; of equals the one
 * with the longer prefix, then the first. A worker with `most` requests or more is not chosen: the
 * request waits in the common queue instead. ROUTING_NONE if there is none. Pure.
 */
uint32_t routing_policy_choose(const struct routing_candidate *candidates, uint32_t count,
                               uint32_t most);

#endif
