/*
 * Every op of the list through the whole Vulkan backend (plan, fusion, choice of kernels, barriers)
 * against the CPU backend, on the cases that every backend is held to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"
#include "tests/support/vulkan_fixture.h"

static struct backend *create(void *context)
{
    (void)context;
    return vulkan_backend_create();
}

static void check(enum op_stem stem)
{
    struct op_check_backend judged = {
        .name = "vulkan",
        .create = create,
        .options = {.threads = 1,
                    .vulkan = {.tier_limit = VULKAN_NV_MATRIX2, .kernels_when_needed = true}}};
    struct error_text error = {""};
    if (!op_check_against_cpu(stem, &judged, &error))
        fail_msg("%s", error.text);
}

#define OP_TEST(stem, ...)                                                                         \
    static void test_##stem##_agrees_with_the_cpu(void **state)                                    \
    {                                                                                              \
        (void)state;                                                                               \
        check(OP_##stem);                                                                          \
    }
OP_LIST(OP_TEST)

int main(void)
{
#define OP_TEST_ENTRY(stem, ...) cmocka_unit_test(test_##stem##_agrees_with_the_cpu),
    const struct CMUnitTest tests[] = {OP_LIST(OP_TEST_ENTRY)};
    /* Some drivers may not be loaded afresh a hundred times: a device of ours keeps it loaded. */
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
