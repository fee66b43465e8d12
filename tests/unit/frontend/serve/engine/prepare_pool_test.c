/*
 * Jobs run on threads and call back on the loop; dropped jobs do not.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/base/cancel_flag.h"
#include "frontend/serve/engine/prepare_pool.h"
#include "tests/support/tiny_assets.h"

static struct model_assets assets;
static struct event_base *base;
static struct prepare_pool *pool;

struct outcome {
    int calls;
    enum result result;
    int status;
    size_t prompt_tokens;
    uint32_t first_token;
};

static int setup(void **state)
{
    (void)state;
    static const char template[] = "{{ messages[0].content }}";
    tiny_assets_open(&assets, template);
    assets.eos_text = "";
    assets.context_tokens = 64;
    base = event_base_new();
    pool = prepare_pool_create(&(struct prepare_pool_config){
        .base = base, .threads = 2, .network_threads = 1, .deadline_ms = 60000});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    prepare_pool_destroy(pool);
    event_base_free(base);
    tiny_assets_close(&assets);
    return 0;
}

static void on_done(void *context, enum result result, struct prepared_generation *prepared,
                    const struct api_error *error)
{
    struct outcome *outcome = context;
    outcome->calls++;
    outcome->result = result;
    if (result != RESULT_OK) {
        outcome->status = error->status;
        return;
    }
    outcome->prompt_tokens = prepared->prompt.count;
    outcome->first_token = prepared->prompt.ids[0];
    prepared_generation_fini(prepared);
}

static struct prepare_job *submit(const char *body, struct outcome *outcome)
{
    struct prepare_input input = {
        .body = strdup(body), .body_bytes = strlen(body), .format = &chat_format};
    return prepare_pool_submit(pool, &assets, &input, on_done, outcome);
}

/* Some minutes, reached only by a failing test. */
static void wait_for(const struct outcome *outcome)
{
    for (int i = 0; i < 1000000 && outcome->calls == 0; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(200);
    }
}

static void jobs_come_back_with_prompts_or_refusals(void **state)
{
    (void)state;
    struct outcome good = {0};
    struct outcome bad = {0};
    submit("{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", &good);
    submit("{", &bad);
    wait_for(&good);
    wait_for(&bad);
    assert_int_equal(good.result, RESULT_OK);
    assert_int_equal(good.prompt_tokens, 3);
    assert_int_equal(good.first_token, 'a');
    assert_int_equal(bad.result, RESULT_INVALID);
    assert_int_equal(bad.status, 400);
}

static void many_jobs_all_come_back_once(void **state)
{
    (void)state;
    enum { JOBS = 300 };
    static struct outcome outcomes[JOBS];
    memset(outcomes, 0, sizeof outcomes);
    for (int i = 0; i < JOBS; i++) {
        char body[100];
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%.*s\"}]}",
                 i % 20 + 1, "aaaaaaaaaaaaaaaaaaaa");
        submit(body, &outcomes[i]);
    }
    for (int i = 0; i < JOBS; i++) {
        wait_for(&outcomes[i]);
        assert_int_equal(outcomes[i].calls, 1);
        assert_int_equal(outcomes[i].prompt_tokens, i % 20 + 1);
    }
}

static void dropped_jobs_do_not_call_back(void **state)
{
    (void)state;
    enum { JOBS = 100 };
    static struct outcome outcomes[JOBS];
    struct prepare_job *jobs[JOBS];
    memset(outcomes, 0, sizeof outcomes);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = submit("{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", &outcomes[i]);
    /* Some wait, some run, some have finished: no callback ran yet, for the loop did not turn. */
    for (int i = 0; i < JOBS; i += 2)
        prepare_pool_drop(pool, jobs[i]);
    for (int i = 1; i < JOBS; i += 2)
        wait_for(&outcomes[i]);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(outcomes[i].calls, i % 2);
}

static void destroying_the_pool_frees_all_jobs(void **state)
{
    (void)state;
    static struct outcome outcomes[50];
    for (int i = 0; i < 50; i++)
        submit("{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", &outcomes[i]);
    /* teardown() destroys it with jobs in every state; the sanitizers watch. */
    assert_int_equal(outcomes[49].calls, 0);
}

