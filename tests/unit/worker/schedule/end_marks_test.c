/*
 * A process that dies of a fault of its own says so in shared memory and still dies of that signal; one
 * that is killed says nothing. Its end of the pipe has a number above those that are opened later.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/schedule/end_marks.h"

/* Status of a process that opened its marks in `fd` and then got the signal, or aborted. */
static int status_of(int fd, int number)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        struct device_work *work = NULL;
        struct error_text error;
        setrlimit(RLIMIT_CORE, &none);
        if (end_marks_open(-1, fd, &work, &error) != RESULT_OK)
            _exit(1);
        if (number == SIGABRT)
            abort();
        raise(number);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void faults_are_marked(void **state)
{
    (void)state;
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const struct device_work *seen = NULL;
        struct error_text error;
        int fd = -1;
        assert_int_equal(device_work_create(&fd, &seen, &error), RESULT_OK);
        int status = status_of(fd, numbers[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), numbers[i]);
        assert_int_equal(atomic_load(&seen->crash_signal), numbers[i]);
        close(fd);
        device_work_close(seen);
    }
}

static void other_signals_are_not(void **state)
{
    (void)state;
    const struct device_work *seen = NULL;
    struct error_text error;
    int fd = -1;
    assert_int_equal(device_work_create(&fd, &seen, &error), RESULT_OK);
    assert_int_equal(WTERMSIG(status_of(fd, SIGKILL)), SIGKILL);
    assert_int_equal(WTERMSIG(status_of(fd, SIGTERM)), SIGTERM);
    assert_int_equal(atomic_load(&seen->crash_signal), 0);
    close(fd);
    device_work_close(seen);
}

static void the_pipe_has_the_highest_number(void **state)
{
    (void)state;
    struct device_work *work = NULL;
    struct error_text error;
    int ends[2];
    char byte;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(end_marks_open(ends[1], -1, &work, &error), RESULT_OK);
    assert_null(work);
    assert_int_equal(fcntl(ends[1], F_GETFD), -1);
    assert_int_equal(read(ends[0], &byte, 1), -1); /* open elsewhere: no end of file */
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int highest = (int)(limit.rlim_cur < 4096 ? limit.rlim_cur : 4096) - 1;
    assert_int_equal(write(highest, "x", 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(highest);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_marked),
        cmocka_unit_test(other_signals_are_not),
        cmocka_unit_test(the_pipe_has_the_highest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
