/*
 * Every op of the list through the whole Vulkan backend (plan, fusion, choice of kernels, barriers)
 * against the CPU backend, on the cases of the ops' own tests (tests/ops).
 */
// tags: native-sanitized longest
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/op_check.h"
#include "tests/support/sanitized.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"

#define DOT_ROWS VULKAN_DOT_ROWS /* up to here each number of rows has kernels of its own */

static struct backend *create(void *context)
{
    (void)context;
    return vulkan_backend_create();
}

/* The rows of a step that the op works on. */
static uint32_t op_rows(const struct op_case *c, uint32_t step)
{
    uint32_t rows = c->steps[step][0] + c->steps[step][1];
    uint32_t every = c->on_logit_rows && c->wanted_every > 0 ? c->wanted_every : 1;
    return rows == 0 ? 0 : (rows - 1) / every + 1 + ((rows - 1) % every != 0);
}

static bool is_linear(const struct op_case *c)
{
    return c->stem == OP_linear || c->stem == OP_linear_add;
}

/* Whether the driver runs step `step`, which is number `few` of the steps with few rows. Each
 * weight type occurs in several cases and each number of rows with several types. linear's three
 * cases of a type take one of the two tiles of matrix units, linear_add's the other. */
static bool takes_step(enum vulkan_share share, uint32_t number, const struct op_case *c,
                       uint32_t step, uint32_t few)
{
    if (is_linear(c) && op_rows(c, step) <= DOT_ROWS)
        return share == VULKAN_SHARE_PLAIN ? few == (number + number / 3) % 5 : number == 0;
    if (is_linear(c) && share == VULKAN_SHARE_MATRIX)
        return (op_rows(c, step) > 16) == ((number / 3 + c->stem) % 2 == 0);
    if (c->stem == OP_moe_linear) /* each number of rows has kernels of its own too */
        return share == VULKAN_SHARE_PLAIN ? (step + number) % 3 == 0 : step == number;
    return true;
}

/* On a matrix driver, ops without kernels for matrix units have one case each. */
static bool takes_case(enum vulkan_share share, uint32_t number, const struct op_case *c)
{
    const struct column_slice *queries = &c->params.attention.queries;
    if (share != VULKAN_SHARE_MATRIX || is_linear(c) || number == 0)
        return true;
    return c->stem == OP_attention && queries->head_dim % 8 == 0 && queries->head_dim <= 32;
}

/* For drivers whose compiling takes longer than computing. Sanitizers see the host's code, which is the same for all steps of a case. */
static void thin(void *context, uint32_t number, struct op_case *c)
{
    enum vulkan_share share = vulkan_fixture_share(context);
    uint32_t kept = 0, few = 0;
    struct op_case whole = *c;
    memset(c->steps, 0, sizeof c->steps);
    for (uint32_t step = 0; step < OP_TRIAL_STEPS && op_rows(&whole, step) > 0; step++) {
        if (SANITIZED && kept == 1)
            break;
        bool takes =
            takes_case(share, number, &whole) && takes_step(share, number, &whole, step, few);
        few += op_rows(&whole, step) <= DOT_ROWS;
        if (takes)
            memcpy(c->steps[kept++], whole.steps[step], sizeof whole.steps[step]);
    }
}

static void check(struct vulkan_device *device, op_case_list_fn *cases)
{
    bool thins = vulkan_fixture_share(device) != VULKAN_SHARE_ALL;
    struct op_check_backend judged = {
        .name = "vulkan",
        .create = create,
        .thin = thins ? thin : NULL,
        .context = device,
        .options = {.threads = 1,
                    .vulkan = {.tier_limit = device->facts.tier, .kernels_when_needed = true}}};
    struct error_text error = {""};
    if (!op_check_against_cpu(cases, &judged, &error))
        fail_msg("%s", error.text);
}

#define OP_TEST(stem, ...)                                                                         \
    static void test_##stem##_agrees_with_the_cpu(void **state)                                    \
    {                                                                                              \
        check(*state, stem##_cases);                                                               \
    }
OP_LIST(OP_TEST)

int main(void)
{
#define OP_TEST_ENTRY(stem, ...) cmocka_unit_test(test_##stem##_agrees_with_the_cpu),
    const struct CMUnitTest tests[] = {OP_LIST(OP_TEST_ENTRY)};
    /* Some drivers fail when they are loaded a hundred times; the fixture's device keeps it loaded.
     */
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
