/*
 * Requests that the worker refuses, each with its own failure and without disturbing other
 * requests: too long for the context, too long for the pools, images for a model that takes none, a
 * slot in use, ids outside the vocabulary, a draining worker, bytes that are no record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/log.h"
#include "proto/submit_payload.h"
#include "tests/support/engine_rig.h"

#include "tests/support/test_random.h"

static uint32_t prompt[2000];

static enum result failure_of(struct engine_rig *rig, const struct test_request *request)
{
    assert_true(test_frontend_submit(rig->frontend, 9, request));
    engine_rig_finish(rig, 2000);
    assert_int_equal(payload_slab_used_bytes(rig->frontend->slab), 0);
    return rig->frontend->replies[9].failure;
}

static void test_sizes(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = 20; /* 320 positions */
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 1024, 1);
    assert_int_equal(failure_of(&rig, &request), RESULT_CONTEXT_EXCEEDED);
    request = test_request_of(prompt, 321, 1);
    assert_int_equal(failure_of(&rig, &request), RESULT_TOO_LARGE);
    request = test_request_of(prompt, 320, 100);
    assert_int_equal(failure_of(&rig, &request), RESULT_OK);
    assert_int_equal(rig.frontend->replies[9].token_count, 1);
    assert_int_equal(rig.frontend->replies[9].finish, FINISH_LENGTH);
    request = test_request_of(prompt, 300, 1000);
    assert_int_equal(failure_of(&rig, &request), RESULT_OK);
    assert_int_equal(rig.frontend->replies[9].token_count, 21);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[9]);
    engine_rig_close(&rig);
}

/* Good and bad records with images for a model that takes none. */
static void test_images_without_vision(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct {
        struct image_record record;
        uint8_t pixels[64];
    } part = {.record = {.content_hash = {1},
                         .width = 2,
                         .height = 2,
                         .tiles = 1,
                         .first_token = 3,
                         .span_tokens = 2,
                         .token_count = 2,
                         .scale = {1, 1, 1}}};
    struct test_request request = test_request_of(prompt, 5, 1);
    request.image_part = (const uint8_t *)&part;
    request.image_bytes = image_record_place(&part.record, 1);
    request.image_count = 1;
    assert_int_equal(failure_of(&rig, &request), RESULT_UNSUPPORTED);
    part.record.span_tokens = 3;
    assert_int_equal(failure_of(&rig, &request), RESULT_CORRUPT);
    part.record.first_token = 2; /* all ids are the same: one placeholder too many */
    assert_int_equal(failure_of(&rig, &request), RESULT_INVALID);
    engine_rig_close(&rig);
}

/* It is never answered as if it had none. */
static void test_a_grammar(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 5, 3);
    request.grammar = "blob";
    request.grammar_bytes = 4;
    assert_int_equal(failure_of(&rig, &request), RESULT_CORRUPT); /* before the vocabulary */
    assert_int_equal(rig.frontend->replies[9].token_count, 0);
    test_frontend_send_bytes(rig.frontend);
    assert_int_equal(failure_of(&rig, &request), RESULT_CORRUPT); /* no blob */
    assert_int_equal(rig.frontend->replies[9].token_count, 0);
    engine_rig_close(&rig);
}

static void test_foreign_ids(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    const uint32_t beyond[1] = {options.vocab_tokens};
    struct test_request request = test_request_of(prompt, 3, 1);
    request.prompt = beyond;
    request.prompt_tokens = 1;
    assert_int_equal(failure_of(&rig, &request), RESULT_INVALID);
    request = test_request_of(prompt, 3, 1);
    request.stop_ids = beyond;
    request.stop_token_count = 1;
    assert_int_equal(failure_of(&rig, &request), RESULT_INVALID);
    request = test_request_of(prompt, 3, 1);
    struct logit_bias_entry bias = {.token = options.vocab_tokens, .bias = 1.0f};
    request.logit_bias = &bias;
    request.logit_bias_count = 1;
    assert_int_equal(failure_of(&rig, &request), RESULT_INVALID);
    bias = (struct logit_bias_entry){.token = 0, .bias = 100.5f};
    assert_int_equal(failure_of(&rig, &request), RESULT_INVALID);
    bias.bias = -100.0f;
    assert_int_equal(failure_of(&rig, &request), RESULT_OK);
    request.sampling.temperature = 3.0f;
    assert_int_equal(failure_of(&rig, &request), RESULT_CORRUPT);
    engine_rig_close(&rig);
}

