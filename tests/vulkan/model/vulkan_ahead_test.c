/*
 * Layers that predict a further token on a Vulkan device, beside a model whose device and matrices they
 * share: hidden states and proposals agree with those of the CPU, for every position of a sequence and along
 * a chain in which the layer takes its own states. Computed in one chunk and row by row, which gives the same
 * bits with batch_invariant. Of a prompt with images too.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/model_runner.h"
#include "tests/support/test_random.h"
#include "tests/support/tower_scene.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/model/model.h"

#define TOKENS     40u
#define ROWS       (TOKENS - 1) /* of the layer */
#define CHAIN      4u
#define BLOCKS     4u
#define PATCH_ROWS 256u
/* Root mean square of a row's differences, of its largest value. Rows pass through f16 on devices
 * (vulkan_checkpoint_forms_test.c). */
#define DIFFERENCE_MAX        4e-3
#define DIFFERENCE_MAX_IMAGES 8e-3 /* features too (vulkan_images_test.c) */
#define NEAR                  1e-2 /* of two best logits, of the largest: devices may order them otherwise */

static struct vulkan_device *device;

/* What one device computed. */
struct figures {
    uint32_t tokens[TOKENS + CHAIN];
    float *states; /* [TOKENS, hidden] */
    float *logits; /* [ROWS + CHAIN, vocab] of the layer */
};

struct pair {
    struct backend *target;
    struct backend *ahead;
    uint32_t hidden;
    uint32_t vocab;
    /* [TOKENS + CHAIN] as in struct step_batch; NULL without images */
    const uint32_t *feature_rows;
    const struct rope_position *positions;
};

