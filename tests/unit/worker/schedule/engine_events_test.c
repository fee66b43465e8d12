/*
 * A frontend that does not read: the worker keeps its events, launches no step, and continues
 * without loss when there is room again. The bell rings once for all events of a step, and not
 * while the frontend is awake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/engine_rig.h"

static uint32_t prompt[100];

static void test_a_full_event_ring_stops_the_steps(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.event_capacity = 8;
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 10, 30);
    for (uint32_t slot = 0; slot < 8; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    engine_rig_turn(&rig);
    for (uint32_t turn = 0; turn < 50; turn++)
        assert_int_equal(engine_rig_turn(&rig), STEP_BLOCKED);
    uint64_t steps = fake_backend_totals(rig.backend).steps;
    assert_int_equal(steps, 1);
    /* No commands are taken either, so the kept events stay bounded. */
    test_frontend_cancel(rig.frontend, 3);
    assert_int_equal(engine_rig_turn(&rig), STEP_BLOCKED);
    assert_non_null(sequence_table_find(rig.engine->table, rig.frontend->replies[3].id));
    engine_rig_finish(&rig, 2000);
    for (uint32_t slot = 0; slot < 8; slot++)
        engine_rig_check_reply(&rig, &request, &rig.frontend->replies[slot]);
    assert_int_equal(rig.frontend->replies[3].finish, FINISH_CANCELLED);
    engine_rig_close(&rig);
}

static uint64_t rings_of(struct engine_rig *rig)
{
    uint64_t count = 0;
    return read(rig->frontend->pair.event_bell.event_fd, &count, sizeof count) == sizeof count
               ? count
               : 0;
}

static void test_a_step_rings_at_most_once(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 4, 30);
    for (uint32_t slot = 0; slot < 8; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    engine_rig_turn(&rig);
    assert_int_equal(rings_of(&rig), 0); /* the frontend is awake */
    assert_int_equal(test_frontend_collect(rig.frontend), 8 * 3);
    doorbell_prepare_sleep(&rig.frontend->pair.event_bell);
    engine_rig_turn(&rig);
    engine_rig_turn(&rig);
    assert_int_equal(rings_of(&rig), 1);
    engine_rig_finish(&rig, 100);
    engine_rig_close(&rig);
}

static void test_gauges_follow(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.max_sequences = 2;
    engine_rig_open(&rig, &options);
    struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
    struct test_request request = test_request_of(prompt, 20, 5);
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    uint64_t beat = atomic_load(&gauges->heartbeat);
    engine_rig_turn(&rig);
    assert_true(atomic_load(&gauges->heartbeat) > beat);
    assert_int_equal(atomic_load(&gauges->running_sequences), 2);
    assert_int_equal(atomic_load(&gauges->waiting_sequences), 1);
    assert_int_equal(atomic_load(&gauges->kv_blocks_used), 3);
    assert_int_equal(atomic_load(&gauges->steps), 1);
    assert_int_equal(atomic_load(&gauges->prompt_tokens_total), 32);
    assert_int_equal(atomic_load(&gauges->generated_tokens_total), 1);
    engine_rig_finish(&rig, 100);
    engine_rig_turn(&rig);
    assert_int_equal(atomic_load(&gauges->running_sequences), 0);
    assert_int_equal(atomic_load(&gauges->kv_blocks_used), 0);
    assert_int_equal(atomic_load(&gauges->prompt_tokens_total), 60);
    assert_int_equal(atomic_load(&gauges->generated_tokens_total), 15);
    beat = atomic_load(&gauges->heartbeat);
    assert_int_equal(engine_rig_turn(&rig), STEP_IDLE);
    assert_int_equal(atomic_load(&gauges->heartbeat), beat); /* idle */
    engine_rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_event_ring_stops_the_steps),
        cmocka_unit_test(test_a_step_rings_at_most_once),
        cmocka_unit_test(test_gauges_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
