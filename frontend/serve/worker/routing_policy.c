/*
 * Chooses a worker for a request, between two conflicting goals: sending a prompt where its
 * beginning has been computed, and keeping all workers equally busy.
 *
 * Both are measured in requests. Every four shared blocks (64 tokens that need not be computed
 * again) are worth one request in a worker's queue, up to an eighth of the requests that a worker
 * accepts, because a prefix is computed once while every request in a queue waits. The first few
 * blocks, which all chats share (a template's beginning), are worth nothing and decide between
 * equals only.
 *
 * The policy sees only the numbers of its candidates: no time, no tokens, no tables.
 */
#include "frontend/serve/worker/routing_policy.h"

#define BLOCKS_PER_REQUEST 4u
#define WORTH_SHARE        8u
#define WORTH_LEAST        2u

/* What the worker's queue counts for this prompt; smaller is better. */
static int64_t cost_of(const struct routing_candidate *candidate, uint32_t most)
{
    uint32_t worth_most = most / WORTH_SHARE > WORTH_LEAST ? most / WORTH_SHARE : WORTH_LEAST;
    uint32_t worth = candidate->shared_blocks / BLOCKS_PER_REQUEST;
    return (int64_t)candidate->load - (worth < worth_most ? worth : worth_most);
}

static bool is_better(const struct routing_candidate *a, const struct routing_candidate *b,
                      uint32_t most)
{
    int64_t cost_a = cost_of(a, most);
    int64_t cost_b = cost_of(b, most);
    return cost_a != cost_b ? cost_a < cost_b : a->shared_blocks > b->shared_blocks;
}

uint32_t routing_policy_choose(const struct routing_candidate *candidates, uint32_t count,
                               uint32_t most)
{
    uint32_t chosen = ROUTING_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!candidates[i].open || candidates[i].load >= most)
            continue;
        if (chosen == ROUTING_NONE || is_better(&candidates[i], &candidates[chosen], most))
            chosen = i;
    }
    return chosen;
}