static struct backend *load(struct backend *backend, const struct plan *plan,
                            const struct plan *vision, const struct backend *lender, bool on_vulkan)
{
    struct backend_options options = {.threads = 2,
                                      .activation_bits = 16,
                                      .lender = lender,
                                      .keeps_logits = true,
                                      .step_depth = 1,
                                      .max_step_rows = TOKENS,
                                      .max_logit_rows = TOKENS,
                                      .state_slots = plan->state.layers > 0 ? 1 : 0};
    struct error_text error = {""};
    if (vision && lender)
        options.sights = &vision->vision;
    if (vision && !lender) {
        options.vision = vision;
        options.max_patch_rows = PATCH_ROWS;
        options.feature_rows = TOKENS;
    }
    if (on_vulkan)
        options.vulkan = (struct vulkan_settings){.tier_limit = VULKAN_TIER_HIGHEST,
                                                  .batch_invariant = true,
                                                  .kernels_when_needed = true};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    if (backend->interface->load(backend, plan, &options, NULL, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return backend;
}

static struct pair open_pair(const struct model *model, bool sees, bool on_vulkan)
{
    const struct plan *plan = model_plan(model);
    struct pair pair = {.hidden = plan->config.hidden, .vocab = plan->config.vocab_tokens};
    struct backend *(*create)(void) = on_vulkan ? vulkan_backend_create : cpu_backend_create;
    const struct plan *vision = sees ? model_vision_plan(model) : NULL;
    pair.target = load(create(), plan, vision, NULL, on_vulkan);
    pair.ahead = load(create(), model_ahead_plan(model), vision, pair.target, on_vulkan);
    return pair;
}

static void close_pair(struct pair *pair)
{
    pair->ahead->interface->destroy(pair->ahead);
    pair->target->interface->destroy(pair->target);
}

/* Computes rows from `first` on. *drawn: of the last row; NULL: no row has logits. */
static void run(const struct pair *pair, struct backend *backend, const uint32_t *tokens,
                const float *hidden, uint32_t first, uint32_t rows, struct sampled_token *drawn)
{
    static const uint32_t blocks[BLOCKS] = {2, 0, 3, 1};
    struct sampling_params greedy = sampling_params_default();
    uint32_t logit_rows[TOKENS];
    struct row_sampling samplings[TOKENS];
    struct sampled_token results[TOKENS];
    struct error_text error = {""};
    greedy.temperature = 0.0f;
    for (uint32_t i = 0; i < rows; i++) {
        logit_rows[i] = i;
        samplings[i] = (struct row_sampling){.params = &greedy, .position = first + i + 1};
    }
    const struct step_sequence sequence = {.row_count = rows,
                                           .first_position = first,
                                           .block_tables = {blocks, blocks},
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    struct step_batch batch = {.row_count = rows,
                               .token_ids = tokens,
                               .sequence_count = 1,
                               .sequences = &sequence,
                               .logit_row_count = drawn ? rows : 0,
                               .logit_rows = logit_rows,
                               .samplings = samplings,
                               .hidden = hidden};
    if (pair->feature_rows) {
        batch.feature_rows = pair->feature_rows + first + (hidden ? 1 : 0);
        batch.rope_positions = pair->positions + first;
    }
    if (backend_step_run(backend, &batch, results, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    if (drawn)
        *drawn = results[rows - 1];
}

/* The rows of the sequence, `chunk` at a time, and the chain. Logits: [ROWS + CHAIN, vocab]. The chain's
 * tokens are drawn if `chain` is NULL, else those. */
static void run_ahead(const struct pair *pair, struct figures *figures, const uint32_t *chain,
                      uint32_t chunk)
{
    struct backend *ahead = pair->ahead;
    const struct backend_interface *interface = ahead->interface;
    size_t logit_bytes = pair->vocab * sizeof(float);
    float *state = must_alloc(pair->hidden, sizeof *state);
    struct sampled_token drawn = {0};
    for (uint32_t row = 0; row < ROWS; row += chunk) {
        uint32_t rows = ROWS - row < chunk ? ROWS - row : chunk;
        run(pair, ahead, figures->tokens + row + 1, figures->states + (size_t)row * pair->hidden,
            row, rows, &drawn);
        memcpy(figures->logits + (size_t)row * pair->vocab, interface->last_logits(ahead),
               rows * logit_bytes);
        memcpy(state, interface->last_hidden(ahead) + (size_t)(rows - 1) * pair->hidden,
               pair->hidden * sizeof *state);
    }
    for (uint32_t i = 0; i < CHAIN; i++) {
        figures->tokens[TOKENS + i] = chain ? chain[i] : drawn.token;
        run(pair, ahead, &figures->tokens[TOKENS + i], state, ROWS + i, 1, &drawn);
        memcpy(figures->logits + (size_t)(ROWS + i) * pair->vocab, interface->last_logits(ahead),
               logit_bytes);
        memcpy(state, interface->last_hidden(ahead), pair->hidden * sizeof *state);
    }
    free(state);
}

static struct figures compute(const struct pair *pair, const uint32_t *tokens,
                              const uint32_t *chain)
{
    struct figures figures = {.states = must_alloc((size_t)TOKENS * pair->hidden, sizeof(float)),
                              .logits =
                                  must_alloc((size_t)(ROWS + CHAIN) * pair->vocab, sizeof(float))};
    memcpy(figures.tokens, tokens, TOKENS * sizeof *tokens);
    run(pair, pair->target, tokens, NULL, 0, TOKENS, NULL);
    memcpy(figures.states, pair->target->interface->last_hidden(pair->target),
           (size_t)TOKENS * pair->hidden * sizeof(float));
    run_ahead(pair, &figures, chain, ROWS);
    return figures;
}

static void free_figures(struct figures *figures)
{
    free(figures->states);
    free(figures->logits);
}

static uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void compare_rows(const struct pair *pair, const char *what, const float *rows,
                         const float *reference, uint32_t count, uint32_t columns)
{
    double most = pair->feature_rows ? DIFFERENCE_MAX_IMAGES : DIFFERENCE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        double off = model_runner_row_difference(rows + (size_t)i * columns,
                                                 reference + (size_t)i * columns, columns);
        if (!(off <= most))
            fail_msg("%s of row %u: %g off", what, i, off);
    }
}

/* The tokens with the largest logits, near-ties aside. Returns how many are the same. */
static uint32_t compare_proposals(const struct pair *pair, const struct figures *theirs,
                                  const struct figures *ours)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < ROWS + CHAIN; i++) {
        const float *reference = theirs->logits + (size_t)i * pair->vocab;
        uint32_t wanted = best_of(reference, pair->vocab);
        uint32_t found = best_of(ours->logits + (size_t)i * pair->vocab, pair->vocab);
        if (found != wanted && reference[wanted] - reference[found] > NEAR * reference[wanted])
            fail_msg("row %u proposes %u, the CPU %u", i, found, wanted);
        same += found == wanted;
    }
    return same;
}

static void check_pairs(const char *path, const struct pair *cpu, const struct pair *vulkan,
                        const uint32_t *tokens)
{
    struct figures theirs = compute(cpu, tokens, NULL);
    struct figures ours = compute(vulkan, tokens, theirs.tokens + TOKENS);
    compare_rows(cpu, "hidden state", ours.states, theirs.states, TOKENS, cpu->hidden);
    compare_rows(cpu, "logits", ours.logits, theirs.logits, ROWS + CHAIN, cpu->vocab);
    uint32_t same = compare_proposals(cpu, &theirs, &ours);
    size_t bytes = (size_t)(ROWS + CHAIN) * vulkan->vocab * sizeof(float);
    float *at_once = must_alloc(1, bytes);
    memcpy(at_once, ours.logits, bytes);
    run_ahead(vulkan, &ours, theirs.tokens + TOKENS, 1); /* again, over the same cells */
    assert_memory_equal(ours.logits, at_once, bytes);
    run_ahead(vulkan, &ours, theirs.tokens + TOKENS, 7);
    assert_memory_equal(ours.logits, at_once, bytes);
    printf("%s: %u of %u proposals are the CPU's\n", path, same, ROWS + CHAIN);
    assert_true(same > (ROWS + CHAIN) * 9 / 10);
    assert_true(vulkan->ahead->interface->weights_bytes(vulkan->ahead) <
                vulkan->target->interface->weights_bytes(vulkan->target));
    free(at_once);
    free_figures(&theirs);
    free_figures(&ours);
}

static struct model *open_both(const char *path)
{
    struct model *model;
    struct error_text error = {""};
    if (model_open(path, &model, &error) != RESULT_OK ||
        model_open_ahead(model, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    return model;
}

static void check(const char *path)
{
    struct model *model = open_both(path);
    struct test_random random = {.state = 29};
    uint32_t tokens[TOKENS];
    struct pair cpu = open_pair(model, false, false), vulkan = open_pair(model, false, true);
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = test_random_below(&random, cpu.vocab);
    check_pairs(path, &cpu, &vulkan, tokens);
    close_pair(&cpu);
    close_pair(&vulkan);
    model_close(model);
}

static void encode(struct backend *backend, const struct tower_scene *scene)
{
    const struct encode_batch batch = {.image_count = scene->image_count, .images = scene->images};
    struct error_text error;
    uint64_t left;
    must(backend->interface->encode_begin(backend, &batch, &error) == RESULT_OK);
    do
        must(backend->interface->encode_part(backend, UINT64_MAX, &left, &error) == RESULT_OK);
    while (left > 0);
}

/* The scene's last prompt, then tokens of text up to TOKENS. */
static void test_images(void **state)
{
    (void)state;
    const char *path = "build/checkpoints/qwen3_5_images-ahead";
    struct model *model = open_both(path);
    struct tower_scene scene;
    struct pair pairs[2] = {open_pair(model, true, false), open_pair(model, true, true)};
    uint32_t tokens[TOKENS], feature_rows[TOKENS + CHAIN];
    struct rope_position positions[TOKENS + CHAIN];
    tower_scene_read("qwen3_5", &scene);
    const struct scene_prompt *prompt = &scene.prompts[scene.prompt_count - 1];
    for (uint32_t i = 0; i < TOKENS + CHAIN; i++) {
        bool asked = i < prompt->count;
        if (i < TOKENS)
            tokens[i] = asked ? prompt->ids[i] : 7 + i;
        feature_rows[i] = asked ? prompt->feature_rows[i] : ROW_FEATURE_NONE;
        positions[i] = asked ? prompt->positions[i] : positions[i - 1];
        positions[i].time += !asked;
        positions[i].height += !asked;
        positions[i].width += !asked;
    }
    for (uint32_t i = 0; i < 2; i++) {
        encode(pairs[i].target, &scene);
        pairs[i].feature_rows = feature_rows;
        pairs[i].positions = positions;
    }
    check_pairs(path, &pairs[0], &pairs[1], tokens);
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
    model_close(model);
    tower_scene_free(&scene);
}

static void test_dense(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5-ahead");
}

static void test_experts(void **state)
{
    (void)state;
    check("build/checkpoints/qwen3_5_moe-ahead.gguf");
}

static void test_layers_after_the_last(void **state)
{
    (void)state;
    check("build/checkpoints/glm4_moe-ahead.gguf");
    check("build/checkpoints/deepseek_v3-ahead");
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
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_layers_after_the_last),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
