/*
 * What other backends will be held to, tried on the CPU's own tiers: every op of the list agrees
 * with the CPU backend on every case.
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
    for (uint32_t stem = 0; stem < OP_STEM_COUNT; stem++)
        if (!op_check_against_cpu((enum op_stem)stem, &judged, &error))
            fail_msg("%s", error.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_portable_tier_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
