/*
 * The device's sampler against the CPU's over thousands of random rows: every combination of
 * parameters, flat and peaked distributions, ties, numbers that are none, histories and biases.
 * A token may differ only where rounding decides: then both must come out of one plain computation
 * in double when the random number or a filter's border is moved by a millionth. How often that
 * happened is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/vulkan_batch.h"
#include "worker/backend/vulkan/vulkan_push.h"
#include "worker/backend/vulkan/vulkan_row_copies.h"
#include "worker/backend/vulkan/vulkan_row_policy.h"
#include "worker/backend/vulkan/vulkan_sampler.h"
#include "worker/sample/token_counts.h"

#define ROWS         48u
#define HISTORY_MAX  160u /* positions of a row's sequence */
#define ROW_BLOCKS   (HISTORY_MAX / KV_BLOCK_TOKENS)
#define BIASES_MAX   12u
#define NUDGE        1e-6
#define NUDGES       3u
#define LOGPROB_SLIP 2e-5

/* A batch of rows: what a step would bring, and the same for the CPU. */
struct batch {
    uint32_t vocab;
    uint32_t row_count;
    struct sampling_params params[ROWS];
    struct row_sampling samplings[ROWS];
    struct logit_bias_entry biases[ROWS][BIASES_MAX];
    uint32_t barred[ROWS][ROW_BARRED_MAX];
    struct token_counts *counts[ROWS];
    uint32_t tables[ROWS * ROW_BLOCKS];
    uint32_t history[ROWS * ROW_BLOCKS][KV_BLOCK_TOKENS];
    struct vulkan_step_row rows[ROWS];
    struct vulkan_step_sequence sequences[ROWS];
    uint32_t logit_rows[ROWS];
    float *logits; /* [ROWS][vocab] */
};

struct tally {
    uint32_t rows;
    uint32_t at_borders;
};

/* --- random rows --- */

static double unit(struct test_random *random)
{
    return (double)(test_random_next(random) >> 11) * 0x1p-53;
}

static double normal(struct test_random *random)
{
    return sqrt(-2.0 * log(1.0 - unit(random))) * cos(6.283185307179586 * unit(random));
}

static void fill_logits(struct test_random *random, float *logits, uint32_t vocab)
{
    static const float strange[] = {INFINITY, -INFINITY, NAN, -0.0f, 3.4e38f, -3.4e38f};
    static const double widths[] = {0.0, 0.01, 1.0, 2.5, 6.0, 1e6};
    double width = widths[test_random_below(random, 6)];
    double grain = test_random_below(random, 3) == 0 ? 0.5 : 0.0; /* makes ties */
    for (uint32_t i = 0; i < vocab; i++) {
        double value = width * normal(random);
        logits[i] = (float)(grain > 0.0 ? rint(value / grain) * grain : value);
    }
    for (uint32_t peaks = test_random_below(random, 4); peaks > 0; peaks--)
        logits[test_random_below(random, vocab)] += (float)(4.0 * width * unit(random));
    if (test_random_below(random, 8) == 0)
        for (uint32_t i = 0; i < 5; i++)
            logits[test_random_below(random, vocab)] = strange[test_random_below(random, 6)];
    if (test_random_below(random, 16) == 0)
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = test_random_below(random, 30) == 0 ? logits[i] : -INFINITY;
    if (test_random_below(random, 40) == 0)
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = test_random_below(random, 2) == 0 ? NAN : -INFINITY;
}

static void choose_params(struct test_random *random, uint32_t vocab,
                          struct sampling_params *params)
{
    static const float temperatures[] = {0.0f, 1e-3f, 0.3f, 0.8f, 1.0f, 2.0f};
    static const float top_ps[] = {1.0f, 1.0f, 0.95f, 0.5f, 1e-4f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 1e-3f, 1.0f};
    static const uint32_t top_ks[] = {0, 0, 1, 40, 700, 3000};
    *params = (struct sampling_params){
        .seed = test_random_next(random),
        .temperature = temperatures[test_random_below(random, 6)],
        .top_p = top_ps[test_random_below(random, 5)],
        .min_p = min_ps[test_random_below(random, 5)],
        .top_k = test_random_below(random, 10) == 0 ? test_random_below(random, vocab + 2)
                                                    : top_ks[test_random_below(random, 6)],
        .repetition_penalty = 1.0f,
        .typical_p = 1.0f,
    };
    if (test_random_below(random, 3) == 0)
        params->repetition_penalty = 0.5f + (float)unit(random);
    if (test_random_below(random, 3) == 0)
        params->presence_penalty = (float)unit(random) * 4.0f - 2.0f;
    if (test_random_below(random, 3) == 0)
        params->frequency_penalty = (float)unit(random) * 4.0f - 2.0f;
    uint32_t *contexts[] = {&params->repetition_context, &params->presence_context,
                            &params->frequency_context};
    for (size_t i = 0; i < 3; i++)
        if (test_random_below(random, 3) == 0)
            *contexts[i] = test_random_below(random, HISTORY_MAX);
    if (test_random_below(random, 6) == 0)
        params->typical_p = 0.05f + 0.9f * (float)unit(random);
    if (test_random_below(random, 8) == 0)
        params->top_n_sigma = 3.0f * (float)unit(random);
}

