/*
 * The states of a request, and the slots of the table.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "frontend/serve/engine/request_table.h"

static const struct live_request_sink sink;

static struct prepared_generation prepared_of(uint32_t max_new_tokens)
{
    struct prepared_generation prepared = {.max_new_tokens = max_new_tokens};
    prepared.prompt.ids = calloc(3, sizeof(uint32_t));
    prepared.prompt.count = prepared.prompt.capacity = 3;
    return prepared;
}

static struct live_request *admitted(struct request_table *table)
{
    struct live_request *request = request_table_take(table);
    assert_non_null(request);
    live_request_admit(request, &sink, NULL, 1000);
    live_request_prepare(request, (struct prepare_job *)(uintptr_t)8);
    return request;
}

static struct live_request *submitted(struct request_table *table)
{
    struct live_request *request = admitted(table);
    struct prepared_generation prepared = prepared_of(4);
    live_request_queue(request, &prepared);
    live_request_submit(request, 0);
    return request;
}

static void a_request_before_the_worker_frees_its_slot_at_once(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(2);
    struct live_request *request = admitted(table);
    struct request_id id = request->id;
    assert_ptr_equal(request_table_find(table, id), request);
    assert_int_equal(request_table_live(table), 1);
    assert_false(live_request_is_with_worker(request));
    assert_true(live_request_leave(request));
    request_table_give(table, request);
    assert_null(request_table_find(table, id));
    assert_int_equal(request_table_live(table), 0);
    request_table_destroy(table);
}

static void a_submitted_request_keeps_its_slot_until_the_last_event(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    struct request_id id = request->id;
    assert_int_equal(live_request_token(request, 5, 0, 1500), RESULT_OK);
    assert_int_equal(request->state, LIVE_REQUEST_STREAMING);
    assert_false(live_request_leave(request));
    assert_int_equal(request->state, LIVE_REQUEST_LEAVING);
    assert_null(request->sink);
    assert_null(request_table_take(table)); /* the slot is not reused meanwhile */
    assert_ptr_equal(request_table_find(table, id), request);
    request->dirty = request->complete = request->ended = true; /* during a batch */
    live_request_worker_done(request);
    assert_false(request->dirty || request->complete || request->ended);
    request_table_give(table, request);
    assert_null(request_table_find(table, id)); /* a stale event finds nothing */
    struct live_request *next = request_table_take(table);
    assert_ptr_equal(next, request);
    assert_int_not_equal(next->id.generation, id.generation);
    request_table_give(table, next);
    request_table_destroy(table);
}

static void tokens_are_journalled_in_order(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(live_request_token(request, 100 + i, i, 2000), RESULT_OK);
    assert_int_equal(request->generated.count, 4);
    assert_int_equal(request->generated.ids[3], 103);
    request_table_destroy(table);
}

static void gaps_repeats_and_excess_tokens_are_corrupt(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    assert_int_equal(live_request_token(request, 1, 1, 0), RESULT_CORRUPT);
    assert_int_equal(live_request_token(request, 1, 0, 0), RESULT_OK);
    assert_int_equal(live_request_token(request, 1, 0, 0), RESULT_CORRUPT);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(live_request_token(request, 1, i, 0), RESULT_OK);
    assert_int_equal(live_request_token(request, 1, 4, 0), RESULT_CORRUPT);
    request_table_destroy(table);
}

static void a_requeued_request_keeps_its_journal(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    struct request_id id = request->id;
    assert_int_equal(live_request_token(request, 7, 0, 2000), RESULT_OK);
    assert_int_equal(live_request_token(request, 8, 1, 2100), RESULT_OK);
    live_request_requeue(request);
    assert_int_equal(request->state, LIVE_REQUEST_WAITING);
    assert_false(live_request_is_with_worker(request));
    assert_ptr_equal(request_table_find(table, id), request); /* the same request */
    assert_int_equal(request->generated.count, 2);
    live_request_submit(request, 3);
    assert_int_equal(request->worker, 3);
    assert_int_equal(request->state, LIVE_REQUEST_SUBMITTED);
    assert_int_equal(live_request_token(request, 8, 1, 2200),
                     RESULT_CORRUPT); /* already received */
    assert_int_equal(live_request_token(request, 9, 2, 2300), RESULT_OK);
    assert_int_equal(request->timeline.first_token_us, 2000);
    assert_int_equal(request->timeline.last_token_us, 2300);
    request_table_destroy(table);
}

