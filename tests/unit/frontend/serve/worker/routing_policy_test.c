/*
 * Who gets the next request: load, affinity, and where one gives way to the other.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/worker/routing_policy.h"

static struct routing_candidate open_with(uint32_t load, uint32_t shared_blocks)
{
    return (struct routing_candidate){.open = true, .load = load, .shared_blocks = shared_blocks};
}

static void the_least_busy_without_affinity(void **state)
{
    (void)state;
    struct routing_candidate of[3] = {open_with(4, 0), open_with(2, 0), open_with(3, 0)};
    assert_int_equal(routing_policy_choose(of, 3, 64), 1);
    of[1].open = false;
    assert_int_equal(routing_policy_choose(of, 3, 64), 2);
}

static void the_first_of_equals(void **state)
{
    (void)state;
    struct routing_candidate of[3] = {open_with(1, 5), open_with(1, 5), open_with(1, 5)};
    assert_int_equal(routing_policy_choose(of, 3, 64), 0);
}

static void the_longest_prefix_while_it_is_hardly_busier(void **state)
{
    (void)state;
    struct routing_candidate of[2] = {open_with(0, 1), open_with(8, 100)};
    assert_int_equal(routing_policy_choose(of, 2, 64), 1); /* worth 64 / 8 requests at most */
    of[1].load = 9;
    assert_int_equal(routing_policy_choose(of, 2, 64), 0);
    of[1].load = 2;
    assert_int_equal(routing_policy_choose(of, 2, 4), 1); /* two at least */
    of[1].load = 3;
    assert_int_equal(routing_policy_choose(of, 2, 4), 0);
}

static void a_short_prefix_decides_only_among_equals(void **state)
{
    (void)state;
    struct routing_candidate of[2] = {open_with(0, 0), open_with(1, 3)};
    assert_int_equal(routing_policy_choose(of, 2, 64), 0);
    of[0].load = 1;
    assert_int_equal(routing_policy_choose(of, 2, 64), 1);
}

static void the_full_and_the_closed_get_nothing(void **state)
{
    (void)state;
    struct routing_candidate of[2] = {open_with(4, 100), open_with(3, 0)};
    assert_int_equal(routing_policy_choose(of, 2, 4), 1);
    of[1].load = 4;
    assert_int_equal(routing_policy_choose(of, 2, 4), ROUTING_NONE);
    of[0] = of[1] = (struct routing_candidate){.open = false};
    assert_int_equal(routing_policy_choose(of, 2, 4), ROUTING_NONE);
    assert_int_equal(routing_policy_choose(of, 0, 4), ROUTING_NONE);
}

static void equal_loads_follow_from_equal_workers(void **state)
{
    (void)state;
    struct routing_candidate of[4] = {open_with(0, 0), open_with(0, 0), open_with(0, 0),
                                      open_with(0, 0)};
    for (int i = 0; i < 100; i++)
        of[routing_policy_choose(of, 4, 64)].load++;
    for (int i = 0; i < 4; i++)
        assert_int_equal(of[i].load, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_busy_without_affinity),
        cmocka_unit_test(the_first_of_equals),
        cmocka_unit_test(the_longest_prefix_while_it_is_hardly_busier),
        cmocka_unit_test(a_short_prefix_decides_only_among_equals),
        cmocka_unit_test(the_full_and_the_closed_get_nothing),
        cmocka_unit_test(equal_loads_follow_from_equal_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
