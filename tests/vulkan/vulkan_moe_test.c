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

/* What kernels in PTX take: each kind of weight, tiles of every width, several of an expert, outputs that do
 * not fill a group. */
static const struct mixture ptx_mixtures[] = {
    {GGML_MXFP4,
     GGML_IQ4_NL,
     384,
     256,
     2,
     6,
     true,
     true,
     {GATE_SILU, false, 0, 0},
     {18, 70, 200},
     0.1f},
    {GGML_F8_128,
     GGML_F8_32,
     256,
     384,
     2,
     5,
     false,
     true,
     {GATE_SILU, false, 0, 0},
     {20, 64, 200},
     0.1f},
    {GGML_Q4_0,
     GGML_Q4_0,
     256,
     128,
     4,
     16,
     false,
     true,
     {GATE_SILU, false, 0, 0},
     {9, 33, 300},
     0.1f},
    {GGML_Q8_0,
     GGML_Q5_1,
     128,
     384,
     2,
     3,
     true,
     true,
     {GATE_SILU, true, 0, 0},
     {20, 70, 400},
     0.1f},
    {GGML_Q4_K,
     GGML_Q6_K,
     256,
     256,
     2,
     9,
     false,
     true,
     {GATE_SILU, false, 0, 0},
     {30, 90, 170},
     0.02f},
    {GGML_Q5_0,
     GGML_Q4_1,
     384,
     128,
     2,
     8,
     true,
     false,
     {GATE_GELU_TANH, false, 0, 0},
     {11, 60, 210},
     0.1f},
    {GGML_Q6_K,
     GGML_Q8_0,
     256,
     128,
     3,
     5,
     false,
     true,
     {GATE_SILU, false, 7.0f, 1.702f},
     {16, 100},
     0.02f},
    {GGML_Q5_K, GGML_Q4_K, 256, 256, 2, 7, true, true, {GATE_SILU, false, 0, 0}, {25, 180}, 0.02f},
};

static struct backend *create(void *context)
{
    (void)context;
    return vulkan_backend_create();
}

/* `rows`: those of which kind have the experts; tokens 2 and 3 count as of images. */
static struct op_case case_of(const struct mixture *m, enum expert_rows rows)
{
    struct op_case c = {.stem = OP_moe_linear,
                        .input_columns = {m->hidden, m->experts, m->add ? m->hidden : 0},
                        .input_type = GGML_F32,
                        .input_scale = m->scale,
                        .output_columns = m->hidden,
                        .route = {.chosen = m->chosen,
                                  .normalized = true,
                                  .scale = 1.0f,
                                  .rows = rows,
                                  .edges = {2, 3}},
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

static void expect_agreement(const struct vulkan_device *device, const struct mixture *mixture,
                             enum expert_rows rows)
{
    const struct op_check_backend judged = {
        .name = "vulkan",
        .create = create,
        .options = {.threads = 1,
                    .vulkan = {.tier_limit = device->facts.tier, .kernels_when_needed = true}}};
    struct op_case c = case_of(mixture, rows);
    struct error_text error = {""};
    if (!op_check_case_against_cpu(&c, &judged, &error))
        fail_msg("%s", error.text);
}

static void test_mixtures_agree_with_the_cpu(void **state)
{
    bool layer = vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX;
    /* A driver that compiles for seconds: one of each kind is enough. */
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i += layer ? 4 : 1)
        expect_agreement(*state, &mixtures[i], EXPERTS_OF_ALL);
}

/* Rows of the other kind have weights of 0, and their experts are not calculated. */
static void test_mixtures_of_some_rows_agree_with_the_cpu(void **state)
{
    bool layer = vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX;
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i += layer ? 4 : 1)
        expect_agreement(*state, &mixtures[i], i % 2 == 0 ? EXPERTS_OF_TEXT : EXPERTS_OF_IMAGES);
}

static void test_mixtures_in_ptx_agree_with_the_cpu(void **state)
{
    const struct vulkan_device *device = *state;
    if (device->facts.tier < VULKAN_PTX)
        vulkan_fixture_skip("the device has no PTX");
    for (size_t i = 0; i < sizeof ptx_mixtures / sizeof *ptx_mixtures; i++)
        expect_agreement(device, &ptx_mixtures[i], i % 2 == 0 ? EXPERTS_OF_ALL : EXPERTS_OF_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixtures_agree_with_the_cpu),
        cmocka_unit_test(test_mixtures_of_some_rows_agree_with_the_cpu),
        cmocka_unit_test(test_mixtures_in_ptx_agree_with_the_cpu)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
