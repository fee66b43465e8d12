/*
 * The pidfd reports the end of a process, however it ends; a child dies with its parent.
 */
// tags: threads arm
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/peer_watch.h"

#define PATIENCE_MS 300000 /* only a failing test waits for it */

static void await_end(int pid_fd)
{
    struct pollfd watched = {.fd = pid_fd, .events = POLLIN};
    assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
}

static void a_killed_child_is_seen(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;)
            pause();
    }
    int pid_fd = -1;
    assert_int_equal(peer_watch_open(child, &pid_fd, NULL), RESULT_OK);
    assert_false(peer_watch_ended(pid_fd));
    assert_int_equal(kill(child, SIGKILL), 0);
    await_end(pid_fd);
    assert_true(peer_watch_ended(pid_fd)); /* also before it is reaped */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(peer_watch_ended(pid_fd));
    close(pid_fd);
}

static void a_finished_child_is_seen(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(3);
    int pid_fd = -1;
    assert_int_equal(peer_watch_open(child, &pid_fd, NULL), RESULT_OK);
    await_end(pid_fd);
    assert_true(peer_watch_ended(pid_fd));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pid_fd);
    struct error_text error = {""};
    assert_int_equal(peer_watch_open(child, &pid_fd, &error), RESULT_PEER_GONE);
    assert_int_not_equal(error.text[0], '\0');
}

static void not_a_process(void **state)
{
    (void)state;
    int pid_fd = -1;
    assert_int_equal(peer_watch_open(-5, &pid_fd, NULL), RESULT_IO);
    assert_int_equal(pid_fd, -1);
}

/* A descriptor of number 0 is one like any other. */
static void standard_input_may_be_closed(void **state)
{
    (void)state;
    int saved = dup(STDIN_FILENO);
    assert_true(saved > 0);
    close(STDIN_FILENO);
    errno = ESRCH; /* of an older call */
    int pid_fd = -1;
    enum result result = peer_watch_open(getpid(), &pid_fd, NULL);
    bool ended = peer_watch_ended(pid_fd);
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    assert_int_equal(result, RESULT_OK);
    assert_int_equal(pid_fd, STDIN_FILENO);
    assert_false(ended);
}

/* A grandchild holds the write end of a pipe; when its parent dies it must die too, and the pipe
 * closes. */
static void a_child_dies_with_its_parent(void **state)
{
    (void)state;
    int life[2];
    assert_int_equal(pipe(life), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        pid_t self = getpid();
        if (fork() == 0) {
            bool armed = peer_watch_die_with_parent(self) == RESULT_OK;
            if (armed && write(life[1], "a", 1) == 1)
                for (;;)
                    pause();
            _exit(1);
        }
        close(life[1]);
        for (;;)
            pause();
    }
    close(life[1]);
    char byte = 0;
    assert_int_equal(read(life[0], &byte, 1), 1);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    struct pollfd watched = {.fd = life[0], .events = POLLIN};
    assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
    assert_int_equal(read(life[0], &byte, 1), 0);
    close(life[0]);
}

static void an_orphan_notices_at_once(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(peer_watch_die_with_parent(getpid()) == RESULT_PEER_GONE ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_child_is_seen),
        cmocka_unit_test(a_finished_child_is_seen),
        cmocka_unit_test(not_a_process),
        cmocka_unit_test(standard_input_may_be_closed),
        cmocka_unit_test(a_child_dies_with_its_parent),
        cmocka_unit_test(an_orphan_notices_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
