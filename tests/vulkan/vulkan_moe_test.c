/*
 * Whole mixtures of experts on a Vulkan device against the CPU backend: kernels that compute
 * following ops too (gates, sums of a row's experts), and the forms that kernels pass to each
 * other, for numbers of rows from one to more than a tile of each kernel.
 */
// tags: native-sanitized
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/op_check.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"

struct mixture {
    enum ggml_type gate_up, down;
    uint32_t hidden, wide, chosen, experts;
    bool one_stack; /* of gate and up */
    bool add;
    struct moe_gate_params gate;
    uint32_t rows[3]; /* of steps; 0 ends the list */
    float scale;      /* of x, so that what is between fits f16 */
};

/* Up to eight rows nothing is sorted. The last steps have many pairs an expert: some tiles of
 * matrix units, and some that are not full. */
static const struct mixture mixtures[] = {
    {GGML_Q4_0, GGML_Q4_0, 96, 64, 2, 8, false, true, {GATE_SILU, false, 0, 0}, {1, 9, 90}, 1.0f},
    {GGML_Q4_K,
     GGML_Q6_K,
     256,
     256,
     3,
     6,
     true,
     false,
     {GATE_GELU_TANH, false, 0, 0},
     {4, 40},
     0.02f},
    {GGML_Q8_0, GGML_Q5_1, 64, 96, 2, 5, true, true, {GATE_SILU, true, 0, 0}, {2, 17, 70}, 1.0f},
    {GGML_BF16, GGML_F32, 45, 33, 2, 7, false, true, {GATE_SILU, false, 0, 0}, {1, 5, 33}, 1.0f},
    {GGML_BF16, GGML_F16, 96, 32, 1, 3, false, false, {GATE_SILU, false, 0, 0}, {3, 80}, 1.0f},
    {GGML_Q4_0,
     GGML_Q4_0,
     64,
     64,
     2,
     6,
     true,
     true,
     {GATE_SILU, true, 7.0f, 1.702f},
     {2, 50},
     1.0f},
    {GGML_Q5_0, GGML_F32, 32, 32, 2, 6, false, true, {GATE_SILU, false, 0, 0}, {2, 6, 50}, 1.0f},
};

static struct backend *create(void *context)
{
    (void)context;
    return vulkan_backend_create();
}

static struct op_case case_of(const struct mixture *m)
{
    struct op_case c = {.stem = OP_moe_linear,
                        .input_columns = {m->hidden, m->experts, m->add ? m->hidden : 0},
                        .input_type = GGML_F32,
                        .input_scale = m->scale,
                        .output_columns = m->hidden,
                        .route = {m->chosen, false, true, 1.0f},
                        .experts = {m->wide, m->gate},
                        .rope = {.dims = 2, .magnitude = 1.0f}};
    uint32_t stacks = m->one_stack ? 1 : 2;
    for (uint32_t w = 0; w < stacks; w++)
        c.weights[w] = (struct op_trial_weight){m->gate_up, 2 / stacks * m->wide, m->hidden};
    c.weights[stacks] = (struct op_trial_weight){m->down, m->hidden, m->wide};
    for (uint32_t step = 0; step < 3; step++)
        c.steps[step][0] = m->rows[step];
    return c;
}

static void test_mixtures_agree_with_the_cpu(void **state)
{
    const struct vulkan_device *device = *state;
    const struct op_check_backend judged = {
        .name = "vulkan",
        .create = create,
        .options = {.threads = 1,
                    .vulkan = {.tier_limit = device->facts.tier, .kernels_when_needed = true}}};
    enum vulkan_share share = vulkan_fixture_share(device);
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        struct op_case c = case_of(&mixtures[i]);
        struct error_text error = {""};
        if (share == VULKAN_SHARE_MATRIX && i % 4 != 0)
            continue; /* a driver that compiles for seconds: one of each kind is enough */
        if (!op_check_case_against_cpu(&c, &judged, &error))
            fail_msg("%s", error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixtures_agree_with_the_cpu)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
