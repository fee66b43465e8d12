/*
 * Steps launched before the last one is read: that they are, what it may not cost (rows beyond an
 * answer's length, a second step's wait for a new request), and that a sequence that ends while a
 * row of it is under way, at any moment and for any reason, leaves nothing allocated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/step_roster.h"
#include "tests/support/engine_rig.h"

static uint32_t prompt[200];

/* Two steps under way, computed as late as may be. */
static struct engine_rig_options overlapping(void)
{
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_set_overlap(&options, 2);
    return options;
}

/* A turn, and what it told. */
static uint32_t turn(struct engine_rig *rig)
{
    engine_rig_turn(rig);
    return test_frontend_collect(rig->frontend);
}

/* Until the last step under way is read, too. */
static void settle(struct engine_rig *rig)
{
    engine_rig_finish(rig, 500);
    while (engine_rig_turn(rig) != STEP_IDLE)
        continue;
    assert_true(step_pipeline_is_empty(&rig->engine->pipeline));
    assert_int_equal(kv_pools_used(&rig->engine->pools), 0);
}

static bool on_roster(const struct engine_rig *rig, uint32_t slot)
{
    struct step_roster_copy roster;
    step_roster_read(rig->frontend->pair.segment.roster, &roster);
    return step_roster_copy_has(&roster, slot);
}

static void test_one_stream_overlaps_with_itself(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 20, 10);
    const struct test_reply *reply = &rig.frontend->replies[3];
    assert_true(test_frontend_submit(rig.frontend, 3, &request));
    turn(&rig);
    assert_int_equal(reply->token_count, 0);
    for (uint32_t tokens = 1; tokens < 10; tokens++) {
        assert_true(on_roster(&rig, 3));
        turn(&rig);
        assert_int_equal(reply->token_count, tokens);
        struct fake_backend_totals totals = fake_backend_totals(rig.backend);
        assert_int_equal(totals.steps, tokens + 1);
        assert_int_equal(totals.rows_ahead, tokens);
    }
    turn(&rig); /* its last token is under way, so nothing is launched */
    assert_false(reply->live);
    assert_false(on_roster(&rig, 3));
    assert_int_equal(engine_rig_turn(&rig), STEP_IDLE);
    assert_int_equal(fake_backend_totals(rig.backend).rows, 20 + 9);
    engine_rig_check_reply(&rig, &request, reply);
    assert_int_equal(atomic_load(&rig.frontend->pair.segment.gauges->generated_tokens_total), 10);
    settle(&rig);
    engine_rig_close(&rig);
}

static void test_prompts_overlap_too(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 100, 3);
    const struct test_reply *reply = &rig.frontend->replies[0];
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    turn(&rig);
    for (uint32_t done = 32; done < 100; done += 32) { /* told when computed, not when launched */
        turn(&rig);
        assert_int_equal(reply->prompt_done, done);
    }
    settle(&rig);
    engine_rig_check_reply(&rig, &request, reply);
    engine_rig_close(&rig);
}

/* A stop token costs one row whose result is dropped; blocks and slot are free before that. */
static void test_a_stop_token_while_the_next_row_is_under_way(void **state)
{
    (void)state;
    uint32_t expected[30];
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    options.vocab_tokens = 5000; /* no token twice */
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 20, 30);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    settle(&rig);
    for (uint32_t i = 0; i < 30; i++)
        expected[i] = rig.frontend->replies[0].tokens[i];
    for (uint32_t stop = 0; stop < 29; stop++) {
        request.stop_ids = &expected[stop];
        request.stop_token_count = 1;
        uint64_t rows_before = fake_backend_totals(rig.backend).rows;
        assert_true(test_frontend_submit(rig.frontend, 0, &request));
        for (uint32_t i = 0; i < 2 + stop; i++)
            turn(&rig);
        assert_int_equal(rig.frontend->replies[0].finish, FINISH_STOP_TOKEN);
        assert_int_equal(rig.frontend->replies[0].token_count, stop + 1);
        engine_rig_check_reply(&rig, &request, &rig.frontend->replies[0]);
        assert_false(step_pipeline_is_empty(&rig.engine->pipeline));
        assert_int_equal(kv_pools_used(&rig.engine->pools), 0);
        assert_false(on_roster(&rig, 0));
        /* The same slot and blocks have another owner before the step is read. */
        struct test_request other = test_request_of(prompt, 40, 3);
        assert_true(test_frontend_submit(rig.frontend, 0, &other));
        settle(&rig);
        engine_rig_check_reply(&rig, &other, &rig.frontend->replies[0]);
        uint64_t rows = fake_backend_totals(rig.backend).rows - rows_before;
        assert_int_equal(rows, (20 + stop + 1) + (40 + 2));
    }
    engine_rig_close(&rig);
}

