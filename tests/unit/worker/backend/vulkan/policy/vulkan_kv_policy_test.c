/*
 * How much memory the KV cache gets: enough stays for weights and a reserve, workers share, a
 * restarted worker gets what its predecessor had, and others' use lowers it.
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

/* The weights lie in the vault, so less is free, but no more is needed for them. */
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
    /* The second one, and later the first one's successor, find the other's memory taken. */
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
