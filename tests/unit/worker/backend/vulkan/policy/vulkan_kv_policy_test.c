/*
 * Size of the KV cache: enough memory remains for weights and a reserve, workers share, a restarted
 * worker gets as much as the one before it, and memory used by other programs lowers it.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/backend/vulkan/policy/vulkan_kv_policy.h"

#define GB 1000000000ull

static const struct vulkan_kv_question large = {.own_memory = true,
                                                .memory_bytes = 140 * GB,
                                                .free_bytes = 139 * GB,
                                                .weights_bytes = 5 * GB,
                                                .workers = 1};

static void weights_and_a_tenth_stay_free(void **state)
{
    (void)state;
    assert_int_equal(vulkan_kv_policy_bytes(&large), 121 * GB);
}

/* The weights are in the vault, so less memory is free, but none is needed for them. */
static void a_successor_gets_the_same(void **state)
{
    (void)state;
    struct vulkan_kv_question next = large;
    next.free_bytes -= large.weights_bytes;
    next.weights_there = true;
    assert_int_equal(vulkan_kv_policy_bytes(&next), vulkan_kv_policy_bytes(&large));
    next.free_bytes -= 6 * GB; /* the driver has not given all of it back yet */
    assert_int_equal(vulkan_kv_policy_bytes(&next), vulkan_kv_policy_bytes(&large));
}

static void workers_share(void **state)
{
    (void)state;
    struct vulkan_kv_question question = large;
    question.workers = 2;
    uint64_t half = vulkan_kv_policy_bytes(&question);
    assert_int_equal(half, 121 * GB / 2);
    /* For the second worker, and later for the replacement of the first, the other's memory is
     * used. */
    question.weights_there = true;
    question.free_bytes = large.free_bytes - large.weights_bytes - half;
    assert_int_equal(vulkan_kv_policy_bytes(&question), half);
}

static void use_by_others_lowers_it(void **state)
{
    (void)state;
    struct vulkan_kv_question question = large;
    question.free_bytes = 40 * GB;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 28 * GB); /* 40 - 5 - half of a tenth */
}

static void the_least_is_always_tried(void **state)
{
    (void)state;
    struct vulkan_kv_question question = large;
    question.free_bytes = 0;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 64u << 20);
    question = large;
    question.weights_bytes = 500 * GB;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 64u << 20);
    question = (struct vulkan_kv_question){.own_memory = true, .workers = 16};
    assert_int_equal(vulkan_kv_policy_bytes(&question), 64u << 20);
    question.own_memory = false;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 64u << 20);
}

static void a_small_device_keeps_a_gibibyte(void **state)
{
    (void)state;
    struct vulkan_kv_question question = {.own_memory = true,
                                          .memory_bytes = 4ull << 30,
                                          .free_bytes = 4ull << 30,
                                          .weights_bytes = 1ull << 30,
                                          .workers = 1};
    assert_int_equal(vulkan_kv_policy_bytes(&question), 2ull << 30);
}

static void host_memory_is_taken_as_a_cpu_would(void **state)
{
    (void)state;
    struct vulkan_kv_question question = {
        .memory_bytes = 6 * GB, .free_bytes = 1 * GB, .weights_bytes = GB, .workers = 1};
    assert_int_equal(vulkan_kv_policy_bytes(&question), 6 * GB / 4);
    question.workers = 3;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 6 * GB / 12);
    question.memory_bytes = 500 * GB;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 2ull << 30);
}

/* Whole percents of the device's memory, whatever else is on it. */
static void an_option_sets_the_share(void **state)
{
    (void)state;
    struct vulkan_kv_question question = large;
    question.share_percent = 1;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 14 * GB / 10);
    question.share_percent = 90;
    question.workers = 3;
    question.free_bytes = 0;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 42 * GB);
}

/* The reserve is a gibibyte and two steps where that is more than a tenth. */
static void large_steps_enlarge_the_reserve(void **state)
{
    (void)state;
    struct vulkan_kv_question question = {.own_memory = true,
                                          .memory_bytes = 10ull << 30,
                                          .free_bytes = 10ull << 30,
                                          .step_bytes = 1ull << 30,
                                          .workers = 1};
    assert_int_equal(vulkan_kv_policy_bytes(&question), 7ull << 30);
    question.step_bytes = 3ull << 30;
    assert_int_equal(vulkan_kv_policy_bytes(&question), 3ull << 30);
}

static void weights_and_a_step_limit_any_share(void **state)
{
    (void)state;
    struct vulkan_kv_question question = large;
    question.step_bytes = 3 * GB;
    assert_int_equal(vulkan_kv_policy_most(&question), 132 * GB);
    question.workers = 4;
    assert_int_equal(vulkan_kv_policy_most(&question), 33 * GB);
    question.workers = 1;
    question.weights_bytes = 138 * GB;
    assert_int_equal(vulkan_kv_policy_most(&question), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_a_tenth_stay_free),
        cmocka_unit_test(a_successor_gets_the_same),
        cmocka_unit_test(workers_share),
        cmocka_unit_test(use_by_others_lowers_it),
        cmocka_unit_test(the_least_is_always_tried),
        cmocka_unit_test(a_small_device_keeps_a_gibibyte),
        cmocka_unit_test(host_memory_is_taken_as_a_cpu_would),
        cmocka_unit_test(an_option_sets_the_share),
        cmocka_unit_test(large_steps_enlarge_the_reserve),
        cmocka_unit_test(weights_and_a_step_limit_any_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
