/*
 * build/shoal-worker with a real model, spawned as the frontend does it: a request gets the same
 * tokens alone and batched, cancels and drains take effect, invalid records are answered with
 * errors, and settings that cannot work are refused with a reason.
 */
// tags: threads
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/spawned_worker.h"
#include "tests/support/test_random.h"

#define VOCAB      49152u
#define PROMPT_MAX 48u

static struct test_frontend *frontend;

static void start(const char *const *flags)
{
    struct test_frontend_sizes sizes = {.submit_capacity = 256,
                                        .event_capacity = 1024,
                                        .slab_bytes = 4u << 20,
                                        .vocab_tokens = VOCAB};
    frontend = test_frontend_create(&sizes);
    spawned_worker_start(frontend, SPAWNED_WORKER_MODEL, flags);
}

static void start_ready(const char *const *flags)
{
    start(flags);
    spawned_worker_await(frontend, WORKER_READY);
    struct worker_gauges *gauges = frontend->pair.segment.gauges;
    assert_int_equal(atomic_load(&gauges->vocab_tokens), VOCAB);
    assert_true(atomic_load(&gauges->context_tokens) > 0);
    assert_true(atomic_load(&gauges->load_total_bytes) > 0);
    assert_int_equal(atomic_load(&gauges->load_done_bytes), atomic_load(&gauges->load_total_bytes));
}

/* Drains, expects a clean exit and everything given back. */
static void stop(void)
{
    test_frontend_drain(frontend);
    int status = process_pair_reap(&frontend->pair);
    test_frontend_collect(frontend);
    assert_true(process_pair_clean(status));
    assert_int_equal(frontend->live_count, 0);
    assert_int_equal(payload_slab_used_bytes(frontend->slab), 0);
    assert_int_equal(atomic_load(&frontend->pair.segment.gauges->kv_blocks_used), 0);
    test_frontend_destroy(frontend);
}

struct owned_request {
    struct test_request request;
    uint32_t prompt[PROMPT_MAX];
    uint32_t tokens[64];
};

static void make_request(struct owned_request *owned, struct test_random *random)
{
    uint32_t prompt_tokens = 1 + test_random_below(random, PROMPT_MAX);
    for (uint32_t i = 0; i < prompt_tokens; i++)
        owned->prompt[i] = test_random_below(random, VOCAB);
    owned->request = (struct test_request){.prompt = owned->prompt,
                                           .prompt_tokens = prompt_tokens,
                                           .max_new_tokens = 8,
                                           .flags = SUBMIT_FLAG_IGNORE_END,
                                           .sampling = sampling_params_default()};
    struct sampling_params *sampling = &owned->request.sampling;
    sampling->seed = test_random_next(random);
    sampling->temperature = test_random_below(random, 3) ? 0.8f : 0.0f;
    sampling->top_k = test_random_below(random, 2) ? 40 : 0;
    sampling->repetition_penalty = test_random_below(random, 2) ? 1.1f : 1.0f;
}

static void finish(void)
{
    test_frontend_finish(frontend, PROCESS_PAIR_PATIENCE_MS);
}

/* The same requests once more, all together. */
static void check_in_company(const struct owned_request *owned, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(test_frontend_submit(frontend, i, &owned[i].request));
    finish();
    for (uint32_t i = 0; i < count; i++)
        assert_memory_equal(frontend->replies[i].tokens, owned[i].tokens, 8 * sizeof(uint32_t));
}

static void test_alone_and_in_company(void **state)
{
    (void)state;
    enum { REQUESTS = 6 };
    static struct owned_request owned[REQUESTS];
    struct test_random random = {.state = 5};
    /* A small pool, so that some are preempted too. */
    const char *const flags[] = {
        "--max-sequences",  "8",       "--step-tokens", "64", "--context", "128",
        "--kv-cache-bytes", "3000000", "--threads",     "2",  NULL};
    start_ready(flags);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        make_request(&owned[i], &random);
        assert_true(test_frontend_submit(frontend, i, &owned[i].request));
        finish();
        const struct test_reply *reply = &frontend->replies[i];
        assert_int_equal(reply->finish, FINISH_LENGTH);
        assert_int_equal(reply->token_count, 8);
        memcpy(owned[i].tokens, reply->tokens, 8 * sizeof(uint32_t));
    }
    check_in_company(owned, REQUESTS);

    /* A replay goes on with the same tokens. */
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t prompt[PROMPT_MAX + 3];
        struct test_request request = owned[i].request;
        memcpy(prompt, owned[i].prompt, request.prompt_tokens * sizeof(uint32_t));
        memcpy(prompt + request.prompt_tokens, owned[i].tokens, 3 * sizeof(uint32_t));
        request.prompt = prompt;
        request.prompt_tokens += 3;
        request.generated_tokens = 3;
        request.max_new_tokens = 5;
        assert_true(test_frontend_submit(frontend, i, &request));
        finish();
        assert_int_equal(frontend->replies[i].token_count, 5);
        assert_memory_equal(frontend->replies[i].tokens, owned[i].tokens + 3, 5 * sizeof(uint32_t));
    }
    stop();

    /* The same if steps are launched before the previous one is read. */
    const char *const overlapping[] = {"--max-sequences",
                                       "8",
                                       "--step-tokens",
                                       "64",
                                       "--context",
                                       "128",
                                       "--kv-cache-bytes",
                                       "3000000",
                                       "--threads",
                                       "2",
                                       "--step-depth",
                                       "2",
                                       NULL};
    start_ready(overlapping);
    check_in_company(owned, REQUESTS);
    stop();
}