/* Slot 1 is cancelled in each turn of its life, and used again at once. */
static void test_a_cancel_at_every_moment(void **state)
{
    (void)state;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        for (uint32_t moment = 0; moment < 40; moment++) {
            struct engine_rig rig;
            struct engine_rig_options options = engine_rig_defaults();
            engine_rig_set_overlap(&options, overlap);
            options.kv_blocks[0] = 10; /* they preempt each other */
            options.max_sequences = 3;
            engine_rig_open(&rig, &options);
            struct test_request requests[3] = {test_request_of(prompt, 40, 30),
                                               test_request_of(prompt, 45, 25),
                                               test_request_of(prompt, 33, 20)};
            for (uint32_t slot = 0; slot < 3; slot++) {
                requests[slot].sampling.seed = slot;
                assert_true(test_frontend_submit(rig.frontend, slot, &requests[slot]));
            }
            for (uint32_t i = 0; i < moment; i++)
                turn(&rig);
            bool live = rig.frontend->replies[1].live;
            test_frontend_cancel(rig.frontend, 1);
            turn(&rig);
            assert_false(rig.frontend->replies[1].live);
            if (live)
                assert_int_equal(rig.frontend->replies[1].finish, FINISH_CANCELLED);
            engine_rig_check_reply(&rig, &requests[1], &rig.frontend->replies[1]);
            struct test_request other = test_request_of(prompt, 20, 20);
            assert_true(test_frontend_submit(rig.frontend, 1, &other));
            settle(&rig);
            engine_rig_check_reply(&rig, &requests[0], &rig.frontend->replies[0]);
            engine_rig_check_reply(&rig, &other, &rig.frontend->replies[1]);
            engine_rig_check_reply(&rig, &requests[2], &rig.frontend->replies[2]);
            engine_rig_close(&rig);
        }
    }
}

static void test_an_arrival_joins_the_step_that_is_launched_next(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    engine_rig_open(&rig, &options);
    struct test_request stream = test_request_of(prompt, 20, 60);
    struct test_request arrival = test_request_of(prompt, 10, 5);
    assert_true(test_frontend_submit(rig.frontend, 0, &stream));
    for (uint32_t i = 0; i < 5; i++)
        turn(&rig);
    assert_true(test_frontend_submit(rig.frontend, 1, &arrival));
    turn(&rig); /* launches its prompt after the step under way, which this turn reads */
    assert_int_equal(rig.frontend->replies[1].token_count, 0);
    turn(&rig);
    assert_int_equal(rig.frontend->replies[1].token_count, 1);
    settle(&rig);
    engine_rig_check_reply(&rig, &stream, &rig.frontend->replies[0]);
    engine_rig_check_reply(&rig, &arrival, &rig.frontend->replies[1]);
    engine_rig_close(&rig);
}

/* Number of steps for 8 streams of 30 tokens, one or all of them with a penalty. */
static struct fake_backend_totals run_with_penalties(uint32_t overlap, uint32_t penalized)
{
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_set_overlap(&options, overlap);
    engine_rig_open(&rig, &options);
    struct test_request requests[8];
    for (uint32_t slot = 0; slot < 8; slot++) {
        requests[slot] = test_request_of(prompt, 4, 30);
        requests[slot].sampling.seed = slot;
        if (slot < penalized)
            requests[slot].sampling.frequency_penalty = 0.5f;
        assert_true(test_frontend_submit(rig.frontend, slot, &requests[slot]));
    }
    settle(&rig);
    for (uint32_t slot = 0; slot < 8; slot++)
        engine_rig_check_reply(&rig, &requests[slot], &rig.frontend->replies[slot]);
    struct fake_backend_totals totals = fake_backend_totals(rig.backend);
    engine_rig_close(&rig);
    return totals;
}