static void alternatives_are_limited_and_descending(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    const struct token_logprob pairs[] = {{5, -1.0f}, {6, -2.0f}, {7, -2.0f}};
    assert_int_equal(live_request_alternatives(request, pairs, 1), RESULT_CORRUPT); /* unasked */
    request->prepared.request.top_logprobs = 3;
    assert_int_equal(live_request_alternatives(request, pairs, 2), RESULT_OK);
    assert_int_equal(live_request_alternatives(request, pairs, 1), RESULT_CORRUPT); /* ascends */
    assert_int_equal(live_request_alternatives(request, pairs + 1, 2), RESULT_CORRUPT); /* many */
    assert_int_equal(live_request_alternatives(request, pairs + 2, 1), RESULT_OK);
    assert_int_equal(request->alternative_count, 3);
    assert_memory_equal(request->alternatives, pairs, sizeof pairs);
    live_request_requeue(request); /* the worker died before it told their token */
    assert_int_equal(request->alternative_count, 0);
    live_request_submit(request, 1);
    assert_int_equal(live_request_alternatives(request, pairs, 3), RESULT_OK);
    request_table_destroy(table);
}

static void prompt_tokens_come_in_order_and_before_the_answer(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    const struct token_logprob pairs[] = {{5, -1.0f}, {6, -2.0f}};
    assert_int_equal(live_request_prompt_token(request, 8, 1), RESULT_CORRUPT); /* unasked */
    request->prepared.request.scores_prompt = true;
    request->prepared.request.top_prompt_logprobs = 2;
    request->prepared.prompt.ids[1] = 8;
    request->prepared.prompt.ids[2] = 9;
    assert_int_equal(live_request_prompt_token(request, 0, 0), RESULT_CORRUPT); /* has none */
    assert_int_equal(live_request_prompt_token(request, 9, 2), RESULT_CORRUPT); /* a gap */
    assert_int_equal(live_request_prompt_token(request, 7, 1), RESULT_CORRUPT); /* another token */
    assert_int_equal(live_request_alternatives(request, pairs, 2), RESULT_OK);
    assert_int_equal(live_request_alternatives(request, pairs + 1, 1), RESULT_CORRUPT); /* many */
    assert_int_equal(live_request_prompt_token(request, 8, 1), RESULT_OK);
    live_request_forget_alternatives(request);
    assert_int_equal(live_request_prompt_token(request, 8, 1), RESULT_CORRUPT); /* a repeat */
    assert_int_equal(live_request_token(request, 1, 0, 0), RESULT_CORRUPT);     /* one is missing */
    live_request_requeue(request); /* what came stays */
    live_request_submit(request, 1);
    assert_int_equal(request->scored_tokens, 1);
    assert_int_equal(live_request_prompt_token(request, 9, 2), RESULT_OK);
    assert_int_equal(live_request_prompt_token(request, 0, 3), RESULT_CORRUPT);     /* too many */
    assert_int_equal(live_request_alternatives(request, pairs, 1), RESULT_CORRUPT); /* unasked */
    assert_int_equal(live_request_token(request, 1, 0, 0), RESULT_OK);
    request_table_destroy(table);
}

static void a_request_without_tokens_can_be_requeued(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(1);
    struct live_request *request = submitted(table);
    live_request_requeue(request);
    live_request_submit(request, 1);
    assert_int_equal(live_request_token(request, 1, 0, 0), RESULT_OK);
    live_request_requeue(request);
    assert_true(live_request_leave(request)); /* its client goes while it waits */
    request_table_give(table, request);
    assert_int_equal(request_table_live(table), 0);
    request_table_destroy(table);
}

static void unknown_ids_find_nothing(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(2);
    struct live_request *request = admitted(table);
    struct request_id id = request->id;
    assert_null(request_table_find(table, (struct request_id){id.slot + 1, id.generation}));
    assert_null(request_table_find(table, (struct request_id){id.slot, id.generation + 1}));
    assert_null(request_table_find(table, (struct request_id){UINT32_MAX, id.generation}));
    request_table_destroy(table);
}

static void the_table_is_bounded(void **state)
{
    (void)state;
    struct request_table *table = request_table_create(3);
    for (int i = 0; i < 3; i++)
        (void)admitted(table);
    assert_null(request_table_take(table));
    assert_int_equal(request_table_count(table, LIVE_REQUEST_PREPARING), 3);
    request_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_before_the_worker_frees_its_slot_at_once),
        cmocka_unit_test(a_submitted_request_keeps_its_slot_until_the_last_event),
        cmocka_unit_test(tokens_are_journalled_in_order),
        cmocka_unit_test(gaps_repeats_and_excess_tokens_are_corrupt),
        cmocka_unit_test(a_requeued_request_keeps_its_journal),
        cmocka_unit_test(alternatives_are_limited_and_descending),
        cmocka_unit_test(prompt_tokens_come_in_order_and_before_the_answer),
        cmocka_unit_test(a_request_without_tokens_can_be_requeued),
        cmocka_unit_test(unknown_ids_find_nothing),
        cmocka_unit_test(the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