/* The row's sequence: tokens in blocks that lie anywhere, and the counts of them. */
static void fill_history(struct test_random *random, struct batch *batch, uint32_t row)
{
    struct row_sampling *sampling = &batch->samplings[row];
    sampling->position = 1 + test_random_below(random, HISTORY_MAX);
    sampling->first_generated = 1 + test_random_below(random, sampling->position);
    uint32_t tokens[HISTORY_MAX];
    batch->counts[row] = token_counts_create(&batch->params[row], sampling->first_generated);
    uint32_t few = 1 + test_random_below(random, batch->vocab);
    for (uint32_t i = 0; i < HISTORY_MAX; i++) {
        uint32_t token = test_random_below(random, few);
        uint32_t block = batch->tables[row * ROW_BLOCKS + i / KV_BLOCK_TOKENS];
        batch->history[block][i % KV_BLOCK_TOKENS] = token;
        tokens[i] = token; /* from position on, of whoever had the block before */
    }
    assert_int_equal(token_counts_follow(batch->counts[row], tokens, sampling->position),
                     RESULT_OK);
}

static void shuffle_tables(struct test_random *random, struct batch *batch)
{
    uint32_t entries = ROWS * ROW_BLOCKS;
    for (uint32_t i = 0; i < entries; i++)
        batch->tables[i] = i;
    for (uint32_t i = entries - 1; i > 0; i--) {
        uint32_t other = test_random_below(random, i + 1);
        uint32_t block = batch->tables[i];
        batch->tables[i] = batch->tables[other];
        batch->tables[other] = block;
    }
}

static void batch_begin(struct test_random *random, struct batch *batch, uint32_t vocab)
{
    memset(batch, 0, sizeof *batch);
    batch->vocab = vocab;
    batch->row_count = 1 + test_random_below(random, ROWS);
    batch->logits = calloc((size_t)ROWS * vocab, sizeof *batch->logits);
    shuffle_tables(random, batch);
    for (uint32_t row = 0; row < batch->row_count; row++) {
        struct row_sampling *sampling = &batch->samplings[row];
        uint32_t sequence = (row + 7) % ROWS; /* a sequence's rows are somewhere */
        batch->rows[row].sequence = sequence;
        batch->logit_rows[row] = row;
        batch->sequences[sequence].table[0] = row * ROW_BLOCKS;
        fill_logits(random, batch->logits + (size_t)row * vocab, vocab);
        choose_params(random, vocab, &batch->params[row]);
        fill_history(random, batch, row);
        sampling->params = &batch->params[row];
        sampling->counts = test_random_below(random, 2) == 0 ? batch->counts[row] : NULL;
        sampling->wants_logprob = test_random_below(random, 3) == 0;
        if (sampling->wants_logprob && test_random_below(random, 2) == 0)
            sampling->top_logprobs = test_random_below(random, LIMIT_TOP_LOGPROBS + 1);
        sampling->is_forced = test_random_below(random, 12) == 0;
        sampling->forced_token = test_random_below(random, vocab);
        sampling->barred = batch->barred[row];
        if (test_random_below(random, 4) == 0)
            sampling->barred_count = test_random_below(random, ROW_BARRED_MAX + 1);
        for (uint32_t i = 0; i < sampling->barred_count; i++)
            batch->barred[row][i] = test_random_below(random, vocab);
        sampling->logit_bias = batch->biases[row];
        if (test_random_below(random, 3) == 0)
            sampling->logit_bias_count = test_random_below(random, BIASES_MAX + 1);
        for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
            batch->biases[row][i] = (struct logit_bias_entry){
                test_random_below(random, vocab), (float)test_random_below(random, 64) - 32.0f};
    }
}

