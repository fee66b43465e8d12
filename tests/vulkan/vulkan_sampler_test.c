/*
 * The device's sampler against the CPU's over thousands of random rows: every combination of
 * parameters, flat and peaked distributions, ties, infinities and NaNs, histories and biases. Every
 * token is equal.
 */
// tags: threads native-sanitized
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
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/step/vulkan_sampler.h"
#include "worker/sample/token_counts.h"

#define ROWS         48u
#define HISTORY_MAX  160u /* positions of a row's sequence */
#define ROW_BLOCKS   (HISTORY_MAX / KV_BLOCK_TOKENS)
#define BIASES_MAX   12u
#define LOGPROB_SLIP 2e-5

/* A batch of rows: the sampler's input for a step, and the same for the CPU. */
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
    float *logits;   /* [ROWS][vocab] */
    uint32_t *masks; /* [ROWS][ceil(vocab / 32)] */
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
    if (test_random_below(random, 3) == 0)
        params->typical_p = test_random_below(random, 4) == 0 ? 1e-4f : (float)unit(random) + 1e-3f;
    if (params->typical_p > 1.0f)
        params->typical_p = 1.0f;
    if (test_random_below(random, 4) == 0)
        params->top_n_sigma = 4.0f * (float)unit(random);
}

/* The row's sequence: tokens in scattered blocks, and their counts. */
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
        tokens[i] = token; /* from position on: left by the block's previous owner */
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

static uint32_t mask_words(uint32_t vocab)
{
    return (vocab + 31) / 32;
}

/* A mask of few, half or nearly all tokens. */
static const uint32_t *fill_mask(struct test_random *random, struct batch *batch, uint32_t row)
{
    uint32_t *mask = batch->masks + (size_t)row * mask_words(batch->vocab);
    uint32_t kind = test_random_below(random, 3);
    for (uint32_t i = 0; i < mask_words(batch->vocab); i++) {
        uint32_t bits = (uint32_t)test_random_next(random);
        mask[i] = kind == 0   ? bits & (uint32_t)(test_random_next(random) >> 7)
                  : kind == 1 ? bits | (uint32_t)(test_random_next(random) >> 7)
                  : i % 3 > 0 ? 0
                              : 1u << bits % 32;
    }
    return mask;
}

static void batch_begin(struct test_random *random, struct batch *batch, uint32_t vocab)
{
    memset(batch, 0, sizeof *batch);
    batch->vocab = vocab;
    batch->row_count = 1 + test_random_below(random, ROWS);
    batch->logits = calloc((size_t)ROWS * vocab, sizeof *batch->logits);
    batch->masks = calloc((size_t)ROWS * mask_words(vocab), sizeof *batch->masks);
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
        if (test_random_below(random, 3) == 0)
            sampling->mask = fill_mask(random, batch, row);
        sampling->logit_bias = batch->biases[row];
        if (test_random_below(random, 3) == 0)
            sampling->logit_bias_count = test_random_below(random, BIASES_MAX + 1);
        for (uint32_t i = 0; i < sampling->logit_bias_count; i++)
            batch->biases[row][i] = (struct logit_bias_entry){
                test_random_below(random, vocab), (float)test_random_below(random, 64) - 32.0f};
    }
}

