/*
 * Random widths, outputs, row counts, weight types, adapters, heads, windows, quantized caches and contexts
 * through the whole Vulkan backend, against the CPU backend, within each op's tolerance. A failure
 * names the seed of its case; given that seed, the program runs this case alone.
 *
 * usage: vulkan_fuzzed_shapes_test [CASES [SEED]]   case i of a run has the seed SEED + i
 */
// tags: native-sanitized
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/op_check.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/plan/kv_codec.h"

#define OUTPUTS_MAX   700u
#define COLUMNS_MAX   2048u
#define POSITIONS_MAX 500u /* of a sequence: 32 blocks, half of a trial's */

static uint32_t case_count = 8;
static uint64_t first_seed = 1;
static bool cases_given; /* on the command line */

static uint32_t between(struct test_random *random, uint32_t least, uint32_t most)
{
    return least + test_random_below(random, most - least + 1);
}

/* Small ones as often as large ones. */
static uint32_t spread(struct test_random *random, uint32_t most)
{
    return between(random, 1, between(random, 1, most));
}

static enum ggml_type any_type(struct test_random *random)
{
    enum ggml_type type;
    do
        type = (enum ggml_type)test_random_below(random, GGML_TYPE_END);
    while (ggml_type_block(type).elements == 0);
    return type;
}

/* Rows of one sequence or both, around the borders where kernels change and anywhere. */
static void draw_steps(struct test_random *random, struct op_case *c, uint32_t positions_max)
{
    uint32_t left[OP_TRIAL_SEQUENCES] = {positions_max, positions_max};
    uint32_t step_count = between(random, 2, OP_TRIAL_STEPS);
    for (uint32_t step = 0; step < step_count; step++) {
        uint32_t parts = between(random, 1, OP_TRIAL_SEQUENCES);
        for (uint32_t s = 0; s < parts; s++) {
            uint32_t rows = between(random, 0, 2) == 0 ? 1 : spread(random, 200);
            /* One row for each step to come is left at the least. */
            c->steps[step][s] = rows + 2 * OP_TRIAL_STEPS < left[s] ? rows : 1;
            left[s] -= c->steps[step][s];
        }
        must(left[0] > OP_TRIAL_STEPS && left[1] > OP_TRIAL_STEPS);
    }
}

static struct op_case draw_linear(struct test_random *random)
{
    struct op_case c = {.stem = between(random, 0, 1) == 0 ? OP_linear : OP_linear_add,
                        .input_type = GGML_F32,
                        .input_scale = 1.0f,
                        .rope = {.dims = 2, .magnitude = 1.0f}};
    uint32_t weights = c.stem == OP_linear ? between(random, 1, OP_WEIGHTS_MAX) : 1;
    bool mixed = between(random, 0, 2) == 0;
    enum ggml_type types[OP_WEIGHTS_MAX] = {any_type(random)};
    uint32_t block = ggml_type_block(types[0]).elements;
    for (uint32_t w = 1; w < weights; w++) {
        types[w] = mixed ? any_type(random) : types[0];
        if (ggml_type_block(types[w]).elements > block)
            block = ggml_type_block(types[w]).elements;
    }
    uint32_t columns = block * spread(random, COLUMNS_MAX / block);
    for (uint32_t w = 0; w < weights; w++) {
        c.weights[w] = (struct op_trial_weight){types[w], spread(random, OUTPUTS_MAX), columns};
        c.output_columns += c.weights[w].rows;
    }
    c.input_columns[0] = columns;
    if (c.stem == OP_linear_add) {
        c.input_columns[1] = c.output_columns;
        c.in_place = between(random, 0, 1) == 0;
    }
    c.on_logit_rows = between(random, 0, 3) == 0;
    c.wanted_every = c.on_logit_rows ? between(random, 1, 5) : 1;
    draw_steps(random, &c, 2000);
    if (columns % 4 == 0 && between(random, 0, 1) == 0)
        c.adapter_seed = between(random, 1, 1u << 30);
    return c;
}

/* The quantization of a cache: either scheme, any bits of keys and of values, starting at the first
 * token or later. */