static void test_penalties_wait_for_their_tokens_together(void **state)
{
    (void)state;
    struct fake_backend_totals plain = run_with_penalties(2, 0);
    assert_int_equal(plain.steps, 30);
    assert_int_equal(plain.steps_ahead, 29);
    for (uint32_t penalized = 1; penalized <= 8; penalized += 7) {
        /* As many steps as without overlap: no step has only some of the streams. */
        struct fake_backend_totals waiting = run_with_penalties(2, penalized);
        assert_int_equal(waiting.steps, 30);
        assert_int_equal(waiting.steps_ahead, 0);
        /* A backend that counts by itself does not wait. */
        struct fake_backend_totals counting = run_with_penalties(3, penalized);
        assert_int_equal(counting.steps, 30);
        assert_int_equal(counting.steps_ahead, 29);
    }
}

static void test_a_drain_reads_every_step(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    engine_rig_open(&rig, &options);
    uint32_t token;
    struct test_request request = test_request_of(prompt, 20, 2);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    settle(&rig);
    token = rig.frontend->replies[0].tokens[0];
    request = test_request_of(prompt, 20, 20);
    request.stop_ids = &token;
    request.stop_token_count = 1;
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    test_frontend_drain(rig.frontend);
    assert_int_equal(engine_rig_turn(&rig), STEP_WORKED); /* launched */
    assert_int_equal(engine_rig_turn(&rig), STEP_WORKED); /* stopped, one more row under way */
    test_frontend_collect(rig.frontend);
    assert_false(rig.frontend->replies[0].live);
    assert_int_equal(engine_rig_turn(&rig), STEP_WORKED);
    assert_int_equal(engine_rig_turn(&rig), STEP_DRAINED);
    engine_rig_close(&rig);
}

static void test_a_full_event_ring_leaves_the_steps_under_way(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = overlapping();
    options.event_capacity = 8;
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 4, 30);
    for (uint32_t slot = 0; slot < 8; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    engine_rig_turn(&rig);
    engine_rig_turn(&rig);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(engine_rig_turn(&rig), STEP_BLOCKED);
    assert_int_equal(fake_backend_totals(rig.backend).steps, 2);
    assert_true(on_roster(&rig, 7));
    test_frontend_cancel(rig.frontend, 3);
    engine_rig_finish(&rig, 2000);
    for (uint32_t slot = 0; slot < 8; slot++)
        engine_rig_check_reply(&rig, &request, &rig.frontend->replies[slot]);
    settle(&rig);
    engine_rig_close(&rig);
}

static void test_a_failing_backend_ends_the_turn(void **state)
{
    (void)state;
    for (uint32_t turns = 1; turns < 6; turns++) {
        for (uint32_t launching = 0; launching < 2; launching++) {
            struct engine_rig rig;
            struct engine_rig_options options = overlapping();
            engine_rig_open(&rig, &options);
            struct test_request request = test_request_of(prompt, 30, 20);
            assert_true(test_frontend_submit(rig.frontend, 1, &request));
            for (uint32_t i = 0; i < turns; i++)
                turn(&rig);
            if (launching)
                fake_backend_fail_launch(rig.backend, RESULT_IO);
            else
                fake_backend_fail_wait(rig.backend, RESULT_IO);
            enum step_outcome outcome;
            struct error_text error;
            assert_int_equal(step_loop_turn(rig.engine, &outcome, &error), RESULT_IO);
            assert_true(on_roster(&rig, 1));
            engine_rig_close(&rig);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stream_overlaps_with_itself),
        cmocka_unit_test(test_prompts_overlap_too),
        cmocka_unit_test(test_a_stop_token_while_the_next_row_is_under_way),
        cmocka_unit_test(test_a_cancel_at_every_moment),
        cmocka_unit_test(test_an_arrival_joins_the_step_that_is_launched_next),
        cmocka_unit_test(test_penalties_wait_for_their_tokens_together),
        cmocka_unit_test(test_a_drain_reads_every_step),
        cmocka_unit_test(test_a_full_event_ring_leaves_the_steps_under_way),
        cmocka_unit_test(test_a_failing_backend_ends_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