/* Works until it is cancelled, as a long prompt does. */
static enum result work_until_cancelled(const struct parse_context *context, const char *body,
                                        size_t body_bytes, int64_t now_unix_s,
                                        struct text_buffer *reply, struct api_error *error)
{
    (void)body;
    (void)body_bytes;
    (void)now_unix_s;
    (void)reply;
    while (!cancel_flag_is_set(context->cancelled))
        usleep(1000);
    return api_error_set(error, RESULT_CANCELLED, 503, NULL, "cancelled");
}

static void on_timed_out(void *context, enum result result, const struct text_buffer *reply,
                         const struct api_error *error)
{
    struct outcome *outcome = context;
    (void)reply;
    outcome->calls++;
    outcome->result = result;
    outcome->status = error->status;
    assert_string_equal(error->code, "preparation_deadline");
}

static struct prepare_job *submit_endless(struct outcome *outcome)
{
    struct prepare_input input = {.body = strdup("{}"), .body_bytes = 2};
    return prepare_pool_inspect(pool, &assets, &input, work_until_cancelled, on_timed_out, outcome);
}

static void wait_for_busy(uint32_t threads)
{
    struct prepare_figures figures = {.busy_threads = UINT32_MAX};
    for (int i = 0; i < 1000000 && figures.busy_threads != threads; i++) {
        usleep(200);
        prepare_pool_read(pool, &figures);
    }
    assert_int_equal(figures.busy_threads, threads);
}

static void a_job_past_the_deadline_gets_503(void **state)
{
    (void)state;
    prepare_pool_destroy(pool);
    pool = prepare_pool_create(
        &(struct prepare_pool_config){.base = base, .threads = 2, .deadline_ms = 1});
    struct outcome outcomes[3] = {0};
    for (int i = 0; i < 3; i++) /* the third waits for a thread, which the deadline frees */
        submit_endless(&outcomes[i]);
    for (int i = 0; i < 3; i++) {
        wait_for(&outcomes[i]);
        assert_int_equal(outcomes[i].status, 503);
    }
    struct prepare_figures figures;
    prepare_pool_read(pool, &figures);
    assert_int_equal(figures.timed_out_total, 3);
    assert_int_equal(figures.cancelled_total, 0);
}

static void a_dropped_job_frees_its_thread(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    struct prepare_job *first = submit_endless(&outcome);
    struct prepare_job *second = submit_endless(&outcome);
    wait_for_busy(2);
    prepare_pool_drop(pool, first);
    prepare_pool_drop(pool, second);
    wait_for_busy(0);
    struct prepare_figures figures;
    prepare_pool_read(pool, &figures);
    assert_int_equal(figures.cancelled_total, 2);
    assert_int_equal(outcome.calls, 0);
}

static void destroying_the_pool_ends_jobs_of_busy_lanes(void **state)
{
    (void)state;
    struct outcome outcome = {0};
    for (int i = 0; i < 5; i++)
        submit_endless(&outcome);
    wait_for_busy(2); /* teardown() would never return */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static enum result count_bytes(const struct parse_context *context, const char *body,
                               size_t body_bytes, int64_t now_unix_s, struct text_buffer *reply,
                               struct api_error *error)
{
    if (body_bytes == 0)
        return api_error_invalid(error, "", "nothing to count");
    assert_true(now_unix_s > 0);
    text_buffer_append_format(reply, "%s: %zu of %s", context->assets->model_id, body_bytes, body);
    return RESULT_OK;
}

static void on_inspected(void *context, enum result result, const struct text_buffer *reply,
                         const struct api_error *error)
{
    struct outcome *outcome = context;
    outcome->calls++;
    outcome->result = result;
    if (result == RESULT_OK)
        assert_string_equal(reply->bytes, "tiny: 3 of abc");
    else
        outcome->status = error->status;
}

static struct prepare_job *inspect(const char *body, struct outcome *outcome)
{
    struct prepare_input input = {.body = strdup(body), .body_bytes = strlen(body)};
    return prepare_pool_inspect(pool, &assets, &input, count_bytes, on_inspected, outcome);
}

static void an_inspection_writes_its_answer(void **state)
{
    (void)state;
    struct outcome good = {0};
    struct outcome bad = {0};
    struct outcome dropped = {0};
    inspect("abc", &good);
    inspect("", &bad);
    prepare_pool_drop(pool, inspect("abc", &dropped));
    wait_for(&good);
    wait_for(&bad);
    assert_int_equal(good.result, RESULT_OK);
    assert_int_equal(bad.result, RESULT_INVALID);
    assert_int_equal(bad.status, 400);
    assert_int_equal(dropped.calls, 0);
}

/* --- lanes ----------------------------------------------------------------------------------- */

static atomic_int held;       /* threads that hold() keeps */
static atomic_bool may_leave; /* what they wait for, or for their cancellation */
static atomic_int cancelled;  /* of them, those that were cancelled */

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

/* As a request with images that are decoded for ever. */
static enum result hold(const struct parse_context *context, const char *body, size_t body_bytes,
                        int64_t now_unix_s, struct text_buffer *reply, struct api_error *error)
{
    (void)body;
    (void)body_bytes;
    (void)now_unix_s;
    (void)reply;
    if (*context->lane < PREPARATION_IMAGES) {
        *context->lane = PREPARATION_IMAGES;
        return RESULT_CANCELLED;
    }
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&may_leave) && !atomic_load(context->cancelled))
        pause_ms(1);
    atomic_fetch_add(&cancelled, atomic_load(context->cancelled));
    atomic_fetch_sub(&held, 1);
    return api_error_invalid(error, "", "held");
}

