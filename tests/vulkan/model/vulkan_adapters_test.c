/*
 * LoRA adapters on a Vulkan device: logits of PEFT's adapters (tests/golden/adapters) and their greedy
 * tokens; adapters drawn at random, with ranks up to 256 and every type of matrix, as the CPU backend
 * computes them; with --batch-invariant the same bits alone and among others, whichever adapters
 * these have, and for rows without one.
 */
// tags: no-sanitizers
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/drawn_adapter.h"
#include "tests/support/model_runner.h"
#include "tests/support/vulkan_fixture.h"

#define GOLDEN    "tests/golden/"
#define POSITIONS 24u
#define GREEDY    24u
#define STREAMS   16u
#define ADAPTERS  7u
/* Of the largest logit: keys and values are f16 here, and for matrix units activations too, which
 * adapters of large scales make larger. */
#define DIFFERENCE       2e-3
#define DIFFERENCE_UNITS 6e-3

static struct vulkan_device *device;

static const struct vulkan_settings settings = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                .kernels_when_needed = true};
static const struct vulkan_settings invariant = {
    .tier_limit = VULKAN_TIER_HIGHEST, .batch_invariant = true, .kernels_when_needed = true};

static struct model_runner *create_runner(const char *path, const struct vulkan_settings *vulkan)
{
    const struct model_runner_options options = {.vulkan = vulkan,
                                                 .adapters = true,
                                                 .threads = 2,
                                                 .activation_bits = 16,
                                                 .kv_type = vulkan ? KV_CACHE_F16 : KV_CACHE_F32,
                                                 .sequences = STREAMS,
                                                 .sequence_tokens = POSITIONS + GREEDY,
                                                 .step_rows = STREAMS * POSITIONS};
    return model_runner_create(path, &options);
}

static void read_numbers(const char *folder, const char *name, uint32_t *ids, uint32_t count)
{
    char path[512];
    snprintf(path, sizeof path, GOLDEN "adapters/%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    must(file);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(fscanf(file, "%u", &ids[i]), 1);
    fclose(file);
}

static double difference(const float *have, const float *want, size_t count)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)have[i] - (double)want[i]);
        worst = off > worst || isnan(off) ? off : worst;
        largest = fmax(largest, fabs((double)want[i]));
    }
    return worst / largest;
}

static void expect_logits(const char *name, const float *have, const float *want, size_t count)
{
    bool plain = vulkan_fixture_share(device) == VULKAN_SHARE_PLAIN;
    double most = plain ? DIFFERENCE : DIFFERENCE_UNITS;
    double off = difference(have, want, count);
    printf("%-28s %.1e of the largest logit\n", name, off);
    if (!(off <= most))
        fail_msg("%s differs by %g of the largest logit", name, off);
}

static const char *const folders[] = {"llama_plain", "llama_wide",    "llama_patterns",
                                      "qwen3_half",  "cohere2_plain", "olmo2_plain",
                                      "phi3_joined", "llama_rslora"};
static void read_base(const char *folder, char base[256])
{
    char path[512], name[128];
    snprintf(path, sizeof path, GOLDEN "adapters/%s/base.txt", folder);
    FILE *file = fopen(path, "rb");
    must(file && fscanf(file, "%127s", name) == 1);
    fclose(file);
    snprintf(base, 256, GOLDEN "%s", name);
}

static void check_golden(const char *folder)
{
    uint32_t ids[POSITIONS], greedy[GREEDY], last = 0;
    char base[256], path[512];
    read_base(folder, base);
    read_numbers(folder, "ids.txt", ids, POSITIONS);
    read_numbers(folder, "greedy.txt", greedy, GREEDY);
    struct model_runner *runner = create_runner(base, &settings);
    size_t count = (size_t)POSITIONS * model_runner_plan(runner)->config.vocab_tokens;
    float *want = must_alloc(count, sizeof *want);
    snprintf(path, sizeof path, GOLDEN "adapters/%s/logits.f32", folder);
    FILE *file = fopen(path, "rb");
    must(file && fread(want, sizeof *want, count, file) == count);
    fclose(file);
    snprintf(path, sizeof path, GOLDEN "adapters/%s", folder);
    model_runner_adapter(runner, 0, path);
    struct model_runner_part part = {.tokens = ids, .count = POSITIONS, .adapter = 1};
    expect_logits(folder, model_runner_step(runner, &part, 1), want, count);
    model_runner_reset(runner, 0);
    for (uint32_t i = 0; i < GREEDY; i++) {
        part = (struct model_runner_part){.tokens = i == 0 ? ids : &last,
                                          .count = i == 0 ? POSITIONS : 1,
                                          .logit_from = i == 0 ? POSITIONS - 1 : 0,
                                          .adapter = 1};
        (void)model_runner_step(runner, &part, 1);
        last = model_runner_drawn(runner)[0].token;
        assert_int_equal(last, greedy[i]);
    }
    free(want);
    model_runner_destroy(runner);
}

static void test_adapters_of_peft(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof folders / sizeof *folders; i++)
        check_golden(folders[i]);
}

/* The tokens of stream s. */
static void draw_tokens(struct test_random *random, uint32_t vocab,
                        uint32_t ids[STREAMS][POSITIONS])
{
    for (uint32_t s = 0; s < STREAMS; s++)
        for (uint32_t i = 0; i < POSITIONS; i++)
            ids[s][i] = test_random_below(random, vocab);
}

