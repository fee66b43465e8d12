/*
 * Asserts what the rig and the fake backend do not: each reply equals that of the request alone, only
 * a cancel ends a request early, and nothing leaks.
 */
#include "tests/support/request_crowd.h"

#include <stdlib.h>

#include "proto/must.h"

#define TURNS_A_REQUEST 400u

struct crowd {
    struct engine_rig *rig;
    const struct request_crowd_options *options;
    struct test_random random;
    struct drawn_request *drawn; /* [slots] */
    uint32_t submitted;
    struct request_crowd_totals totals;
};

static void settle(struct crowd *crowd, uint32_t slot)
{
    struct drawn_request *drawn = &crowd->drawn[slot];
    const struct test_reply *reply = &crowd->rig->frontend->replies[slot];
    struct request_crowd_totals *totals = &crowd->totals;
    engine_rig_check_reply(crowd->rig, &drawn->request, reply);
    must(drawn->cancelled || reply->finish != FINISH_CANCELLED);
    if (drawn->request.flags & SUBMIT_FLAG_NO_PREFIX_CACHE)
        must(reply->cached_tokens == 0);
    if (crowd->options->settle)
        crowd->options->settle(crowd->options->context, drawn, reply);
    totals->finished++;
    totals->cancelled += reply->finish == FINISH_CANCELLED;
    totals->by_length += reply->finish == FINISH_LENGTH;
    totals->by_stop += reply->finish == FINISH_STOP_TOKEN;
    if (reply->token_count > 0) {
        totals->prompt_tokens += drawn->request.prompt_tokens;
        totals->cached_tokens += reply->cached_tokens;
    }
    drawn->used = false;
}

static bool happens(struct crowd *crowd, uint32_t one_of)
{
    return one_of > 0 && test_random_below(&crowd->random, one_of) == 0;
}

/* Fills a slot, cancels its request or leaves it unchanged, at random. */
static void look(struct crowd *crowd)
{
    uint32_t slot = test_random_below(&crowd->random, crowd->options->slots);
    struct drawn_request *drawn = &crowd->drawn[slot];
    if (!drawn->used && crowd->submitted < crowd->options->requests) {
        drawn_request_begin(drawn);
        crowd->options->make(crowd->options->context, &crowd->random, drawn);
        drawn_request_end(drawn);
        must(test_frontend_submit(crowd->rig->frontend, slot, &drawn->request));
        crowd->submitted++;
    } else if (drawn->used && happens(crowd, crowd->options->cancels)) {
        drawn->cancelled = true;
        test_frontend_cancel(crowd->rig->frontend, slot);
    } else if (happens(crowd, crowd->options->cache_resets)) {
        test_frontend_reset_cache(crowd->rig->frontend);
    }
}

static void turn(struct crowd *crowd)
{
    look(crowd);
    if (test_random_below(&crowd->random, 3) == 0)
        return;
    engine_rig_turn(crowd->rig);
    if (crowd->options->reads_slowly && test_random_below(&crowd->random, 4) == 0)
        return;
    test_frontend_collect(crowd->rig->frontend);
    for (uint32_t slot = 0; slot < crowd->options->slots; slot++) {
        if (crowd->drawn[slot].used && !crowd->rig->frontend->replies[slot].live)
            settle(crowd, slot);
    }
}

struct request_crowd_totals request_crowd_run(struct engine_rig *rig,
                                              const struct request_crowd_options *options)
{
    must(options->slots > 0 && options->slots <= CROWD_SLOTS);
    struct crowd crowd = {.rig = rig, .options = options, .random = {.state = options->seed}};
    crowd.drawn = must_alloc(options->slots, sizeof *crowd.drawn);
    uint32_t turns = 0;
    while (crowd.totals.finished < options->requests) {
        must(turns++ < options->requests * TURNS_A_REQUEST);
        turn(&crowd);
    }
    while (engine_rig_turn(rig) != STEP_IDLE)
        must(turns++ < options->requests * TURNS_A_REQUEST);
    must(payload_slab_used_bytes(rig->frontend->slab) == 0);
    must(kv_pools_used(&rig->engine->pools) == 0);
    if (rig->engine->pools.features)
        must(feature_cache_figures(rig->engine->pools.features).held_images == 0);
    for (uint32_t slot = 0; slot < options->slots; slot++)
        drawn_request_fini(&crowd.drawn[slot]);
    free(crowd.drawn);
    return crowd.totals;
}
