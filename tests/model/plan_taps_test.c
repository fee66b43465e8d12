/*
 * Taps of the tiny checkpoints of many families, after every layer but the last: they change no logit, by a bit; each differs
 * from the one before; and where the plan may be split, a tap is to the bit what the first part passes on.
 * That they are the publishers' hidden states is shown by ahead_layer_test.c, whose golden proposals depend on
 * them.
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
#include "worker/model/model.h"
#include "worker/plan/plan_split.h"
#include "worker/plan/plan_taps.h"

#define ROWS   20u
#define BLOCKS 2u

static struct backend *run(const struct plan *plan, uint32_t logit_rows)
{
    static const uint32_t blocks[BLOCKS] = {1, 0};
    struct backend *backend = cpu_backend_create();
    struct backend_options options = {.threads = 2,
                                      .keeps_logits = true,
                                      .max_step_rows = ROWS,
                                      .max_logit_rows = ROWS,
                                      .state_slots = plan->state.layers > 0 ? 1 : 0};
    struct sampling_params greedy = sampling_params_default();
    uint32_t tokens[ROWS], rows[ROWS];
    struct row_sampling samplings[ROWS];
    struct sampled_token drawn[ROWS];
    struct error_text error = {""};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &options, NULL, NULL, &error) == RESULT_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        tokens[i] = (i * 37 + 5) % 250;
        rows[i] = i;
        samplings[i] = (struct row_sampling){.params = &greedy};
    }
    struct step_sequence sequence = {
        .row_count = ROWS, .state_source = STATE_SLOT_NONE, .state_copy = STATE_SLOT_NONE};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        sequence.block_tables[group] = blocks;
    const struct step_batch batch = {.row_count = ROWS,
                                     .token_ids = tokens,
                                     .sequence_count = 1,
                                     .sequences = &sequence,
                                     .logit_row_count = logit_rows,
                                     .logit_rows = rows,
                                     .samplings = samplings};
    must(backend_step_run(backend, &batch, drawn, &error) == RESULT_OK);
    return backend;
}

/* hidden: [ROWS, taps * columns] */
static void check_part(const struct plan *plan, const struct plan_cut *cut, const float *hidden,
                       uint32_t taps)
{
    struct plan *part = plan_split_part(plan, 0, cut->ops);
    uint32_t columns = plan->config.hidden;
    if (part->passed_count == 1 && part->tensors[part->passed[0]].columns == columns) {
        struct backend *backend = run(part, 0);
        const float *passed = backend->interface->last_passed(backend, 0);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_equal(hidden + ((size_t)row * taps + cut->layers - 1) * columns,
                                passed + (size_t)row * columns, columns * sizeof *hidden);
        backend->interface->destroy(backend);
    }
    plan_destroy(part);
}

static void check_taps(const struct plan *tapped, struct backend *backend, uint32_t taps)
{
    const float *hidden = backend->interface->last_hidden(backend);
    uint32_t columns = tapped->config.hidden;
    assert_int_equal(tapped->tensors[tapped->hidden_out].columns, taps * columns);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t tap = 1; tap < taps; tap++) {
            const float *at = hidden + ((size_t)row * taps + tap) * columns;
            assert_memory_not_equal(at, at - columns, columns * sizeof *at);
        }
}

/* Returns how many cuts of the plan were compared. */
static uint32_t check(const char *name)
{
    char path[96];
    struct model *models[2];
    struct error_text error = {""};
    uint32_t layers[LIMIT_LAYERS];
    struct plan_cut cuts[LIMIT_LAYERS];
    snprintf(path, sizeof path, "build/checkpoints/%s-f32", name);
    for (uint32_t i = 0; i < 2; i++)
        must(model_open(path, &models[i], &error) == RESULT_OK);
    const struct plan *plan = model_plan(models[0]);
    uint32_t taps = plan->config.layers - 1, count = plan_split_cuts(plan, cuts);
    for (uint32_t i = 0; i < taps; i++)
        layers[i] = i + 1;
    struct plan *tapped = (struct plan *)(uintptr_t)model_plan(models[1]);
    if (plan_taps_add(tapped, layers, taps, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    assert_int_equal(tapped->op_count, plan->op_count + taps);
    struct backend *plain = run(plan, ROWS), *other = run(tapped, ROWS);
    assert_memory_equal(plain->interface->last_logits(plain), other->interface->last_logits(other),
                        (size_t)ROWS * plan_logit_columns(plan) * sizeof(float));
    check_taps(tapped, other, taps);
    for (uint32_t i = 0; i < count; i++)
        check_part(plan, &cuts[i], other->interface->last_hidden(other), taps);
    plain->interface->destroy(plain);
    other->interface->destroy(other);
    for (uint32_t i = 0; i < 2; i++)
        model_close(models[i]);
    return count;
}

static void test_families(void **state)
{
    (void)state;
    static const char *const names[] = {"llama",    "qwen2",
                                        "qwen3",    "qwen3_moe",
                                        "qwen3_5",  "qwen3_5_moe",
                                        "gemma",    "gemma2",
                                        "gemma3",   "gpt_oss",
                                        "phi",      "glm4",
                                        "cohere2",  "lfm2",
                                        "smollm3",  "olmo2",
                                        "olmo3",    "deepseek_v2",
                                        "granite",  "minimax_m2",
                                        "exaone4",  "granitemoehybrid",
                                        "bamba",    "falcon_h1",
                                        "mamba2",   "deepseek_v3",
                                        "ernie4_5", "gemma4_moe",
                                        "phi3",     "starcoder2"};
    uint32_t cuts = 0;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        cuts += check(names[i]);
    assert_true(cuts > 40);
}

static void expect_refusal(const char *path, const uint32_t *layers, uint32_t count,
                           const char *words)
{
    struct model *model;
    struct error_text error = {""};
    must(model_open(path, &model, &error) == RESULT_OK);
    struct plan *plan = (struct plan *)(uintptr_t)model_plan(model);
    uint32_t ops = plan->op_count;
    assert_int_equal(plan_taps_add(plan, layers, count, &error), RESULT_UNSUPPORTED);
    assert_string_equal(error.text, words);
    assert_true(plan->op_count == ops && !plan->keeps_hidden);
    model_close(model);
}

static void test_refusals(void **state)
{
    (void)state;
    const uint32_t none[] = {1, 0}, last[] = {1, 3}, one[] = {1};
    expect_refusal("build/checkpoints/gemma3-f32", none, 2,
                   "it reads the model's state after 0 layers, and the model has 3");
    expect_refusal("build/checkpoints/gemma3-f32", last, 2,
                   "it reads the model's state after 3 layers, and the model has 3");
    expect_refusal("build/checkpoints/gemma3n-f32", one, 1,
                   "it reads the model's state after 1 layers, which models of family gemma3n do "
                   "not hold in one tensor there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