static void test_a_slot_in_use(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 30, 20);
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    engine_rig_turn(&rig);
    /* The frontend reuses running slot 1 with a new generation. */
    struct test_reply forgotten = rig.frontend->replies[1];
    rig.frontend->replies[1].live = false;
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    engine_rig_turn(&rig);
    test_frontend_collect(rig.frontend);
    assert_int_equal(rig.frontend->replies[1].failure, RESULT_STALE);
    assert_non_null(sequence_table_find(rig.engine->table, forgotten.id));
    while (sequence_table_running(rig.engine->table) > 0)
        engine_rig_turn(&rig);
    engine_rig_close(&rig);
}

static void test_a_draining_worker(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    options.max_sequences = 1;
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 30, 20);
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    assert_true(test_frontend_submit(rig.frontend, 2, &request));
    test_frontend_drain(rig.frontend);
    assert_true(test_frontend_submit(rig.frontend, 3, &request));
    enum step_outcome outcome = STEP_WORKED;
    for (uint32_t turn = 0; turn < 100 && outcome != STEP_DRAINED; turn++)
        outcome = engine_rig_turn(&rig);
    assert_int_equal(outcome, STEP_DRAINED);
    test_frontend_collect(rig.frontend);
    assert_int_equal(rig.frontend->live_count, 0);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[1]);
    engine_rig_check_reply(&rig, &request, &rig.frontend->replies[2]); /* it waited */
    assert_int_equal(rig.frontend->replies[3].failure, RESULT_FULL);
    assert_int_equal(atomic_load(&rig.frontend->pair.segment.gauges->state), WORKER_DRAINING);
    engine_rig_close(&rig);
}

static void test_noise_changes_no_request(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_random random = {.state = 77};
    struct test_request request = test_request_of(prompt, 100, 300);
    for (uint32_t slot = 0; slot < 4; slot++)
        assert_true(test_frontend_submit(rig.frontend, slot, &request));
    for (uint32_t round = 0; round < 3000; round++) {
        struct submit_record record;
        test_random_fill(&random, &record, sizeof record);
        record.kind = test_random_below(&random, 8) ? SUBMIT_RUN : record.kind % 5;
        record.request.slot = 100 + record.request.slot % 5000;
        if (record.kind == SUBMIT_DRAIN)
            record.kind = SUBMIT_CANCEL;
        if (round % 2) { /* closer to a good record: only the payload is a lie */
            record = (struct submit_record){.kind = SUBMIT_RUN,
                                            .request = record.request,
                                            .run.prompt_tokens = 1 + test_random_below(&random, 50),
                                            .run.max_new_tokens = 1,
                                            .run.sampling = sampling_params_default()};
            record.request.slot %= LIMIT_LIVE_REQUESTS;
            record.payload_bytes = submit_payload_bytes(&record.run);
            record.payload_offset = test_random_edgy(&random) & ~63ull;
            record.payload_generation = (uint32_t)test_random_edgy(&random);
        }
        test_frontend_send(rig.frontend, &record);
        engine_rig_turn(&rig);
        test_frontend_collect(rig.frontend);
    }
    engine_rig_finish(&rig, 2000);
    for (uint32_t slot = 0; slot < 4; slot++)
        engine_rig_check_reply(&rig, &request, &rig.frontend->replies[slot]);
    assert_true(atomic_load(&rig.frontend->pair.segment.gauges->rejected_records_total) > 2000);
    engine_rig_close(&rig);
}

static void test_a_failing_backend_ends_the_turn(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_open(&rig, &options);
    struct test_request request = test_request_of(prompt, 30, 20);
    assert_true(test_frontend_submit(rig.frontend, 1, &request));
    fake_backend_fail_launch(rig.backend, RESULT_IO);
    enum step_outcome outcome;
    struct error_text error;
    assert_int_equal(step_loop_turn(rig.engine, &outcome, &error), RESULT_IO);
    engine_rig_close(&rig);
}

static void test_a_corrupt_ring_ends_the_turn(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    enum step_outcome outcome;
    engine_rig_open(&rig, &options);
    atomic_store(&rig.frontend->pair.segment.submit_shared->tail, 5000);
    assert_int_equal(step_loop_turn(rig.engine, &outcome, NULL), RESULT_CORRUPT);
    engine_rig_close(&rig);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_images_without_vision),
        cmocka_unit_test(test_a_grammar),
        cmocka_unit_test(test_foreign_ids),
        cmocka_unit_test(test_a_slot_in_use),
        cmocka_unit_test(test_a_draining_worker),
        cmocka_unit_test(test_noise_changes_no_request),
        cmocka_unit_test(test_a_failing_backend_ends_the_turn),
        cmocka_unit_test(test_a_corrupt_ring_ends_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
