/*
 * Thousands of random requests through tiny pools. With any other requests admitted, chunked,
 * preempted, recomputed or cancelled meanwhile, and with or without overlapping steps, every
 * request gets the same tokens as when it runs alone, none starves, and all memory is given back at
 * the end. The rig and the fake backend assert the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/request_crowd.h"

#define PROMPT_MAX 160u

/* Short prompts of few different ids, and some long ones. */
static void make_request(void *context, struct test_random *random, struct drawn_request *drawn)
{
    uint32_t vocab = *(const uint32_t *)context;
    uint32_t tokens =
        1 + test_random_below(random, test_random_below(random, 3) == 0 ? PROMPT_MAX : 20);
    while (tokens-- > 0)
        drawn_request_add_text(drawn, random, 1, test_random_below(random, 2) ? 2 : vocab);
    drawn_request_sample(drawn, random, vocab);
    drawn->request.max_new_tokens = 1 + test_random_below(random, 60);
}

static void check_run(struct engine_rig_options *options, uint64_t seed)
{
    uint32_t vocab = options->vocab_tokens;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct request_crowd_totals totals =
            request_crowd_run(&rig, &(struct request_crowd_options){.seed = seed + 10 * overlap,
                                                                    .slots = 24,
                                                                    .requests = 1500,
                                                                    .cancels = 60,
                                                                    .reads_slowly = true,
                                                                    .make = make_request,
                                                                    .context = &vocab});
        assert_true(totals.by_length > 50);
        assert_true(totals.by_stop > 50);
        assert_true(totals.cancelled > 20);
        assert_true(engine_rig_preemptions(&rig) > 20);
        struct fake_backend_totals steps = fake_backend_totals(rig.backend);
        assert_true(overlap > 0 ? steps.steps_ahead > 1000 : steps.steps_ahead == 0);
        if (overlap > 0 && overlap != ENGINE_RIG_HALVES)
            assert_true(steps.rows_ahead > 1000);
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

/* Sequences before and after the start of quantization in one step, with both pools too small. */
static void test_quantization_after_a_start(void **state)
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

/* A recurrent state cannot be rolled back: neither by the row after a stop token nor by one of a
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
        cmocka_unit_test(test_quantization_after_a_start),
        cmocka_unit_test(test_recurrent_state),
        cmocka_unit_test(test_recurrent_state_beside_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