/* One step with all streams, of which each has another number of rows and another adapter. */
static uint32_t list_parts(uint32_t ids[STREAMS][POSITIONS],
                           struct model_runner_part parts[STREAMS])
{
    uint32_t rows = 0;
    for (uint32_t s = 0; s < STREAMS; s++) {
        uint32_t count = s % 5 == 0 ? POSITIONS : 1 + s % POSITIONS;
        parts[s] = (struct model_runner_part){
            .slot = s, .tokens = ids[s], .count = count, .adapter = s % (ADAPTERS + 1)};
        rows += count;
    }
    return rows;
}

static void check_drawn(const char *path, uint64_t seed)
{
    struct test_random random = {.state = seed};
    uint32_t ids[STREAMS][POSITIONS];
    struct model_runner_part parts[STREAMS];
    struct model_runner *cpu = create_runner(path, NULL), *gpu = create_runner(path, &settings);
    uint32_t vocab = model_runner_plan(cpu)->config.vocab_tokens;
    for (uint32_t slot = 0; slot < ADAPTERS; slot++) {
        struct lora_adapter adapter;
        drawn_adapter_init(&adapter, model_runner_plan(cpu), &random, 0);
        model_runner_adapter_load(cpu, slot, &adapter);
        model_runner_adapter_load(gpu, slot, &adapter);
        drawn_adapter_fini(&adapter);
    }
    draw_tokens(&random, vocab, ids);
    size_t count = (size_t)list_parts(ids, parts) * vocab;
    float *want = must_alloc(count, sizeof *want);
    memcpy(want, model_runner_step(cpu, parts, STREAMS), count * sizeof *want);
    expect_logits(path, model_runner_step(gpu, parts, STREAMS), want, count);
    free(want);
    model_runner_destroy(cpu);
    model_runner_destroy(gpu);
}

static void test_drawn_adapters_are_the_cpus(void **state)
{
    (void)state;
    check_drawn("build/checkpoints/llama-f32", 3);
    check_drawn("build/checkpoints/qwen3-f32", 4);
    check_drawn("tests/golden/checkpoints/phi3", 5);
}

/* Logits of a stream alone, in one piece. */
static void run_alone(struct model_runner *runner, const struct model_runner_part *part,
                      float *logits)
{
    size_t floats = (size_t)part->count * model_runner_plan(runner)->config.vocab_tokens;
    memcpy(logits, model_runner_step(runner, part, 1), floats * sizeof *logits);
    model_runner_reset(runner, part->slot);
}

/* All streams in one step, then each goes on by single rows, whose commands are submitted again. */
static void check_company(struct model_runner *runner, uint32_t ids[STREAMS][POSITIONS],
                          float *alone[STREAMS])
{
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    struct model_runner_part parts[STREAMS];
    (void)list_parts(ids, parts);
    for (uint32_t running = STREAMS; running > 0;) {
        const float *logits = model_runner_step(runner, parts, running);
        uint32_t left = 0;
        for (uint32_t i = 0; i < running; i++) {
            struct model_runner_part *part = &parts[i];
            size_t done = (size_t)(part->tokens - ids[part->slot]);
            assert_memory_equal(logits, alone[part->slot] + done * vocab,
                                part->count * (size_t)vocab * sizeof *logits);
            logits += part->count * (size_t)vocab;
            part->tokens += part->count;
            done += part->count;
            part->count = 1;
            if (done < POSITIONS)
                parts[left++] = *part;
        }
        running = left;
    }
}

static void check_invariance(const char *path)
{
    struct test_random random = {.state = 8};
    uint32_t ids[STREAMS][POSITIONS];
    float *alone[STREAMS];
    struct model_runner *runner = create_runner(path, &invariant);
    const struct plan *plan = model_runner_plan(runner);
    draw_tokens(&random, plan->config.vocab_tokens, ids);
    for (uint32_t s = 0; s < STREAMS; s++) {
        alone[s] = must_alloc((size_t)POSITIONS * plan->config.vocab_tokens, sizeof(float));
        if (s % (ADAPTERS + 1) == 0) /* before any adapter is there */
            run_alone(runner,
                      &(struct model_runner_part){.slot = s, .tokens = ids[s], .count = POSITIONS},
                      alone[s]);
    }
    struct lora_adapter adapter;
    drawn_adapter_init(&adapter, plan, &random, LIMIT_ADAPTER_RANK);
    model_runner_adapter_load(runner, 0, &adapter);
    model_runner_adapter_drop(runner, 0);
    drawn_adapter_fini(&adapter);
    for (uint32_t slot = 0; slot < ADAPTERS; slot++) {
        drawn_adapter_init(&adapter, plan, &random, 0);
        model_runner_adapter_load(runner, slot, &adapter);
        drawn_adapter_fini(&adapter);
        /* Alone also means: without the adapters that come later. */
        for (uint32_t s = slot + 1; s < STREAMS; s += ADAPTERS + 1)
            run_alone(runner,
                      &(struct model_runner_part){
                          .slot = s, .tokens = ids[s], .count = POSITIONS, .adapter = slot + 1},
                      alone[s]);
    }
    check_company(runner, ids, alone);
    for (uint32_t s = 0; s < STREAMS; s++)
        free(alone[s]);
    model_runner_destroy(runner);
}

static void test_bits_do_not_depend_on_company(void **state)
{
    (void)state;
    check_invariance("build/checkpoints/llama-f32");
    check_invariance("build/checkpoints/llama-q4_0.gguf");
}

static int setup(void **state)
{
    (void)state;
    return vulkan_fixture_setup((void **)&device);
}

static int teardown(void **state)
{
    (void)state;
    return vulkan_fixture_teardown((void **)&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapters_of_peft),
        cmocka_unit_test(test_drawn_adapters_are_the_cpus),
        cmocka_unit_test(test_bits_do_not_depend_on_company),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