/* A step in which nobody wants anything but the largest logit has kernels of its own. */
static void make_greedy(struct batch *batch)
{
    for (uint32_t row = 0; row < batch->row_count; row++) {
        batch->params[row].temperature = 0.0f;
        batch->samplings[row].counts = NULL;
        batch->samplings[row].logit_bias_count = 0;
        batch->samplings[row].barred_count = 0;
        batch->samplings[row].is_forced = false;
        batch->samplings[row].wants_logprob = false;
        batch->samplings[row].top_logprobs = 0;
    }
}

static void batch_end(struct batch *batch)
{
    for (uint32_t row = 0; row < batch->row_count; row++)
        token_counts_destroy(batch->counts[row]);
    free(batch->logits);
}

/* --- the plain computation --- */

struct ranked {
    uint32_t token;
    float logit;
    double p;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

static float adjusted(const struct row_sampling *sampling, uint32_t token, float logit)
{
    const struct sampling_params *params = sampling->params;
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
        if (sampling->logit_bias[i].token == token)
            logit += sampling->logit_bias[i].bias;
    uint32_t size = sampling->counts ? token_counts_size(sampling->counts) : 0;
    for (uint32_t i = 0; i < size; i++) {
        struct token_count count = token_counts_at(sampling->counts, i);
        if (count.token != token)
            continue;
        if (count.repetition > 0)
            logit = logit > 0.0f ? logit / params->repetition_penalty
                                 : logit * params->repetition_penalty;
        logit -= (count.presence > 0 ? params->presence_penalty : 0.0f) +
                 params->frequency_penalty * (float)count.frequency;
    }
    for (uint32_t i = 0; i < sampling->barred_count; i++)
        if (sampling->barred[i] == token)
            return -INFINITY;
    if (isnan(logit))
        return -INFINITY;
    return logit == INFINITY ? 3.402823466e38f : logit;
}

/* The token when u, top_p and min_p are moved by so many millionths. */
static uint32_t plain_draw(const struct ranked *ranked, const struct row_sampling *sampling,
                           uint32_t vocab, const int *nudges)
{
    const struct sampling_params *params = sampling->params;
    uint32_t count = params->top_k > 0 && params->top_k < vocab ? params->top_k : vocab;
    double total = 0.0, sum = 0.0;
    for (uint32_t i = 0; i < count; i++)
        total += ranked[i].p;
    double top = (double)params->top_p * total * (1.0 + NUDGE * nudges[1]);
    double least = (double)params->min_p * (1.0 + NUDGE * nudges[2]);
    uint32_t kept = 0;
    while (kept < count && !(kept > 0 && ranked[kept].p < least)) {
        sum += ranked[kept++].p;
        if (params->top_p < 1.0f && sum >= top)
            break;
    }
    double u = (double)uniform_draw(params->seed, sampling->position) + NUDGE * nudges[0];
    double target = (u < 0.0 ? 0.0 : u) * sum;
    sum = 0.0;
    uint32_t token = ranked[0].token;
    for (uint32_t i = 0; i < kept && ranked[i].p > 0.0; i++) {
        token = ranked[i].token;
        sum += ranked[i].p;
        if (sum > target)
            break;
    }
    return token;
}

static bool is_at_border(const struct batch *batch, uint32_t row, uint32_t token)
{
    const struct row_sampling *sampling = &batch->samplings[row];
    struct ranked *ranked = calloc(batch->vocab, sizeof *ranked);
    for (uint32_t i = 0; i < batch->vocab; i++)
        ranked[i] = (struct ranked){
            i, adjusted(sampling, i, batch->logits[(size_t)row * batch->vocab + i]), 0.0};
    qsort(ranked, batch->vocab, sizeof *ranked, compare_ranked);
    for (uint32_t i = 0; i < batch->vocab; i++)
        ranked[i].p = exp(((double)ranked[i].logit - (double)ranked[0].logit) /
                          (double)sampling->params->temperature);
    bool found = false;
    for (uint32_t i = 0; i < NUDGES * NUDGES * NUDGES && !found; i++) {
        const int nudges[] = {(int)(i % 3) - 1, (int)(i / 3 % 3) - 1, (int)(i / 9) - 1};
        found = plain_draw(ranked, sampling, batch->vocab, nudges) == token;
    }
    free(ranked);
    return found;
}

/* --- the device --- */

struct device_side {
    struct vulkan_trial *trial;
    struct vulkan_sampler *sampler;
    struct vulkan_sampler_step step;
    const struct vulkan_buffer *logits;
};

static void must_work(enum result result, const struct error_text *error)
{
    if (result != RESULT_OK)
        fail_msg("%s", error->text);
}

static void device_begin(const struct batch *batch, bool has_history, struct device_side *side)
{
    struct error_text error;
    struct vulkan_trial *trial = side->trial;
    side->logits =
        vulkan_trial_buffer(trial, batch->logits, (uint64_t)ROWS * batch->vocab * sizeof(float));
    const struct vulkan_sampler_options options = {
        .vocab_tokens = batch->vocab,
        .max_rows = ROWS,
        .logits = side->logits->address,
        .history = has_history
                       ? vulkan_trial_buffer(trial, batch->history, sizeof batch->history)->address
                       : 0,
    };
    side->step = (struct vulkan_sampler_step){
        .rows = vulkan_trial_buffer(trial, batch->rows, sizeof batch->rows)->address,
        .sequences = vulkan_trial_buffer(trial, batch->sequences, sizeof batch->sequences)->address,
        .tables = vulkan_trial_buffer(trial, batch->tables, sizeof batch->tables)->address,
        .logit_rows =
            vulkan_trial_buffer(trial, batch->logit_rows, sizeof batch->logit_rows)->address,
    };
    must_work(
        vulkan_sampler_create(trial->device, trial->kernels, &options, &side->sampler, &error),
        &error);
}

static void device_end(struct device_side *side)
{
    vulkan_sampler_destroy(side->sampler);
    vulkan_trial_clear(side->trial);
}

static void device_draw(struct device_side *side, const struct batch *batch, uint32_t slot,
                        struct sampled_token *results)
{
    struct error_text error;
    enum vulkan_sampler_kind kind;
    bool moved;
    must_work(vulkan_sampler_fill(side->sampler, slot, batch->samplings, batch->row_count, &kind,
                                  &moved, &error),
              &error);
    struct vulkan_commands *commands = side->trial->commands;
    must_work(vulkan_commands_begin(commands, &error), &error);
    vulkan_sampler_record(side->sampler, slot, kind, batch->row_count, &side->step, commands);
    vulkan_commands_barrier(commands);
    must_work(vulkan_commands_end(commands, &error), &error);
    must_work(vulkan_commands_run(commands, &error), &error);
    must_work(vulkan_sampler_read(side->sampler, slot, results, &error), &error);
}

/* What the next step would find is what the host was told. */
static void expect_drawn(struct device_side *side, const struct batch *batch, uint32_t slot,
                         bool has_history, const struct sampled_token *results)
{
    struct vulkan_trial *trial = side->trial;
    uint32_t last = batch->row_count - 1;
    bool on_host[2] = {vulkan_row_copies_draw(&batch->samplings[last]),
                       vulkan_row_copies_draw(&batch->samplings[0])};
    const struct vulkan_buffer *out = vulkan_trial_buffer(trial, NULL, 2 * sizeof(uint32_t));
    const uint32_t rows[2] = {last, 0};
    const struct vulkan_gather_rows_push push = {
        .x = vulkan_sampler_drawn(side->sampler, slot),
        .logit_rows = vulkan_trial_buffer(trial, rows, sizeof rows)->address,
        .outputs = {.f32 = out->address},
        .columns = 1,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_GATHER, 2, 1, VULKAN_FORM_F32, 0};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&trial->device->facts, &task);
    vulkan_trial_run(trial, choice.shader, &choice.specialization, &push, sizeof push, choice.grid);
    const uint32_t *drawn = out->mapped;
    assert_true(on_host[0] || drawn[0] == results[last].token);
    assert_true(on_host[1] || drawn[1] == results[0].token);
    if (has_history)
        assert_int_equal(vulkan_sampler_draws_ahead(side->sampler, &batch->samplings[last]),
                         !on_host[0]);
}

