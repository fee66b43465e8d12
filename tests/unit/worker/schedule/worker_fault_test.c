/*
 * worker_fault: which texts are accepted, which worker has the fault, which texts are refused.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/schedule/worker_fault.h"

static struct worker_fault parsed(const char *text, uint32_t worker)
{
    struct worker_fault fault;
    struct error_text error;
    assert_int_equal(worker_fault_parse(text, worker, &fault, &error), RESULT_OK);
    return fault;
}

static void test_every_fault(void **state)
{
    (void)state;
    assert_int_equal(parsed(NULL, 0).kind, WORKER_FAULT_NONE);
    struct worker_fault fault = parsed("abort-on-token=17", 0);
    assert_int_equal(fault.kind, WORKER_FAULT_ABORT_ON_TOKEN);
    assert_int_equal(fault.number, 17);
    assert_int_equal(parsed("kill-on-token=17", 0).kind, WORKER_FAULT_KILL_ON_TOKEN);
    assert_int_equal(parsed("abort-at-step=3", 0).kind, WORKER_FAULT_ABORT_AT_STEP);
    assert_int_equal(parsed("abort-on-inherited=1", 0).kind, WORKER_FAULT_ABORT_ON_INHERITED);
    assert_int_equal(parsed("hang-at-step=3", 0).kind, WORKER_FAULT_HANG_AT_STEP);
    assert_int_equal(parsed("open-at-step=3", 0).kind, WORKER_FAULT_OPEN_AT_STEP);
    assert_int_equal(parsed("socket-at-step=3", 0).kind, WORKER_FAULT_SOCKET_AT_STEP);
    assert_int_equal(parsed("fail-from-life=2", 0).kind, WORKER_FAULT_FAIL_FROM_LIFE);
}

static void test_a_fault_of_one_worker(void **state)
{
    (void)state;
    assert_int_equal(parsed("1:hang-at-step=3", 0).kind, WORKER_FAULT_NONE);
    assert_int_equal(parsed("1:hang-at-step=3", 1).kind, WORKER_FAULT_HANG_AT_STEP);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *const texts[] = {"",
                                 "x",
                                 "abort-on-token",
                                 "abort-on-token=",
                                 "abort-on-token=x",
                                 "abort-on-token=1x",
                                 "1:",
                                 "1",
                                 ":abort-on-token=1",
                                 "x:hang-at-step=1",
                                 "hang-at-step=99999999999",
                                 "hang-at-step=-1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct worker_fault fault;
        struct error_text error;
        assert_int_equal(worker_fault_parse(texts[i], 0, &fault, &error), RESULT_INVALID);
    }
}

static void test_lives(void **state)
{
    (void)state;
    struct error_text error;
    struct worker_fault fault = parsed("fail-from-life=2", 0);
    assert_int_equal(worker_fault_start(&fault, 1, &error), RESULT_OK);
    assert_int_equal(worker_fault_start(&fault, 2, &error), RESULT_INVALID);
    assert_int_equal(worker_fault_start(&fault, 3, &error), RESULT_INVALID);
    fault = parsed("hang-at-step=2", 0);
    assert_int_equal(worker_fault_start(&fault, 2, &error), RESULT_OK);
}

static void test_steps_without_a_fault(void **state)
{
    (void)state;
    const uint32_t ids[2] = {5, 6};
    struct step_batch batch = {.row_count = 2, .token_ids = ids};
    struct worker_fault fault = parsed("abort-on-token=7", 0);
    worker_fault_step(&fault, 0, &batch); /* returns */
    fault = parsed("abort-at-step=2", 0);
    worker_fault_step(&fault, 0, &batch);
    worker_fault_step(&fault, 2, &batch);
}

/* The signal that ends a process with this fault whose step computes the token 6. */
static int signal_of(const char *text)
{
    const uint32_t ids[2] = {5, 6};
    const struct step_batch batch = {.row_count = 2, .token_ids = ids};
    struct worker_fault fault = parsed(text, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        worker_fault_step(&fault, 0, &batch);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_a_computed_token(void **state)
{
    (void)state;
    assert_int_equal(signal_of("abort-on-token=6"), SIGABRT);
    assert_int_equal(signal_of("kill-on-token=6"), SIGKILL);
    assert_int_equal(signal_of("kill-on-token=7"), 0);
}

/* A token drawn by the previous step is known when that step is read. */
static void test_a_drawn_token(void **state)
{
    (void)state;
    const uint32_t ids[3] = {5, STEP_TOKEN_SAMPLED | 1, 6};
    const struct sampled_token before[2] = {{.token = 7}, {.token = 8}};
    struct step_batch batch = {.row_count = 3, .token_ids = ids};
    struct worker_fault fault = parsed("abort-on-token=7", 0);
    worker_fault_step(&fault, 0, &batch);
    worker_fault_drawn(&fault, &batch, before); /* drawn for another row */
    fault = parsed("abort-on-token=8", 0);
    worker_fault_step(&fault, 0, &batch); /* not known yet */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        worker_fault_drawn(&fault, &batch, before);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_a_fault_of_one_worker),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_steps_without_a_fault),
        cmocka_unit_test(test_a_computed_token),
        cmocka_unit_test(test_a_drawn_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
