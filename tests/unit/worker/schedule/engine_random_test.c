/*
 * Thousands of random requests through tiny pools: whatever is admitted, chunked, preempted,
 * recomputed or cancelled around it, and however steps overlap, every request gets the tokens that
 * it gets alone, nobody starves, and at the end everything is given back. The rig and the fake
 * backend assert the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "tests/support/test_random.h"

#define SLOTS      24u
#define PROMPT_MAX 160u

struct owned_request {
    struct test_request request;
    uint32_t prompt[PROMPT_MAX];
    uint32_t stop_ids[2];
    struct logit_bias_entry bias[2];
    bool used;
    bool cancelled;
};

static void make_request(struct owned_request *owned, struct test_random *random, uint32_t vocab)
{
    owned->used = true;
    owned->cancelled = false;
    uint32_t prompt_tokens =
        1 + test_random_below(random, test_random_below(random, 3) == 0 ? PROMPT_MAX : 20);
    for (uint32_t i = 0; i < prompt_tokens; i++)
        owned->prompt[i] = test_random_below(random, test_random_below(random, 2) ? 2 : vocab);
    owned->stop_ids[0] = test_random_below(random, vocab);
    owned->stop_ids[1] = test_random_below(random, vocab);
    for (uint32_t i = 0; i < 2; i++)
        owned->bias[i] = (struct logit_bias_entry){test_random_below(random, vocab), 1.0f};
    owned->request = (struct test_request){
        .prompt = owned->prompt,
        .prompt_tokens = prompt_tokens,
        .max_new_tokens = 1 + test_random_below(random, 60),
        .flags = test_random_below(random, 4),
        .sampling = sampling_params_default(),
        .stop_ids = owned->stop_ids,
        .stop_token_count = test_random_below(random, 3),
        .logit_bias = owned->bias,
        .logit_bias_count = test_random_below(random, 3),
    };
    owned->request.sampling.seed = test_random_next(random);
    if (test_random_below(random, 3) == 0)
        owned->request.sampling.presence_penalty = 0.5f;
}

struct totals {
    uint32_t finished;
    uint32_t cancelled;
    uint32_t by_length;
    uint32_t by_stop;
};

static void settle(struct engine_rig *rig, struct owned_request *owned, uint32_t slot,
                   struct totals *totals)
{
    const struct test_reply *reply = &rig->frontend->replies[slot];
    engine_rig_check_reply(rig, &owned->request, reply);
    must(owned->cancelled || reply->finish != FINISH_CANCELLED);
    totals->finished++;
    totals->cancelled += reply->finish == FINISH_CANCELLED;
    totals->by_length += reply->finish == FINISH_LENGTH;
    totals->by_stop += reply->finish == FINISH_STOP_TOKEN;
    owned->used = false;
}

static struct totals run(struct engine_rig *rig, uint64_t seed, uint32_t requests)
{
    static struct owned_request owned[SLOTS];
    struct test_random random = {.state = seed};
    struct totals totals = {0};
    uint32_t submitted = 0;
    uint32_t turns = 0;
    while (totals.finished < requests) {
        must(turns++ < requests * 200);
        uint32_t slot = test_random_below(&random, SLOTS);
        if (!owned[slot].used && submitted < requests) {
            make_request(&owned[slot], &random, rig->options.vocab_tokens);
            must(test_frontend_submit(rig->frontend, slot, &owned[slot].request));
            submitted++;
        } else if (owned[slot].used && test_random_below(&random, 60) == 0) {
            owned[slot].cancelled = true;
            test_frontend_cancel(rig->frontend, slot);
        }
        if (test_random_below(&random, 3) == 0)
            continue;
        engine_rig_turn(rig);
        if (test_random_below(&random, 4) == 0)
            continue; /* a slow reader */
        test_frontend_collect(rig->frontend);
        for (slot = 0; slot < SLOTS; slot++) {
            if (owned[slot].used && !rig->frontend->replies[slot].live)
                settle(rig, &owned[slot], slot, &totals);
        }
    }
    assert_int_equal(payload_slab_used_bytes(rig->frontend->slab), 0);
    assert_int_equal(kv_pools_used(&rig->engine->pools), 0);
    while (engine_rig_turn(rig) != STEP_IDLE)
        assert_true(turns++ < requests * 200);
    return totals;
}

static void check_run(struct engine_rig_options *options, uint64_t seed)
{
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct totals totals = run(&rig, seed + 10 * overlap, 1500);
        assert_true(totals.by_length > 50);
        assert_true(totals.by_stop > 50);
        assert_true(totals.cancelled > 20);
        assert_true(engine_rig_preemptions(&rig) > 20);
        struct fake_backend_totals steps = fake_backend_totals(rig.backend);
        assert_true(overlap > 0 ? steps.rows_ahead > 1000 : steps.steps_ahead == 0);
        engine_rig_close(&rig);
    }
}

static void test_full_attention(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 14; /* one of the longest sequences alone */
    check_run(&options, 1);
}

static void test_full_and_sliding_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.group_count = 3;
    options.windows[1] = 40;
    options.windows[2] = 2;
    options.kv_blocks[0] = 20;
    options.kv_blocks[1] = 14;
    options.kv_blocks[2] = 10;
    check_run(&options, 2);
}

static void test_only_sliding_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.windows[0] = 24;
    options.kv_blocks[0] = 9;
    check_run(&options, 3);
}

static void test_pools_that_hold_no_whole_answer(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 10; /* 160 positions: answers are capped by the pool */
    options.step_tokens = 8;
    options.mixed_prefill_tokens = 1;
    check_run(&options, 4);
}

/* Sequences before and after the start of quantization, in one step and short of both pools. */
static void test_quantization_behind_a_start(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.quantized_kv_start = 45;
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[0] = 20;
    options.kv_blocks[1] = 14;
    options.kv_blocks[2] = 7;
    check_run(&options, 7);
}

/* Of a recurrent state nothing can be taken back: not the row behind a stop token, not one of a
 * cancelled neighbour. */
static void test_recurrent_state(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 14;
    options.recurrent = true;
    check_run(&options, 5);
}

static void test_recurrent_state_beside_windows(void **state)
{
    (void)state;
    struct engine_rig_options options = engine_rig_defaults();
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[0] = 20;
    options.kv_blocks[1] = 14;
    options.max_sequences = 5;
    options.recurrent = true;
    check_run(&options, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),
        cmocka_unit_test(test_full_and_sliding_groups),
        cmocka_unit_test(test_only_sliding_groups),
        cmocka_unit_test(test_pools_that_hold_no_whole_answer),
        cmocka_unit_test(test_quantization_behind_a_start),
        cmocka_unit_test(test_recurrent_state),
        cmocka_unit_test(test_recurrent_state_beside_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