static struct prepare_job *submit_held(struct outcome *outcome)
{
    struct prepare_input input = {.body = strdup("abc"), .body_bytes = 3};
    return prepare_pool_inspect(pool, &assets, &input, hold, on_inspected, outcome);
}

static void wait_until_held(int count)
{
    for (int i = 0; i < 200000 && atomic_load(&held) != count; i++)
        pause_ms(1);
    assert_int_equal(atomic_load(&held), count);
}

static void texts_do_not_wait_for_images(void **state)
{
    (void)state;
    enum { HELD = 6 }; /* more than all threads */
    static struct outcome outcomes[HELD];
    struct outcome text = {0};
    memset(outcomes, 0, sizeof outcomes);
    atomic_store(&may_leave, false);
    for (int i = 0; i < HELD; i++)
        submit_held(&outcomes[i]);
    wait_until_held(2);
    submit("{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", &text);
    wait_for(&text);
    assert_int_equal(text.result, RESULT_OK);
    assert_int_equal(atomic_load(&held), 2);
    atomic_store(&may_leave, true);
    for (int i = 0; i < HELD; i++) {
        wait_for(&outcomes[i]);
        assert_int_equal(outcomes[i].status, 400);
    }
}

static void a_dropped_job_is_cancelled_while_it_runs(void **state)
{
    (void)state;
    struct outcome dropped = {0};
    atomic_store(&may_leave, false);
    atomic_store(&cancelled, 0);
    struct prepare_job *job = submit_held(&dropped);
    wait_until_held(1);
    prepare_pool_drop(pool, job);
    wait_until_held(0);
    assert_int_equal(atomic_load(&cancelled), 1);
    assert_int_equal(dropped.calls, 0);
}

static void destroying_the_pool_cancels_what_runs(void **state)
{
    static struct outcome outcomes[2];
    memset(outcomes, 0, sizeof outcomes);
    atomic_store(&may_leave, false);
    atomic_store(&cancelled, 0);
    submit_held(&outcomes[0]);
    submit_held(&outcomes[1]);
    wait_until_held(2);
    teardown(state);
    assert_int_equal(atomic_load(&cancelled), 2);
    setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_come_back_with_prompts_or_refusals),
        TEST(many_jobs_all_come_back_once),
        TEST(dropped_jobs_do_not_call_back),
        TEST(destroying_the_pool_frees_all_jobs),
        TEST(a_job_past_the_deadline_gets_503),
        TEST(a_dropped_job_frees_its_thread),
        TEST(destroying_the_pool_ends_jobs_of_busy_lanes),
        TEST(an_inspection_writes_its_answer),
        TEST(texts_do_not_wait_for_images),
        TEST(a_dropped_job_is_cancelled_while_it_runs),
        TEST(destroying_the_pool_cancels_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