static void test_cancel_and_drain(void **state)
{
    (void)state;
    struct test_random random = {.state = 6};
    static struct owned_request owned;
    const char *const flags[] = {"--kv-cache-bytes", "200000000", "--threads", "2", NULL};
    start_ready(flags);
    make_request(&owned, &random);
    owned.request.max_new_tokens = 2000;
    assert_true(test_frontend_submit(frontend, 1, &owned.request));
    assert_true(test_frontend_submit(frontend, 2, &owned.request));
    while (frontend->replies[1].token_count < 3)
        test_frontend_collect(frontend);
    test_frontend_cancel(frontend, 1);
    test_frontend_cancel(frontend, 2);
    finish();
    assert_int_equal(frontend->replies[1].finish, FINISH_CANCELLED);
    assert_int_equal(frontend->replies[2].finish, FINISH_CANCELLED);
    assert_true(frontend->replies[1].token_count < 1000);

    /* What was taken before a drain is finished; what comes after it is refused. */
    owned.request.max_new_tokens = 60;
    assert_true(test_frontend_submit(frontend, 3, &owned.request));
    test_frontend_drain(frontend);
    assert_true(test_frontend_submit(frontend, 4, &owned.request));
    finish();
    assert_int_equal(frontend->replies[3].finish, FINISH_LENGTH);
    assert_int_equal(frontend->replies[4].failure, RESULT_FULL);
    stop();
}

static void test_garbage_costs_nothing(void **state)
{
    (void)state;
    struct test_random random = {.state = 7};
    static struct owned_request owned;
    const char *const flags[] = {"--kv-cache-bytes", "200000000", "--threads", "2", NULL};
    start_ready(flags);
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            struct submit_record record;
            test_random_fill(&random, &record, sizeof record);
            if (i % 2) {
                record.kind = test_random_below(&random, 3); /* never a drain */
                record.request.slot = 100 + test_random_below(&random, 1000);
                record.run.flags &= SUBMIT_FLAG_ALL;
                record.run.prompt_tokens = (uint32_t)test_random_edgy(&random);
                record.payload_offset = test_random_edgy(&random);
            }
            if (record.kind == SUBMIT_DRAIN)
                record.kind = 0;
            while (spsc_ring_free(&frontend->pair.submit) == 0)
                test_frontend_collect(frontend);
            test_frontend_send(frontend, &record);
        }
        test_frontend_collect(frontend);
    }
    make_request(&owned, &random);
    owned.prompt[0] = VOCAB;
    assert_true(test_frontend_submit(frontend, 1, &owned.request));
    owned.prompt[0] = 1;
    assert_true(test_frontend_submit(frontend, 2, &owned.request));
    finish();
    assert_int_equal(frontend->replies[1].failure, RESULT_INVALID);
    assert_int_equal(frontend->replies[2].finish, FINISH_LENGTH);
    assert_true(atomic_load(&frontend->pair.segment.gauges->rejected_records_total) > 2000);
    stop();
}

/* Exit status 2, state FAILED, and `words` in the reason. */
static void check_refused(const char *const *flags, const char *words)
{
    start(flags);
    int status = process_pair_reap(&frontend->pair);
    struct worker_gauges *gauges = frontend->pair.segment.gauges;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_int_equal(atomic_load(&gauges->state), WORKER_FAILED);
    if (!strstr(gauges->failure, words))
        fail_msg("%s", gauges->failure);
    test_frontend_destroy(frontend);
}

static void test_settings_that_cannot_work(void **state)
{
    (void)state;
    const char *const too_small[] = {"--kv-cache-bytes", "1000000", NULL};
    check_refused(too_small, "1000000 bytes");
    const char *const too_long[] = {"--context", "1000000", NULL};
    check_refused(too_long, "--context 1000000");
    const char *const no_fit[] = {"--context", "8192", "--kv-cache-bytes", "50000000", NULL};
    check_refused(no_fit, "--context 8192 does not fit");
    const char *const no_model[] = {"--model", "tests/process/none.gguf", NULL};
    check_refused(no_model, "none.gguf");
}

static void test_dies_with_its_parent(void **state)
{
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t middle = fork();
    assert_true(middle >= 0);
    if (middle == 0) {
        start(NULL);
        spawned_worker_await(frontend, WORKER_READY);
        pid_t worker = frontend->pair.child;
        (void)!write(pipe_fds[1], &worker, sizeof worker);
        _exit(0);
    }
    pid_t worker;
    assert_int_equal(read(pipe_fds[0], &worker, sizeof worker), sizeof worker);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    int waited_ms = 0;
    while (kill(worker, 0) == 0 && waited_ms < PROCESS_PAIR_PATIENCE_MS) {
        /* An orphan stays a zombie if no init process reaps it; it counts as dead. */
        char path[64];
        char stat[256] = {0};
        snprintf(path, sizeof path, "/proc/%d/stat", (int)worker);
        FILE *file = fopen(path, "r");
        size_t length = file ? fread(stat, 1, sizeof stat - 1, file) : 0;
        if (file)
            fclose(file);
        if (length == 0 || strstr(stat, ") Z "))
            break;
        usleep(5000);
        waited_ms += 5;
    }
    assert_true(waited_ms < PROCESS_PAIR_PATIENCE_MS);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_and_in_company),
        cmocka_unit_test(test_cancel_and_drain),
        cmocka_unit_test(test_garbage_costs_nothing),
        cmocka_unit_test(test_settings_that_cannot_work),
        cmocka_unit_test(test_dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
