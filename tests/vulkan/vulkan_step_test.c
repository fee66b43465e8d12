/*
 * Which steps submit commands that an earlier step recorded: decode steps with the same number of
 * rows and the same class of context lengths. Recording shows in the kernels: before each step that
 * must record, the program's device facts are changed, so that attention asks for new kernels.
 */
// tags: threads
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/backend/vulkan/step/vulkan_host_draws.h"
#include "worker/backend/vulkan/step/vulkan_step.h"
#include "worker/backend/vulkan/weights/vulkan_weight_loader.h"

enum { HEAD_DIM = 16, QKV = 3 * HEAD_DIM, VOCAB = 64, BLOCKS = 4, ROWS = 3 };

/* One head over all positions; its output is the logits. */
static struct plan_sketch *sketch_attention(void)
{
    struct plan_sketch *sketch = plan_sketch_create(1);
    struct plan *plan = plan_sketch_plan(sketch);
    const struct column_slice queries = {0, 1, HEAD_DIM}, keys = {HEAD_DIM, 1, HEAD_DIM},
                              values = {2 * HEAD_DIM, 1, HEAD_DIM};
    plan->config.vocab_tokens = HEAD_DIM;
    plan_sketch_set_kv(sketch, 1, 1, HEAD_DIM, 0);
    plan_tensor_id qkv = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, QKV);
    plan_tensor_id attended = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, HEAD_DIM);
    plan_weight_id table = plan_sketch_weight(sketch, GGML_F32, VOCAB, QKV);
    plan_sketch_append_op(sketch, OP_embed_rows, PLAN_NONE, PLAN_NONE, qkv, &table, 1,
                          (union op_params){.embed_rows = {1.0f}});
    plan_sketch_append_op(sketch, OP_kv_write, qkv, PLAN_NONE, PLAN_NONE, NULL, 0,
                          (union op_params){.kv_write = {keys, values, 0}});
    plan_sketch_append_op(sketch, OP_attention, qkv, PLAN_NONE, attended, NULL, 0,
                          (union op_params){.attention = {queries, 1, 0, 0, 0.25f, 0.0f}});
    plan->logits = plan_sketch_tensor(sketch, PLAN_ROWS_LOGITS, HEAD_DIM);
    plan_sketch_append_op(sketch, OP_gather_rows, attended, PLAN_NONE, plan->logits, NULL, 0,
                          (union op_params){.linear = {0}});
    return sketch;
}

struct rig {
    struct vulkan_device device; /* the facts are the rig's own */
    struct plan_sketch *sketch;
    struct vulkan_kernels *kernels;
    struct vulkan_program program;
    struct vulkan_steps *steps;
    uint32_t *table; /* the same few blocks over and over */
};

/* Of so many that scratch memory is enough for fewer. */
#define UNITS_MAX 64u

static void begin_rig(struct rig *rig, const struct vulkan_device *device)
{
    struct error_text error = {""};
    const struct backend_options options = {
        .max_step_rows = ROWS, .max_logit_rows = ROWS, .kv_blocks = {BLOCKS}};
    const struct vulkan_steps_options step_options = {
        .depth = 1, .kernels_when_needed = true, .keeps_logits = true};
    struct vulkan_weight_origin origin;
    uint32_t blocks = 2 * VULKAN_FAR_CONTEXT / KV_BLOCK_TOKENS;
    *rig = (struct rig){.device = *device, .sketch = sketch_attention()};
    rig->device.facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    rig->device.facts.compute_units = UNITS_MAX;
    must(vulkan_kernels_create(&rig->device, NULL, &rig->kernels, &error) == RESULT_OK);
    must(vulkan_program_init(&rig->program, &rig->device, rig->kernels,
                             plan_sketch_plan(rig->sketch), &options, &error) == RESULT_OK);
    must(vulkan_weight_loader_run(&rig->program.weights, &options, NULL, NULL, &origin, &error) ==
         RESULT_OK);
    must(vulkan_steps_create(&rig->program, &step_options, &rig->steps, &error) == RESULT_OK);
    rig->table = must_alloc(blocks, sizeof *rig->table);
    for (uint32_t i = 0; i < blocks; i++)
        rig->table[i] = i % BLOCKS;
}

static void end_rig(struct rig *rig)
{
    free(rig->table);
    vulkan_steps_destroy(rig->steps);
    vulkan_program_fini(&rig->program);
    vulkan_kernels_destroy(rig->kernels);
    plan_sketch_destroy(rig->sketch);
}

/* Steps of one row per sequence after this many positions, drawn with `samplings`, one step per slot. */
static void step_with(struct rig *rig, const uint32_t *positions,
                      const struct row_sampling *samplings, uint32_t rows,
                      struct sampled_token *results)
{
    static const uint32_t tokens[ROWS] = {1, 2, 3}, logit_rows[ROWS] = {0, 1, 2};
    struct step_sequence sequences[ROWS];
    struct error_text error = {""};
    for (uint32_t s = 0; s < rows; s++) {
        sequences[s] = (struct step_sequence){.first_row = s,
                                              .row_count = 1,
                                              .first_position = positions[s],
                                              .block_tables = {rig->table},
                                              .state_slot = STATE_SLOT_NONE,
                                              .state_source = STATE_SLOT_NONE,
                                              .state_copy = STATE_SLOT_NONE};
    }
    const struct step_batch batch = {.row_count = rows,
                                     .token_ids = tokens,
                                     .sequence_count = rows,
                                     .sequences = sequences,
                                     .logit_row_count = rows,
                                     .logit_rows = logit_rows,
                                     .samplings = samplings};
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        if (vulkan_steps_launch(rig->steps, &batch, &error) != RESULT_OK ||
            vulkan_steps_wait(rig->steps, results, &error) != RESULT_OK)
            fail_msg("%s", error.text);
    }
}

