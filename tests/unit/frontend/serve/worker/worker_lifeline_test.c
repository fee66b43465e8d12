/*
 * The end of a process is told once no thread of it runs and its device has finished, not before, and
 * not at all if its device does not count. Processes are forks of this one.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "frontend/serve/worker/worker_lifeline.h"
#include "shm/device_work.h"

#define PATIENCE_MS 20000 /* only a failing test waits for it */
#define QUIET_MS    150   /* in which nothing may happen */

struct case_of {
    struct event_base *base;
    struct worker_lifeline *lifeline;
    struct child_process process;
    struct device_work *work; /* as the process maps it */
    int told;
};

static void on_ended(void *context)
{
    struct case_of *one = context;
    one->told++;
    worker_lifeline_destroy(one->lifeline); /* as the supervisor does */
    one->lifeline = NULL;
    event_base_loopbreak(one->base);
}

static void on_time(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(context);
}

static void run(struct case_of *one, int ms)
{
    const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    struct event *timer = event_new(one->base, -1, 0, on_time, one->base);
    event_add(timer, &limit);
    event_base_dispatch(one->base);
    event_free(timer);
}

/* `lets_go`: the process closes its end and goes on. */
static void begin(struct case_of *one, bool lets_go)
{
    struct error_text error;
    *one = (struct case_of){.base = event_base_new(), .process.pid_fd = -1};
    assert_int_equal(worker_lifeline_create(one->base, &one->lifeline, &error), RESULT_OK);
    struct child_lifeline_fds fds = worker_lifeline_fds(one->lifeline);
    assert_int_equal(device_work_open(fds.work, &one->work, &error), RESULT_OK);
    one->process.pid = fork();
    assert_true(one->process.pid >= 0);
    if (one->process.pid == 0) {
        if (lets_go)
            close(fds.life);
        for (;;)
            pause();
    }
    worker_lifeline_begin(one->lifeline);
    worker_lifeline_watch(one->lifeline, &one->process, on_ended, one);
}

/* Status of waitpid(). */
static int end(struct case_of *one)
{
    int status = 0;
    worker_lifeline_destroy(one->lifeline);
    device_work_close(one->work);
    kill(one->process.pid, SIGKILL);
    assert_int_equal(waitpid(one->process.pid, &status, 0), one->process.pid);
    event_base_free(one->base);
    return status;
}

static void an_end_is_told_once_the_device_has_finished(void **state)
{
    (void)state;
    struct case_of one;
    begin(&one, false);
    atomic_store(&one.work->marked, 1);
    atomic_store(&one.work->submitted, 7);
    atomic_store(&one.work->finished, 6);
    atomic_store(&one.work->crash_signal, SIGSEGV);
    run(&one, QUIET_MS);
    assert_int_equal(one.told, 0); /* it lives */
    kill(one.process.pid, SIGKILL);
    run(&one, QUIET_MS);
    assert_int_equal(one.told, 0); /* its device works */
    assert_int_equal(worker_lifeline_crash_signal(one.lifeline), SIGSEGV);
    atomic_store(&one.work->finished, 7);
    run(&one, PATIENCE_MS);
    assert_int_equal(one.told, 1);
    run(&one, QUIET_MS);
    assert_int_equal(one.told, 1);
    (void)end(&one);
}

static void an_end_is_not_told_if_nothing_counts(void **state)
{
    (void)state;
    struct case_of one;
    begin(&one, false);
    kill(one.process.pid, SIGKILL);
    run(&one, QUIET_MS);
    assert_int_equal(one.told, 0);
    (void)end(&one);
}

static void a_process_that_lets_go_is_killed(void **state)
{
    (void)state;
    struct case_of one;
    begin(&one, true);
    atomic_store(&one.work->marked, 1);
    run(&one, PATIENCE_MS);
    assert_int_equal(one.told, 1);
    int status = 0;
    assert_int_equal(waitpid(one.process.pid, &status, 0), one.process.pid); /* not ended here */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    device_work_close(one.work);
    event_base_free(one.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_told_once_the_device_has_finished),
        cmocka_unit_test(an_end_is_not_told_if_nothing_counts),
        cmocka_unit_test(a_process_that_lets_go_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