static void describe(const struct batch *batch, uint32_t row, uint32_t token, uint32_t expected)
{
    const struct sampling_params *p = &batch->params[row];
    print_message("row %u of vocabulary %u: token %u, CPU %u; temperature %g top_k %u top_p %g "
                  "min_p %g penalties %g %g %g, %u biases\n",
                  row, batch->vocab, token, expected, (double)p->temperature, p->top_k,
                  (double)p->top_p, (double)p->min_p, (double)p->repetition_penalty,
                  (double)p->presence_penalty, (double)p->frequency_penalty,
                  batch->samplings[row].logit_bias_count);
}

static void compare(const struct batch *batch, const struct sampled_token *results,
                    struct row_sampler *cpu, struct tally *tally)
{
    for (uint32_t row = 0; row < batch->row_count; row++) {
        const struct row_sampling *sampling = &batch->samplings[row];
        struct sampled_token expected =
            row_sampler_draw(cpu, batch->logits + (size_t)row * batch->vocab, sampling);
        tally->rows++;
        if (results[row].token != expected.token) {
            describe(batch, row, results[row].token, expected.token);
            assert_true(sampling->params->temperature > 0.0f && !sampling->is_forced);
            assert_true(sampling->params->typical_p == 1.0f); /* these are the CPU's own */
            assert_true(sampling->params->top_n_sigma == 0.0f);
            assert_true(is_at_border(batch, row, results[row].token));
            assert_true(is_at_border(batch, row, expected.token));
            tally->at_borders++;
        } else if (isinf(expected.logprob)) {
            assert_true(results[row].logprob == expected.logprob);
        } else if (!(fabs((double)results[row].logprob - (double)expected.logprob) <=
                     LOGPROB_SLIP * (1.0 + fabs((double)expected.logprob)))) {
            describe(batch, row, results[row].token, expected.token);
            fail_msg("logprob %g, not %g", (double)results[row].logprob, (double)expected.logprob);
        }
        assert_int_equal(results[row].alternative_count, expected.alternative_count);
        assert_memory_equal(results[row].alternatives, expected.alternatives,
                            expected.alternative_count * sizeof(struct token_logprob));
    }
}