/* A step whose rows all need only the largest logit has separate kernels. */
static void make_greedy(struct batch *batch)
{
    for (uint32_t row = 0; row < batch->row_count; row++) {
        batch->params[row].temperature = 0.0f;
        batch->samplings[row].counts = NULL;
        batch->samplings[row].logit_bias_count = 0;
        batch->samplings[row].barred_count = 0;
        batch->samplings[row].mask = NULL;
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
    free(batch->masks);
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
    uint32_t work;
    bool moved;
    must_work(vulkan_sampler_fill(side->sampler, slot, batch->samplings, batch->row_count, &work,
                                  &moved, &error),
              &error);
    struct vulkan_commands *commands = side->trial->commands;
    must_work(vulkan_commands_begin(commands, &error), &error);
    vulkan_sampler_record(side->sampler, slot, work, batch->row_count, &side->step, commands);
    vulkan_commands_barrier(commands);
    must_work(vulkan_commands_end(commands, &error), &error);
    must_work(vulkan_commands_run(commands, &error), &error);
    must_work(vulkan_sampler_read(side->sampler, slot, results, &error), &error);
}

/* The tokens left for the next step are those that the host gets. */
static void expect_drawn(struct device_side *side, const struct batch *batch, uint32_t slot,
                         bool has_history, const struct sampled_token *results)
{
    struct vulkan_trial *trial = side->trial;
    uint32_t last = batch->row_count - 1;
    const struct vulkan_buffer *out = vulkan_trial_buffer(trial, NULL, 2 * sizeof(uint32_t));
    const uint32_t rows[2] = {last, 0};
    const struct vulkan_gather_rows_push push = {
        .x = vulkan_sampler_drawn(side->sampler, slot),
        .logit_rows = vulkan_trial_buffer(trial, rows, sizeof rows)->address,
        .outputs = {.f32 = out->address},
        .columns = 1,
    };
    const struct vulkan_row_task task = {OP_gather_rows, 2, 1, VULKAN_FORM_F32, 0};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&trial->device->facts, &task);
    vulkan_trial_run(trial, choice.shader, &choice.specialization, &push, sizeof push, choice.grid);
    const uint32_t *drawn = out->mapped;
    assert_int_equal(drawn[0], results[last].token);
    assert_int_equal(drawn[1], results[0].token);
    assert_int_equal(vulkan_sampler_draws_ahead(side->sampler, &batch->samplings[last]),
                     has_history || !batch->samplings[last].counts);
}

static void describe(const struct batch *batch, uint32_t row, uint32_t token, uint32_t expected)
{
    const struct sampling_params *p = &batch->params[row];
    print_message("row %u of vocabulary %u: token %u, CPU %u; temperature %g top_k %u top_p %g "
                  "min_p %g typical_p %g top_n_sigma %g penalties %g %g %g, %u biases\n",
                  row, batch->vocab, token, expected, (double)p->temperature, p->top_k,
                  (double)p->top_p, (double)p->min_p, (double)p->typical_p, (double)p->top_n_sigma,
                  (double)p->repetition_penalty, (double)p->presence_penalty,
                  (double)p->frequency_penalty, batch->samplings[row].logit_bias_count);
}

