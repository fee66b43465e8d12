/*
 * The doorbell's steps one by one, in one process, and an eventfd that a hostile peer has filled
 * and made blocking.
 */
// tags: threads arm
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/doorbell.h"

struct fixture {
    struct doorbell_shared shared;
    struct doorbell bell;
    int other[2]; /* a pipe, for "something else to wake up for" */
};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){0};
    fixture.bell = (struct doorbell){&fixture.shared, eventfd(0, EFD_NONBLOCK)};
    *state = &fixture;
    return fixture.bell.event_fd < 0 || pipe(fixture.other) != 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    close(fixture->bell.event_fd);
    close(fixture->other[0]);
    close(fixture->other[1]);
    return 0;
}

static bool readable(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static void ringing_an_awake_peer_makes_no_syscall(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 1000; i++)
        assert_false(doorbell_ring(&fixture->bell));
    assert_false(readable(fixture->bell.event_fd));
}

static void one_sleep_costs_one_write(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    assert_true(doorbell_ring(&fixture->bell));
    assert_false(doorbell_ring(&fixture->bell));
    assert_true(readable(fixture->bell.event_fd));
    doorbell_woken(&fixture->bell);
    assert_false(readable(fixture->bell.event_fd));
    assert_int_equal(atomic_load(&fixture->shared.asleep), 0);
}

/* An error of an older call is not one of the write: there is one write and one count. */
static void an_old_error_does_not_repeat_the_write(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    assert_int_equal(atomic_load(&fixture->shared.asleep), 1);
    errno = EINTR;
    assert_true(doorbell_ring(&fixture->bell));
    uint64_t count = 0;
    assert_int_equal(read(fixture->bell.event_fd, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
}

static void cancelled_sleep_is_awake(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    doorbell_cancel_sleep(&fixture->bell);
    assert_false(doorbell_ring(&fixture->bell));
    assert_false(readable(fixture->bell.event_fd));
}

static void wait_returns_for_the_bell(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    assert_true(doorbell_ring(&fixture->bell));
    assert_false(doorbell_wait(&fixture->bell, fixture->other[0], 20000));
    assert_false(readable(fixture->bell.event_fd));
}

static void wait_returns_for_the_other_descriptor(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    assert_int_equal(write(fixture->other[1], "x", 1), 1);
    assert_true(doorbell_wait(&fixture->bell, fixture->other[0], 20000));
    assert_int_equal(atomic_load(&fixture->shared.asleep), 0);
}

static void wait_ends_after_its_time(void **state)
{
    struct fixture *fixture = *state;
    doorbell_prepare_sleep(&fixture->bell);
    assert_false(doorbell_wait(&fixture->bell, -1, 1));
    assert_false(doorbell_wait(&fixture->bell, fixture->other[0], 0));
    assert_int_equal(atomic_load(&fixture->shared.asleep), 0);
}

/* The alarm ends the test program if one of the calls blocks. */
static void a_blocking_eventfd_does_not_block(void **state)
{
    struct fixture *fixture = *state;
    int fd = fixture->bell.event_fd;
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    alarm(300);
    doorbell_woken(&fixture->bell); /* nothing to read */

    const uint64_t most = UINT64_MAX - 1;
    assert_int_equal(write(fd, &most, sizeof most), sizeof most);
    doorbell_prepare_sleep(&fixture->bell);
    assert_true(doorbell_ring(&fixture->bell)); /* no room to write */
    assert_false(doorbell_wait(&fixture->bell, -1, 20000));
    assert_false(readable(fd));
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ringing_an_awake_peer_makes_no_syscall, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(one_sleep_costs_one_write, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_old_error_does_not_repeat_the_write, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(cancelled_sleep_is_awake, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(wait_returns_for_the_bell, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(wait_returns_for_the_other_descriptor, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(wait_ends_after_its_time, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_blocking_eventfd_does_not_block, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