static struct kv_quantization draw_quantization(struct test_random *random)
{
    bool uniform = between(random, 0, 2) == 0;
    struct kv_quantization drawn = {.scheme = uniform ? KV_QUANT_UNIFORM : KV_QUANT_TURBOQUANT};
    drawn.key_half_bits = uniform ? 2 * between(random, 2, 8) : between(random, 2, 8);
    drawn.value_half_bits = uniform ? 2 * between(random, 2, 8) : between(random, 2, 8);
    drawn.start_tokens = between(random, 0, 1) * between(random, 1, 200);
    return drawn;
}

static struct op_case draw_attention(struct test_random *random)
{
    static const uint32_t usual[] = {16, 32, 64, 80, 96, 128, 256};
    uint32_t kv_heads = between(random, 1, 4), group = between(random, 1, 8);
    uint32_t head_dim = between(random, 0, 3) > 0
                            ? usual[test_random_below(random, sizeof usual / sizeof *usual)]
                            : between(random, 1, 200);
    uint32_t queries = kv_heads * group * head_dim;
    uint32_t offset = between(random, 0, 1) * between(random, 0, 9);
    struct op_case c = {
        .stem = OP_attention,
        .input_columns = {offset + queries + 2 * kv_heads * head_dim},
        .input_type = GGML_F16, /* so that an f16 cache rounds nothing */
        .input_scale = 1.0f,
        .output_columns = queries,
        .rope = {.dims = 2, .magnitude = 1.0f},
        .window = between(random, 0, 2) == 0 ? spread(random, POSITIONS_MAX) : 0,
        .params.attention = {.queries = {offset, kv_heads * group, head_dim},
                             .kv_heads = kv_heads,
                             .scale = (float)between(random, 1, 20) / 5 / sqrtf((float)head_dim)},
    }; /* scores up to 4 times those of models: matrix units take queries as f16, so a score's error
          grows with its size */
    draw_steps(random, &c, POSITIONS_MAX - OP_TRIAL_STEPS);
    if (between(random, 0, 3) == 0)
        c.params.attention.soft_cap = (float)between(random, 1, 60);
    if (head_dim % KV_CODEC_ALIGNMENT == 0 && c.window == 0 && between(random, 0, 1) == 0) {
        c.quantization = draw_quantization(random);
        c.params.attention.scale *= (float)M_SQRT1_2; /* keys become f16 there, too */
    }
    return c;
}

static struct backend *create(void *context)
{
    (void)context;
    return vulkan_backend_create();
}

static void run_seed(const struct vulkan_device *device, uint64_t seed)
{
    struct test_random random = {seed};
    struct op_case c =
        test_random_below(&random, 3) > 0 ? draw_linear(&random) : draw_attention(&random);
    struct error_text error = {""};
    char name[64];
    snprintf(name, sizeof name, "vulkan (seed %" PRIu64 ")", seed);
    struct op_check_backend judged = {
        .name = name,
        .create = create,
        .options = {.threads = 1,
                    .vulkan = {.tier_limit = device->facts.tier, .kernels_when_needed = true}}};
    if (!op_check_case_against_cpu(&c, &judged, &error))
        fail_msg("seed %" PRIu64 ": %s", seed, error.text);
}

static void test_shapes(void **state)
{
    const struct vulkan_device *device = *state;
    if (!cases_given && vulkan_fixture_share(device) == VULKAN_SHARE_MATRIX) {
        first_seed += case_count; /* not what the other CPU driver has */
        case_count /= 2;
    }
    for (uint64_t seed = first_seed; seed < first_seed + case_count; seed++)
        run_seed(device, seed);
    print_message("  %u cases, seeds from %" PRIu64 " on\n", case_count, first_seed);
}

/* 32 products whose sums are small in all nine outputs of a row: the CPU, which rounds activations
 * to 8 bits, differs from the exact sums by 2.75 % of the largest. */
static void test_products_that_cancel(void **state)
{
    run_seed(*state, 1199);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_products_that_cancel)};
    cases_given = argc > 1;
    case_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : case_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    /* Some drivers fail when they are loaded a hundred times; the fixture's device keeps it loaded.
     */
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
