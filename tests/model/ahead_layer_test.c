/*
 * Layers that predict a further token against golden proposals (scripts/golden/ahead_layers.py): for
 * every position of a sequence, and along a chain in which the layer takes its own hidden states. From
 * folders and GGUF files, computed in one chunk and row by row.
 */
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
#include "worker/model/model.h"

#define TOKENS    28u
#define CHAIN     3u
#define BLOCKS    4u
#define TOLERANCE 2e-5 /* root mean square of a row's differences, of its largest logit */

struct golden {
    uint32_t ids[TOKENS + CHAIN]; /* the sequence, then the chain */
    uint32_t vocab;
    float *logits; /* [TOKENS - 1 + CHAIN, vocab] */
};

static void read_golden(const char *family, uint32_t vocab, struct golden *golden)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/ahead/%s/ids.txt", family);
    FILE *file = fopen(path, "r");
    must(file);
    for (uint32_t i = 0; i < TOKENS + CHAIN; i++)
        must(fscanf(file, "%u", &golden->ids[i]) == 1);
    fclose(file);
    snprintf(path, sizeof path, "tests/golden/ahead/%s/logits.f32", family);
    file = fopen(path, "rb");
    size_t floats = (size_t)(TOKENS - 1 + CHAIN) * vocab;
    golden->vocab = vocab;
    golden->logits = must_alloc(floats, sizeof *golden->logits);
    must(file && fread(golden->logits, sizeof *golden->logits, floats, file) == floats);
    fclose(file);
}

/* A plan on the CPU, one sequence in blocks 0, 1 and so on. */
static struct backend *load(const struct plan *plan)
{
    struct backend *backend = cpu_backend_create();
    struct backend_options options = {.threads = 2,
                                      .activation_bits = 16,
                                      .kv_type = KV_CACHE_F32,
                                      .keeps_logits = true,
                                      .max_step_rows = TOKENS,
                                      .max_logit_rows = TOKENS,
                                      .state_slots = 1};
    struct error_text error = {""};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &options, NULL, NULL, &error) == RESULT_OK);
    return backend;
}

/* Computes rows from `first` on, all with logits. */
static void run(struct backend *backend, const uint32_t *tokens, const float *hidden,
                uint32_t first, uint32_t rows, bool recurrent)
{
    static const uint32_t blocks[BLOCKS] = {0, 1, 2, 3};
    struct sampling_params greedy = sampling_params_default();
    uint32_t logit_rows[TOKENS];
    struct row_sampling samplings[TOKENS];
    struct sampled_token results[TOKENS];
    struct error_text error = {""};
    for (uint32_t i = 0; i < rows; i++) {
        logit_rows[i] = i;
        samplings[i] = (struct row_sampling){.params = &greedy};
    }
    const struct step_sequence sequence = {.row_count = rows,
                                           .first_position = first,
                                           .block_tables = {blocks, blocks},
                                           .state_slot = recurrent ? 0 : STATE_SLOT_NONE,
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    const struct step_batch batch = {.row_count = rows,
                                     .token_ids = tokens,
                                     .sequence_count = 1,
                                     .sequences = &sequence,
                                     .logit_row_count = rows,
                                     .logit_rows = logit_rows,
                                     .samplings = samplings,
                                     .hidden = hidden};
    must(backend_step_run(backend, &batch, results, &error) == RESULT_OK);
}

static void compare(const struct golden *golden, const struct backend *backend, uint32_t first,
                    uint32_t rows)
{
    const float *logits = backend->interface->last_logits(backend);
    for (uint32_t i = 0; i < rows; i++) {
        const float *expected = golden->logits + (size_t)(first + i) * golden->vocab;
        double off = model_runner_row_difference(logits + (size_t)i * golden->vocab, expected,
                                                 golden->vocab);
        if (!(off <= TOLERANCE))
            fail_msg("row %u: %g off", first + i, off);
    }
}

/* The chain after the first TOKENS - 1 rows; its states are the layer's own. */
static void check_chain(const struct golden *golden, struct backend *ahead, uint32_t rows,
                        uint32_t hidden)
{
    float *state = must_alloc(hidden, sizeof *state);
    for (uint32_t i = 0; i < CHAIN; i++, rows = 1) {
        memcpy(state, ahead->interface->last_hidden(ahead) + (size_t)(rows - 1) * hidden,
               hidden * sizeof *state);
        run(ahead, &golden->ids[TOKENS + i], state, TOKENS - 1 + i, 1, false);
        compare(golden, ahead, TOKENS - 1 + i, 1);
    }
    free(state);
}

static void check(const char *family, const char *path)
{
    struct model *model;
    struct error_text error = {""};
    struct golden golden;
    if (model_open(path, &model, &error) != RESULT_OK ||
        model_open_ahead(model, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    const struct plan *plan = model_plan(model), *ahead_plan = model_ahead_plan(model);
    uint32_t hidden = plan->config.hidden;
    read_golden(family, plan->config.vocab_tokens, &golden);
    struct backend *target = load(plan);
    run(target, golden.ids, NULL, 0, TOKENS, true);
    const float *states = target->interface->last_hidden(target);
    struct backend *ahead = load(ahead_plan);
    run(ahead, golden.ids + 1, states, 0, TOKENS - 1, false);
    compare(&golden, ahead, 0, TOKENS - 1);
    check_chain(&golden, ahead, TOKENS - 1, hidden);
    for (uint32_t row = 0; row + 1 < TOKENS; row++) { /* again, over the same cells */
        run(ahead, golden.ids + 1 + row, states + (size_t)row * hidden, row, 1, false);
        compare(&golden, ahead, row, 1);
    }
    check_chain(&golden, ahead, 1, hidden);
    ahead->interface->destroy(ahead);
    target->interface->destroy(target);
    model_close(model);
    free(golden.logits);
}

static void test_dense(void **state)
{
    (void)state;
    check("qwen3_5", "build/checkpoints/qwen3_5-ahead");
    check("qwen3_5", "build/checkpoints/qwen3_5-ahead.gguf");
}

static void test_experts(void **state)
{
    (void)state;
    check("qwen3_5_moe", "build/checkpoints/qwen3_5_moe-ahead");
    check("qwen3_5_moe", "build/checkpoints/qwen3_5_moe-ahead.gguf");
}

static void expect_none(const char *path, enum result wanted)
{
    struct model *model;
    struct error_text error = {""};
    must(model_open(path, &model, &error) == RESULT_OK);
    assert_int_equal(model_open_ahead(model, &error), wanted);
    assert_null(model_ahead_plan(model));
    assert_false(model_plan(model)->keeps_hidden);
    model_close(model);
}

static void test_without_such_a_layer(void **state)
{
    (void)state;
    expect_none("build/checkpoints/qwen3_5-f32", RESULT_NOT_FOUND);
    expect_none("build/checkpoints/llama-f32.gguf", RESULT_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_without_such_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