/* The same with greedy draws; returns the number of kernels made. */
static uint32_t step(struct rig *rig, const uint32_t *positions, uint32_t rows)
{
    const struct sampling_params greedy = sampling_params_default();
    struct row_sampling samplings[ROWS];
    struct sampled_token results[ROWS];
    for (uint32_t s = 0; s < rows; s++)
        samplings[s] = (struct row_sampling){.params = &greedy};
    uint32_t before = vulkan_kernels_count(rig->kernels);
    step_with(rig, positions, samplings, rows, results);
    return vulkan_kernels_count(rig->kernels) - before;
}

/* Alone, and beside a shorter context. */
static const struct {
    uint32_t positions[2];
    uint32_t units; /* of the device when it is met first */
} reaches[] = {
    {{10, VULKAN_SHORT_CONTEXT - 1}, UNITS_MAX},
    {{10, VULKAN_SHORT_CONTEXT}, 24},
    {{VULKAN_SHORT_CONTEXT, VULKAN_FAR_CONTEXT - 1}, 0},
    {{10, VULKAN_FAR_CONTEXT}, 12},
    {{2 * VULKAN_FAR_CONTEXT - 1, 10}, 0},
};
#define REACHES (sizeof reaches / sizeof reaches[0])

static void records_once_for_each_reach(void **state)
{
    struct rig rig;
    begin_rig(&rig, *state);
    for (size_t i = 0; i < REACHES; i++) {
        rig.device.facts.compute_units = reaches[i].units > 0 ? reaches[i].units : 1;
        assert_int_equal(step(&rig, reaches[i].positions, 2) > 0, reaches[i].units > 0);
    }
    rig.device.facts.compute_units = 1;
    for (size_t i = REACHES; i-- > 0;)
        assert_int_equal(step(&rig, reaches[i].positions, 2), 0);
    end_rig(&rig);
}

/* Each number of rows has its own commands, and each reach of it too. */
static void records_once_for_each_number_of_rows(void **state)
{
    static const uint32_t positions[ROWS] = {500, 20000, 700};
    struct rig rig;
    begin_rig(&rig, *state);
    assert_true(step(&rig, positions, 1) > 0);
    rig.device.facts.compute_units = 12;
    assert_true(step(&rig, positions, 3) > 0);
    rig.device.facts.compute_units = 1;
    assert_int_equal(step(&rig, positions, 1), 0);
    assert_int_equal(step(&rig, positions + 2, 1), 0);
    assert_true(step(&rig, positions + 1, 1) > 0);
    end_rig(&rig);
}

/* Each of a step's rows is drawn by the device or, with one of four samplers, by the host; both as
 * row_sampler_draw() draws from the step's raw logits. */
static void rows_are_drawn_by_device_and_host(void **state)
{
    static const uint32_t positions[ROWS] = {10, 12, 14};
    static const uint32_t history[8] = {1, 2, 3, 1, 2, 3, 1, 2};
    static const struct logit_bias_entry biases[] = {{3, 2.0f}, {5, 1.5f}, {7, 1.0f}, {2, 0.5f}};
    struct rig rig;
    begin_rig(&rig, *state);
    struct row_sampler *sampler = row_sampler_create(HEAD_DIM);
    uint32_t host_rows = 0;
    for (uint32_t trial = 0; trial < 20; trial++) {
        struct sampling_params params[ROWS];
        struct row_sampling samplings[ROWS];
        struct sampled_token results[ROWS];
        for (uint32_t s = 0; s < ROWS; s++) {
            uint32_t kind = (trial + s * s) % 5;
            params[s] = sampling_params_default();
            params[s].temperature = 1.0f;
            params[s].seed = trial;
            params[s].dynatemp_range = kind == 1 ? 0.7f : 0.0f;
            params[s].xtc_probability = kind == 2 ? 0.8f : 0.0f;
            params[s].xtc_threshold = 0.1f;
            params[s].mirostat = kind == 3 ? 2 : 0;
            params[s].mirostat_mu = 3.0f;
            params[s].mirostat_eta = 0.2f;
            params[s].dry_multiplier = kind == 4 ? 3.0f : 0.0f;
            params[s].dry_base = 1.5f;
            params[s].dry_allowed_length = 1;
            samplings[s] = (struct row_sampling){.params = &params[s],
                                                 .logit_bias = biases,
                                                 .logit_bias_count = 4,
                                                 .position = 8,
                                                 .history = history,
                                                 .wants_logprob = kind > 0,
                                                 .top_logprobs = kind > 0 ? 3 : 0};
            assert_int_equal(vulkan_host_draws_wanted(&samplings[s]), kind > 0);
            assert_true(kind == 0 || !vulkan_steps_draw_ahead(rig.steps, &samplings[s]));
            host_rows += kind > 0;
        }
        step_with(&rig, positions, samplings, ROWS, results);
        for (uint32_t s = 0; s < ROWS; s++) {
            const float *logits = vulkan_steps_last_logits(rig.steps) + s * HEAD_DIM;
            struct sampled_token wanted = row_sampler_draw(sampler, logits, &samplings[s]);
            assert_int_equal(results[s].token, wanted.token);
            assert_int_equal(results[s].alternative_count, wanted.alternative_count);
            assert_true(fabsf(results[s].logprob - wanted.logprob) < 1e-5f);
            if (params[s].mirostat == 2)
                assert_true(results[s].mirostat_mu == wanted.mirostat_mu);
        }
    }
    assert_in_range(host_rows, 40, 55);
    row_sampler_destroy(sampler);
    end_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_once_for_each_reach),
        cmocka_unit_test(records_once_for_each_number_of_rows),
        cmocka_unit_test(rows_are_drawn_by_device_and_host),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
