/*
 * Causes from the statuses of real processes.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/serve/worker/death_cause.h"

/* The status of a child that sends itself the signal; 0: that exits with `exit_code`. */
static int status_of(int number, int exit_code)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        if (number) {
            signal(number, SIG_DFL);
            kill(getpid(), number);
        }
        _exit(exit_code);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void faults_of_the_process_are_crash_signals(void **state)
{
    (void)state;
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        enum death_cause cause = death_cause_from_status(status_of(signals[i], 0));
        assert_int_equal(cause, DEATH_CRASH_SIGNAL);
        assert_false(death_cause_is_outside(cause));
    }
}

static void other_signals_come_from_outside(void **state)
{
    (void)state;
    const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGXCPU};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        enum death_cause cause = death_cause_from_status(status_of(signals[i], 0));
        assert_int_equal(cause, DEATH_OUTSIDE_SIGNAL);
        assert_true(death_cause_is_outside(cause));
    }
    assert_string_equal(death_cause_name(DEATH_OUTSIDE_SIGNAL), "outside_signal");
}

static void an_exit_is_the_workers_own(void **state)
{
    (void)state;
    assert_int_equal(death_cause_from_status(status_of(0, 0)), DEATH_EXIT);
    assert_int_equal(death_cause_from_status(status_of(0, 9)), DEATH_EXIT);
    assert_false(death_cause_is_outside(DEATH_EXIT));
    assert_false(death_cause_is_outside(DEATH_HUNG));
    assert_false(death_cause_is_outside(DEATH_BROKE_PROTOCOL));
}

static void marks_say_it_before_the_status(void **state)
{
    (void)state;
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(death_cause_from_marks((uint32_t)signals[i], false), DEATH_CRASH_SIGNAL);
        assert_int_equal(death_cause_from_marks((uint32_t)signals[i], true), DEATH_CRASH_SIGNAL);
    }
    assert_int_equal(death_cause_from_marks(0, false), DEATH_OUTSIDE_SIGNAL);
    assert_int_equal(death_cause_from_marks(0, true), DEATH_EXIT);
    assert_int_equal(death_cause_from_marks(SIGKILL, false), DEATH_OUTSIDE_SIGNAL);
    assert_int_equal(death_cause_from_marks(UINT32_MAX, false), DEATH_OUTSIDE_SIGNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_the_process_are_crash_signals),
        cmocka_unit_test(other_signals_come_from_outside),
        cmocka_unit_test(an_exit_is_the_workers_own),
        cmocka_unit_test(marks_say_it_before_the_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
