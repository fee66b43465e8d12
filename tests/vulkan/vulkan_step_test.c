/*
 * Which steps submit commands that an earlier step recorded: decode steps with the same number of
 * rows and the same class of context lengths. Recording shows in the kernels: before each step that
 * must record, the program's device facts are changed, so that attention asks for new kernels.
 * Steps whose masks follow the launch draw as steps with masks, beside another step.
 */
// tags: threads
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/test_random.h"
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
    uint32_t *table; /* the same few blocks over and over; of sequence s from entry s on */
};

/* Of so many that scratch memory is enough for fewer. */
#define UNITS_MAX 64u

static void begin_rig(struct rig *rig, const struct vulkan_device *device)
{
    struct error_text error = {""};
    const struct backend_options options = {
        .max_step_rows = ROWS, .max_logit_rows = ROWS, .kv_blocks = {BLOCKS}};
    const struct vulkan_steps_options step_options = {
        .depth = STEP_DEPTH_MAX, .kernels_when_needed = true, .keeps_logits = true};
    struct vulkan_weight_origin origin;
    uint32_t blocks = 2 * VULKAN_FAR_CONTEXT / KV_BLOCK_TOKENS + ROWS;
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

/* For tests of draws: with the sampler's kernels and the time limit of the device as it is. */
static void begin_drawing_rig(struct rig *rig, const struct vulkan_device *device)
{
    begin_rig(rig, device);
    rig->device.facts.type = device->facts.type;
}

static void end_rig(struct rig *rig)
{
    free(rig->table);
    vulkan_steps_destroy(rig->steps);
    vulkan_program_fini(&rig->program);
    vulkan_kernels_destroy(rig->kernels);
    plan_sketch_destroy(rig->sketch);
}

/* A step of one row per sequence. */
struct decode {
    struct step_sequence sequences[ROWS];
    struct step_batch batch;
};

/* `tokens`, `positions` and `samplings`: [rows]. */
static void make_decode(const struct rig *rig, const uint32_t *tokens, const uint32_t *positions,
                        const struct row_sampling *samplings, uint32_t rows, struct decode *decode)
{
    static const uint32_t logit_rows[ROWS] = {0, 1, 2};
    for (uint32_t s = 0; s < rows; s++) {
        decode->sequences[s] = (struct step_sequence){.first_row = s,
                                                      .row_count = 1,
                                                      .first_position = positions[s],
                                                      .block_tables = {rig->table + s},
                                                      .state_slot = STATE_SLOT_NONE,
                                                      .state_source = STATE_SLOT_NONE,
                                                      .state_copy = STATE_SLOT_NONE};
    }
    decode->batch = (struct step_batch){.row_count = rows,
                                        .token_ids = tokens,
                                        .sequence_count = rows,
                                        .sequences = decode->sequences,
                                        .logit_row_count = rows,
                                        .logit_rows = logit_rows,
                                        .samplings = samplings};
}

static void launch(const struct rig *rig, const struct step_batch *batch)
{
    struct error_text error = {""};
    if (vulkan_steps_launch(rig->steps, batch, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void wait_for_step(const struct rig *rig, struct sampled_token *results)
{
    struct error_text error = {""};
    if (vulkan_steps_wait(rig->steps, results, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

/* Steps of one row per sequence after this many positions, drawn with `samplings`, one step per slot. */
static void step_with(struct rig *rig, const uint32_t *positions,
                      const struct row_sampling *samplings, uint32_t rows,
                      struct sampled_token *results)
{
    static const uint32_t tokens[ROWS] = {1, 2, 3};
    struct decode decode;
    make_decode(rig, tokens, positions, samplings, rows, &decode);
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        launch(rig, &decode.batch);
        wait_for_step(rig, results);
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
    begin_drawing_rig(&rig, *state);
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

/* --- draws that follow their rows ------------------------------------------------------------- */

/* Draws of all kinds, of which some are masked. */
struct masked_rows {
    struct sampling_params params[ROWS];
    struct row_sampling samplings[ROWS]; /* complete */
    struct row_sampling unmasked[ROWS];  /* before the masks are known */
    uint32_t masks[ROWS];                /* a word: HEAD_DIM tokens */
};

static void draw_masked_rows(struct test_random *random, struct masked_rows *rows)
{
    static const uint32_t history[8] = {1, 2, 3, 1, 2, 3, 1, 2};
    static const struct logit_bias_entry biases[] = {{3, 2.0f}, {5, 1.5f}, {7, 1.0f}, {2, 0.5f}};
    for (uint32_t s = 0; s < ROWS; s++) {
        struct sampling_params params = sampling_params_default();
        bool logprobs = test_random_below(random, 2) == 0;
        params.temperature = test_random_below(random, 3) == 0 ? 0.0f : 1.2f;
        params.seed = test_random_next(random);
        params.dynatemp_range = test_random_below(random, 5) == 0 ? 0.7f : 0.0f;
        params.mirostat = test_random_below(random, 6) == 0 ? 2 : 0;
        params.mirostat_mu = 3.0f;
        params.mirostat_eta = 0.2f;
        rows->params[s] = params;
        rows->unmasked[s] = (struct row_sampling){.params = &rows->params[s],
                                                  .logit_bias = biases,
                                                  .logit_bias_count = test_random_below(random, 5),
                                                  .position = 8,
                                                  .history = history,
                                                  .wants_logprob = logprobs,
                                                  .top_logprobs = logprobs ? 3 : 0};
        rows->samplings[s] = rows->unmasked[s];
        if (test_random_below(random, 3) == 0)
            continue;
        uint32_t first = test_random_below(random, HEAD_DIM);
        rows->masks[s] = 1u << first | ((uint32_t)test_random_next(random) &
                                        (uint32_t)test_random_next(random) & 0xffffu);
        rows->samplings[s].mask = &rows->masks[s];
        rows->samplings[s].is_forced = rows->masks[s] == 1u << first;
        rows->samplings[s].forced_token = rows->samplings[s].is_forced ? first : 0;
    }
}

/* The logits in the device's memory, by commands after those of the steps launched so far.
 * `fill`: they are all set to this instead; NULL: read into `logits` [ROWS * HEAD_DIM]. */
static void touch_logits(const struct rig *rig, const uint32_t *fill, float *logits)
{
    const struct vulkan_piece *piece = &rig->program.tensors[rig->program.plan->logits].whole;
    const uint64_t bytes = ROWS * HEAD_DIM * sizeof *logits;
    struct vulkan_buffer readback = {0};
    struct vulkan_commands *commands;
    struct error_text error = {""};
    must(vulkan_buffer_create(&rig->device, VULKAN_READBACK, bytes, "test", &readback, &error) ==
         RESULT_OK);
    must(vulkan_commands_create(&rig->device, VULKAN_QUEUE_COMPUTE, 0, &commands, &error) ==
         RESULT_OK);
    must(vulkan_commands_begin(commands, &error) == RESULT_OK);
    vulkan_commands_barrier(commands);
    if (fill)
        vulkan_commands_fill(commands, piece->buffer, piece->offset, bytes, *fill);
    else
        vulkan_commands_copy(commands, piece->buffer, piece->offset, &readback, 0, bytes);
    vulkan_commands_barrier(commands);
    must(vulkan_commands_end(commands, &error) == RESULT_OK);
    must(vulkan_commands_run(commands, &error) == RESULT_OK);
    if (!fill)
        memcpy(logits, readback.mapped, bytes);
    vulkan_commands_destroy(commands);
    vulkan_buffer_destroy(&rig->device, &readback);
}

static void assert_same_draws(const struct sampled_token *a, const struct sampled_token *b)
{
    for (uint32_t s = 0; s < ROWS; s++) {
        assert_int_equal(a[s].token, b[s].token);
        assert_true(a[s].logprob == b[s].logprob);
        assert_true(a[s].mirostat_mu == b[s].mirostat_mu);
        assert_int_equal(a[s].alternative_count, b[s].alternative_count);
        for (uint32_t i = 0; i < a[s].alternative_count; i++)
            assert_int_equal(a[s].alternatives[i].token, b[s].alternatives[i].token);
    }
}

static void assert_obeyed(const struct masked_rows *rows, const struct sampled_token *results)
{
    for (uint32_t s = 0; s < ROWS; s++)
        if (rows->samplings[s].mask)
            assert_true(rows->masks[s] >> results[s].token & 1);
}

/* Two steps, the second with masks: one after the other, with masks known at the launch; then both
 * in flight, the second's tokens drawn by the first, and the masks given after the logits of the
 * second have been read back from the device. */
static void check_late_masks(struct rig *rig, struct test_random *random)
{
    static const uint32_t tokens[ROWS] = {1, 2, 3};
    static const uint32_t drawn[ROWS] = {STEP_TOKEN_SAMPLED, STEP_TOKEN_SAMPLED | 1,
                                         STEP_TOKEN_SAMPLED | 2};
    const uint32_t nan = 0x7fc00000;
    struct sampled_token first[2][ROWS] = {0}, second[2][ROWS] = {0};
    uint32_t positions[ROWS], next_positions[ROWS], next_tokens[ROWS];
    float wanted[ROWS * HEAD_DIM], logits[ROWS * HEAD_DIM];
    struct error_text error = {""};
    struct masked_rows rows = {0}, before = {0};
    struct decode decode;
    draw_masked_rows(random, &before);
    draw_masked_rows(random, &rows);
    for (uint32_t s = 0; s < ROWS; s++) {
        next_positions[s] = 1 + (positions[s] = test_random_below(random, 14));
        before.params[s].mirostat = 0; /* the host's draws are not read ahead */
        before.params[s].dynatemp_range = 0.0f;
    }
    make_decode(rig, tokens, positions, before.samplings, ROWS, &decode);
    launch(rig, &decode.batch);
    wait_for_step(rig, first[0]);
    for (uint32_t s = 0; s < ROWS; s++)
        next_tokens[s] = first[0][s].token;
    make_decode(rig, next_tokens, next_positions, rows.samplings, ROWS, &decode);
    launch(rig, &decode.batch);
    wait_for_step(rig, second[0]);
    memcpy(wanted, vulkan_steps_last_logits(rig->steps), sizeof wanted);

    touch_logits(rig, &nan, NULL);
    make_decode(rig, tokens, positions, before.samplings, ROWS, &decode);
    launch(rig, &decode.batch);
    make_decode(rig, drawn, next_positions, rows.unmasked, ROWS, &decode);
    decode.batch.awaits_masks = true;
    launch(rig, &decode.batch);
    touch_logits(rig, NULL, logits);
    assert_memory_equal(logits, wanted, sizeof wanted);
    if (vulkan_steps_draw(rig->steps, rows.samplings, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    wait_for_step(rig, first[1]);
    wait_for_step(rig, second[1]);
    assert_same_draws(first[0], first[1]);
    assert_same_draws(second[0], second[1]);
    assert_obeyed(&rows, second[1]);
}

static void masks_may_follow_the_rows(void **state)
{
    struct test_random random = {(uint64_t)time(NULL)};
    struct rig rig;
    print_message("seed %llu\n", (unsigned long long)random.state);
    begin_drawing_rig(&rig, *state);
    for (uint32_t trial = 0; trial < 30; trial++)
        check_late_masks(&rig, &random);
    end_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_once_for_each_reach),
        cmocka_unit_test(records_once_for_each_number_of_rows),
        cmocka_unit_test(rows_are_drawn_by_device_and_host),
        cmocka_unit_test(masks_may_follow_the_rows),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
