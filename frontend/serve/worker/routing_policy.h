/*
 * Which worker gets the next request?
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_ROUTING_POLICY_H
#define SHOAL_FRONTEND_SERVE_WORKER_ROUTING_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTING_NONE UINT32_MAX

struct routing_candidate {
    bool open;              /* ready, and takes requests */
    uint32_t load;          /* requests that it has */
    uint32_t shared_blocks; /* leading blocks of the prompt that it has seen */
};

/*
 * The least busy worker, where a long shared prefix outweighs a few requests; of equals the one
 * with the longer prefix, then the first. A worker with `most` requests or more takes none: the
 * queue in front of all of them is the better place to wait. ROUTING_NONE when none is left. Pure.
 */
uint32_t routing_policy_choose(const struct routing_candidate *candidates, uint32_t count,
                               uint32_t most);

#endif
