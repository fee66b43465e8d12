/*
 * A cancel takes effect before the next step in every state of a sequence: waiting, within its
 * prompt, decoding, preempted, or already finished.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/engine_rig.h"

static uint32_t prompt[200];

static const struct sequence *sequence_of(struct engine_rig *rig, uint32_t slot)
{
    return sequence_table_find(rig->engine->table, rig->frontend->replies[slot].id);
}

/* One turn ends it and gives back all of its memory. */
static void cancel_and_check(struct engine_rig *rig, uint32_t slot, uint64_t blocks_after)
{
    test_frontend_cancel(rig->frontend, slot);
    engine_rig_turn(rig);
    assert_null(sequence_of(rig, slot));
    assert_int_equal(kv_pools_used(&rig->engine->pools), blocks_after);
    test_frontend_collect(rig->frontend);
    assert_false(rig->frontend->replies[slot].live);
    assert_int_equal(rig->frontend->replies[slot].finish, FINISH_CANCELLED);
}

static void test_in_prefill(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 200, 5);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    engine_rig_turn(&rig);
    assert_int_equal(sequence_of(&rig, 0)->state, SEQUENCE_PREFILL);
    assert_int_equal(sequence_of(&rig, 0)->computed_tokens, 32);
    cancel_and_check(&rig, 0, 0);
    test_frontend_cancel(rig.frontend, 0); /* gone already: no second answer */
    engine_rig_turn(&rig);
    assert_int_equal(test_frontend_collect(rig.frontend), 0);
    engine_rig_close(&rig);
}

static void test_in_decode(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 20, 50);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    for (uint32_t i = 0; i < 5; i++)
        engine_rig_turn(&rig);
    assert_int_equal(sequence_of(&rig, 0)->state, SEQUENCE_DECODE);
    cancel_and_check(&rig, 0, 0);
    assert_int_equal(rig.frontend->replies[0].token_count, 5);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[0]);
    engine_rig_close(&rig);
}

static void test_before_it_is_admitted(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.max_sequences = 1;
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 10, 50);
    for (uint32_t slot = 0; slot < 4; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    engine_rig_turn(&rig);
    /* The middle, the end and then the head of the queue. */
    assert_int_equal(sequence_of(&rig, 2)->state, SEQUENCE_WAITING);
    cancel_and_check(&rig, 2, 1);
    cancel_and_check(&rig, 3, 1);
    cancel_and_check(&rig, 1, 1);
    assert_int_equal(sequence_table_waiting(rig.engine->table), 0);
    /* In the same breath as the submission. */
    assert_true(test_frontend_submit(rig.frontend, 5, &request));
    cancel_and_check(&rig, 5, 1);
    engine_rig_finish(&rig, 100);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[0]);
    engine_rig_close(&rig);
}

static void test_while_preempted(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 6;
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 20, 60);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    for (uint32_t i = 0; i < 60 && engine_rig_preemptions(&rig) == 0; i++)
        engine_rig_turn(&rig);
    assert_int_equal(sequence_of(&rig, 1)->state, SEQUENCE_PREEMPTED);
    uint64_t used = kv_pools_used(&rig.engine->pools);
    cancel_and_check(&rig, 1, used);
    assert_true(rig.frontend->replies[1].token_count > 0);
    engine_rig_finish(&rig, 100);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[0]);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[1]);
    engine_rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_prefill),
        cmocka_unit_test(test_in_decode),
        cmocka_unit_test(test_before_it_is_admitted),
        cmocka_unit_test(test_while_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
