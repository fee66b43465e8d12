/*
 * The comparison that other backends are tested with, run on the CPU's portable tier. It covers the
 * ops whose own tests inspect the backend instead of running the list of cases.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"

static struct backend *create(void *context)
{
    (void)context;
    return cpu_backend_create();
}

static void test_the_portable_tier_agrees(void **state)
{
    (void)state;
    struct op_check_backend judged = {
        .name = "portable", .create = create, .options = {.cpu_tier = CPU_TIER_PORTABLE}};
    struct error_text error = {""};
    if (!op_check_against_cpu(kv_write_cases, &judged, &error) ||
        !op_check_against_cpu(attention_cases, &judged, &error))
        fail_msg("%s", error.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_portable_tier_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
