/*
 * Two wishes pull apart: to send a prompt where its beginning has been computed, and to keep all
 * workers equally busy. Affinity wins as long as the imbalance stays below an eighth of what a
 * worker takes (two at least, so that small pools have affinity too); beyond that load wins,
 * because a prefix is computed once and a queue is waited for by everyone in it.
 *
 * Refuses to look at time, tokens or tables: numbers in, a number out.
 */
#include "frontend/serve/routing_policy.h"

#define IMBALANCE_SHARE 8u
#define IMBALANCE_LEAST 2u

static bool takes(const struct routing_candidate *candidate, uint32_t most)
{
    return candidate->open && candidate->load < most;
}

static bool is_better(const struct routing_candidate *a, const struct routing_candidate *b)
{
    if (a->shared_blocks != b->shared_blocks)
        return a->shared_blocks > b->shared_blocks;
    return a->load < b->load;
}

uint32_t routing_policy_choose(const struct routing_candidate *candidates, uint32_t count,
                               uint32_t most)
{
    uint32_t least_load = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (takes(&candidates[i], most) && candidates[i].load < least_load)
            least_load = candidates[i].load;
    }
    uint32_t slack = most / IMBALANCE_SHARE;
    if (slack < IMBALANCE_LEAST)
        slack = IMBALANCE_LEAST;
    uint32_t chosen = ROUTING_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!takes(&candidates[i], most) || candidates[i].load > least_load + slack)
            continue;
        if (chosen == ROUTING_NONE || is_better(&candidates[i], &candidates[chosen]))
            chosen = i;
    }
    return chosen;
}