static void run_batches(void **state, uint64_t seed, uint32_t vocab, bool has_history,
                        uint32_t batches)
{
    struct test_random random = {seed};
    struct row_sampler *cpu = row_sampler_create(vocab);
    struct batch *batch = calloc(1, sizeof *batch);
    struct sampled_token results[ROWS];
    struct tally tally = {0};
    struct device_side side;
    side.trial = *state;
    for (uint32_t i = 0; i < batches; i++) {
        batch_begin(&random, batch, vocab);
        if (i % 3 == 2)
            make_greedy(batch);
        device_begin(batch, has_history, &side);
        device_draw(&side, batch, i % VULKAN_SAMPLER_SLOTS, results);
        compare(batch, results, cpu, &tally);
        expect_drawn(&side, batch, i % VULKAN_SAMPLER_SLOTS, has_history, results);
        device_end(&side);
        batch_end(batch);
    }
    print_message("vocabulary %u: %u rows, %u where rounding decides\n", vocab, tally.rows,
                  tally.at_borders);
    row_sampler_destroy(cpu);
    free(batch);
}

static void test_small_vocabularies(void **state)
{
    static const uint32_t vocabularies[] = {1, 2, 5, 33, 250, 1003};
    for (uint32_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++)
        run_batches(state, 100 + i, vocabularies[i], true, 6);
}

static void test_chunk_borders(void **state)
{
    static const uint32_t vocabularies[] = {4095, 4096, 4097, 8192};
    for (uint32_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++)
        run_batches(state, 200 + i, vocabularies[i], true, 6);
}

static void test_large_vocabularies(void **state)
{
    run_batches(state, 300, 32000, true, 12);
    run_batches(state, 301, 50257, true, 4);
    run_batches(state, 302, 151936, true, 1);
}

static void test_uploaded_counts(void **state)
{
    run_batches(state, 400, 5000, false, 6);
}

/* One for all tests: it keeps the kernels. */
static int open_trial(void **state)
{
    struct vulkan_trial *trial = calloc(1, sizeof *trial);
    vulkan_trial_init(trial, vulkan_fixture_open(VULKAN_NV_MATRIX2));
    *state = trial;
    return 0;
}

static int close_trial(void **state)
{
    struct vulkan_trial *trial = *state;
    struct vulkan_device *device = (struct vulkan_device *)trial->device;
    vulkan_trial_fini(trial);
    vulkan_fixture_close(device);
    free(trial);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_vocabularies),
        cmocka_unit_test(test_chunk_borders),
        cmocka_unit_test(test_large_vocabularies),
        cmocka_unit_test(test_uploaded_counts),
    };
    return cmocka_run_group_tests(tests, open_trial, close_trial);
}