static void compare(const struct batch *batch, const struct sampled_token *results,
                    struct row_sampler *cpu)
{
    for (uint32_t row = 0; row < batch->row_count; row++) {
        const struct row_sampling *sampling = &batch->samplings[row];
        struct sampled_token expected =
            row_sampler_draw(cpu, batch->logits + (size_t)row * batch->vocab, sampling);
        if (results[row].token != expected.token) {
            describe(batch, row, results[row].token, expected.token);
            fail_msg("another token");
        } else if (isinf(expected.logprob)) {
            assert_true(results[row].logprob == expected.logprob);
        } else if (!(fabs((double)results[row].logprob - (double)expected.logprob) <=
                     LOGPROB_SLIP * (1.0 + fabs((double)expected.logprob)))) {
            describe(batch, row, results[row].token, expected.token);
            fail_msg("logprob %g, not %g", (double)results[row].logprob, (double)expected.logprob);
        }
        if (sampling->is_forced || sampling->top_logprobs > 0)
            assert_int_equal(results[row].rank, expected.rank);
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
    uint32_t rows = 0;
    struct device_side side;
    side.trial = *state;
    for (uint32_t i = 0; i < batches; i++) {
        batch_begin(&random, batch, vocab);
        if (i % 3 == 2)
            make_greedy(batch);
        device_begin(batch, has_history, &side);
        device_draw(&side, batch, i % VULKAN_SAMPLER_SLOTS, results);
        compare(batch, results, cpu);
        rows += batch->row_count;
        expect_drawn(&side, batch, i % VULKAN_SAMPLER_SLOTS, has_history, results);
        device_end(&side);
        batch_end(batch);
    }
    print_message("vocabulary %u: %u rows\n", vocab, rows);
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

static int compare_descending(const void *left, const void *right)
{
    float a = *(const float *)left;
    float b = *(const float *)right;
    return a > b ? -1 : a < b;
}

/* Distance of u from the nearest border between two tokens: sums[i] is the weight of the i + 1
 * largest. */
static double border_distance(const double *sums, uint32_t count, double u)
{
    double target = u * sums[count - 1];
    uint32_t from = 0, to = count - 1;
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (sums[middle] > target)
            to = middle;
        else
            from = middle + 1;
    }
    double below = from > 0 ? target - sums[from - 1] : target;
    return fmin(below, sums[from] - target) / sums[count - 1];
}

/*
 * A row as flat as those of a small model after random words at temperature 1.9, where thousands of
 * tokens share the draw. Of many seeds those whose number lies nearest to a border between two
 * tokens: there a sum of all weights with an error of some billionths gives another token. With
 * different orders of summation on the two sides about one draw in a hundred of such rows differs.
 */
static void test_numbers_near_a_border(void **state)
{
    enum { VOCAB = 49152, SEEDS = 400000, DRAWS = 16 };
    const double near = 3e-9;
    struct test_random random = {500};
    struct row_sampler *cpu = row_sampler_create(VOCAB);
    struct batch *batch = calloc(1, sizeof *batch);
    struct sampled_token results[ROWS];
    struct device_side side = {.trial = *state};
    double *sums = calloc(VOCAB, sizeof *sums);
    float *sorted = calloc(VOCAB, sizeof *sorted);
    batch->vocab = VOCAB;
    batch->logits = calloc((size_t)ROWS * VOCAB, sizeof *batch->logits);
    for (uint32_t i = 0; i < VOCAB; i++)
        sorted[i] = batch->logits[i] = (float)(2.5 * normal(&random));
    qsort(sorted, VOCAB, sizeof *sorted, compare_descending);
    for (uint32_t i = 0; i < VOCAB; i++)
        sums[i] = (i > 0 ? sums[i - 1] : 0.0) + exp(((double)sorted[i] - (double)sorted[0]) / 1.9);
    for (uint64_t seed = 0; seed < SEEDS && batch->row_count < DRAWS; seed++) {
        if (border_distance(sums, VOCAB, (double)uniform_draw(seed, 7)) > near)
            continue;
        uint32_t row = batch->row_count++;
        memcpy(batch->logits + (size_t)row * VOCAB, batch->logits, VOCAB * sizeof(float));
        batch->params[row] = sampling_params_default();
        batch->params[row].temperature = 1.9f;
        batch->params[row].seed = seed;
        batch->samplings[row] = (struct row_sampling){.params = &batch->params[row], .position = 7};
    }
    assert_int_equal(batch->row_count, DRAWS);
    device_begin(batch, true, &side);
    device_draw(&side, batch, 0, results);
    compare(batch, results, cpu);
    device_end(&side);
    batch_end(batch);
    row_sampler_destroy(cpu);
    free(batch);
    free(sums);
    free(sorted);
}

static void test_uploaded_counts(void **state)
{
    run_batches(state, 400, 5000, false, 6);
}

/* One for all tests: it keeps the kernels. */
static int open_trial(void **state)
{
    struct vulkan_trial *trial = calloc(1, sizeof *trial);
    vulkan_trial_init(trial, vulkan_fixture_open(VULKAN_TIER_HIGHEST));
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
        cmocka_unit_test(test_small_vocabularies), cmocka_unit_test(test_chunk_borders),
        cmocka_unit_test(test_large_vocabularies), cmocka_unit_test(test_numbers_near_a_border),
        cmocka_unit_test(test_uploaded_counts),
    };
    return cmocka_run_group_tests(tests, open_trial, close_trial);
}
