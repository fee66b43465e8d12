/*
 * Measures the device's sampler by kind of row and number of rows, outside any model.
 *
 *   usage: vulkan_sampler_bench [VOCABULARY [HISTORY [PART OF A CASE'S NAME]]]
 *
 * Logits fall with the logarithm of a token's rank, which is what language models' do: at slope 2
 * most of the probability lies on a few tokens, at 1 it is spread over thousands, and at 0 every
 * token is as likely as the others, the worst there is for a search. A step's sampling is recorded
 * several times behind each other with barriers between, and timed by the device. Printed are the
 * microseconds of one sampling; how often a run was interrupted shows in the largest of several.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/step/vulkan_sampler.h"
#include "worker/sample/token_counts.h"

#define ROWS_MAX        256u
#define CHAIN           16u
#define REPEATS         7u
#define DEFAULT_VOCAB   128256u
#define DEFAULT_HISTORY 4096u

struct bench {
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
    struct vulkan_sampler *sampler;
    struct vulkan_sampler_step step;
    uint32_t vocab;
    uint32_t history_tokens; /* of each row */
    struct vulkan_buffer stage, logits, history, rows, sequences, tables, logit_rows;
    struct token_counts *counts; /* only that it is there matters: the device counts by itself */
    struct row_sampling samplings[ROWS_MAX];
    struct sampling_params params[ROWS_MAX];
};

struct bench_case {
    const char *name;
    struct sampling_params params;
    double slope;
    bool wants_logprob;
    bool has_penalties;
    uint32_t top_logprobs;
};

static void check(enum result result, const struct error_text *error)
{
    if (result == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void make(struct bench *bench, enum vulkan_place place, uint64_t bytes,
                 struct vulkan_buffer *buffer)
{
    struct error_text error;
    check(vulkan_buffer_create(bench->device, place, bytes, "bench", buffer, &error), &error);
}

static void begin(struct bench *bench)
{
    struct error_text error;
    check(vulkan_commands_begin(bench->commands, &error), &error);
}

static void run(struct bench *bench)
{
    struct error_text error;
    check(vulkan_commands_end(bench->commands, &error), &error);
    check(vulkan_commands_run(bench->commands, &error), &error);
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

/* Every row: 20 - slope * ln(rank), ranks dealt at random and with some noise. */
static void upload_logits(struct bench *bench, double slope)
{
    uint64_t state = 7;
    uint64_t row_bytes = (uint64_t)bench->vocab * sizeof(float);
    float *logits = bench->stage.mapped;
    uint32_t *ranks = must_alloc(bench->vocab, sizeof *ranks);
    for (uint32_t row = 0; row < ROWS_MAX; row++) {
        for (uint32_t i = 0; i < bench->vocab; i++) {
            uint32_t other = next_random(&state) % (i + 1);
            ranks[i] = ranks[other];
            ranks[other] = i;
        }
        for (uint32_t i = 0; i < bench->vocab; i++) {
            double noise = (double)next_random(&state) * 0x1p-31;
            logits[i] = (float)(20.0 - slope * (log(1.0 + ranks[i]) + 0.1 * noise));
        }
        begin(bench);
        vulkan_commands_copy(bench->commands, &bench->stage, 0, &bench->logits, row * row_bytes,
                             row_bytes);
        run(bench);
    }
    free(ranks);
}

/* Rows' sequences: blocks one behind the other, tokens anywhere. */
static void upload_step(struct bench *bench)
{
    uint32_t blocks = (bench->history_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    uint64_t state = 9;
    make(bench, VULKAN_UPLOAD, ROWS_MAX * sizeof(struct vulkan_step_row), &bench->rows);
    make(bench, VULKAN_UPLOAD, ROWS_MAX * sizeof(struct vulkan_step_sequence), &bench->sequences);
    make(bench, VULKAN_UPLOAD, ROWS_MAX * sizeof(uint32_t), &bench->logit_rows);
    make(bench, VULKAN_UPLOAD, (uint64_t)ROWS_MAX * blocks * sizeof(uint32_t), &bench->tables);
    make(bench, VULKAN_UPLOAD, (uint64_t)ROWS_MAX * blocks * KV_BLOCK_TOKENS * sizeof(uint32_t),
         &bench->history);
    struct vulkan_step_row *rows = bench->rows.mapped;
    struct vulkan_step_sequence *sequences = bench->sequences.mapped;
    uint32_t *logit_rows = bench->logit_rows.mapped;
    uint32_t *tables = bench->tables.mapped;
    uint32_t *history = bench->history.mapped;
    for (uint32_t row = 0; row < ROWS_MAX; row++) {
        rows[row] = (struct vulkan_step_row){.sequence = row};
        sequences[row] = (struct vulkan_step_sequence){.table = {row * blocks}};
        logit_rows[row] = row;
    }
    for (uint32_t i = 0; i < ROWS_MAX * blocks; i++)
        tables[i] = i;
    for (uint32_t i = 0; i < ROWS_MAX * blocks * KV_BLOCK_TOKENS; i++)
        history[i] = next_random(&state) % bench->vocab;
    bench->step = (struct vulkan_sampler_step){bench->rows.address, bench->sequences.address,
                                               bench->tables.address, bench->logit_rows.address};
}

static void open_bench(struct bench *bench, uint32_t vocab, uint32_t history_tokens)
{
    struct error_text error;
    const struct vulkan_device_options device = {.tier_limit = VULKAN_TIER_HIGHEST};
    *bench = (struct bench){.vocab = vocab, .history_tokens = history_tokens};
    check(vulkan_device_open(&device, &bench->device, &error), &error);
    check(vulkan_kernels_create(bench->device, NULL, &bench->kernels, &error), &error);
    check(vulkan_commands_create(bench->device, VULKAN_QUEUE_COMPUTE, 2, &bench->commands, &error),
          &error);
    make(bench, VULKAN_UPLOAD, (uint64_t)vocab * sizeof(float), &bench->stage);
    make(bench, VULKAN_DEVICE, (uint64_t)ROWS_MAX * vocab * sizeof(float), &bench->logits);
    upload_step(bench);
    const struct sampling_params plain = sampling_params_default();
    bench->counts = token_counts_create(&plain, 0);
    const struct vulkan_sampler_options options = {
        .vocab_tokens = vocab,
        .max_rows = ROWS_MAX,
        .logits = bench->logits.address,
        .history = bench->history.address,
    };
    check(vulkan_sampler_create(bench->device, bench->kernels, &options, &bench->sampler, &error),
          &error);
}

static void close_bench(struct bench *bench)
{
    struct vulkan_buffer *buffers[] = {&bench->stage,     &bench->logits, &bench->history,
                                       &bench->rows,      &bench->tables, &bench->sequences,
                                       &bench->logit_rows};
    vulkan_sampler_destroy(bench->sampler);
    vulkan_commands_destroy(bench->commands);
    vulkan_kernels_destroy(bench->kernels);
    for (uint32_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        vulkan_buffer_destroy(bench->device, buffers[i]);
    vulkan_device_close(bench->device);
    token_counts_destroy(bench->counts);
}

static void measure(struct bench *bench, const struct bench_case *item, uint32_t rows)
{
    struct error_text error;
    uint32_t work;
    bool moved;
    double least = 1e30, most = 0.0;
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        for (uint32_t row = 0; row < rows; row++) {
            bench->params[row] = item->params;
            bench->params[row].seed = 1000 * repeat + row;
            bench->samplings[row] = (struct row_sampling){
                .params = &bench->params[row],
                .counts = item->has_penalties ? bench->counts : NULL,
                .position = bench->history_tokens,
                .first_generated = bench->history_tokens / 2,
                .wants_logprob = item->wants_logprob || item->top_logprobs > 0,
                .top_logprobs = item->top_logprobs,
            };
        }
        check(vulkan_sampler_fill(bench->sampler, 0, bench->samplings, rows, &work, &moved, &error),
              &error);
        begin(bench);
        vulkan_commands_timestamp(bench->commands, 0);
        for (uint32_t i = 0; i < CHAIN; i++) {
            vulkan_sampler_record(bench->sampler, 0, work, rows, &bench->step, bench->commands);
            vulkan_commands_barrier(bench->commands);
        }
        vulkan_commands_timestamp(bench->commands, 1);
        run(bench);
        double us = vulkan_commands_elapsed_ns(bench->commands, 0, 1) / 1000.0 / CHAIN;
        if (repeat > 0 || REPEATS == 1) {
            least = us < least ? us : least;
            most = us > most ? us : most;
        }
    }
    printf("%-38s %4u rows: %8.2f us (most %8.2f), %6.0f GB/s of logits\n", item->name, rows, least,
           most, 4e-3 * rows * bench->vocab / least);
}

static const struct bench_case cases[] = {
    {.name = "greedy", .slope = 1.5},
    {.name = "greedy, logprob", .slope = 1.5, .wants_logprob = true},
    {.name = "greedy, 20 alternatives", .slope = 1.5, .top_logprobs = 20},
    {.name = "greedy, 20 alternatives, penalties",
     .slope = 1.5,
     .has_penalties = true,
     .top_logprobs = 20},
    {.name = "greedy, 20 alternatives, all equal", .slope = 0, .top_logprobs = 20},
    {.name = "greedy, penalties", .slope = 1.5, .has_penalties = true},
    {.name = "0.8, top_p .95, top_k 40", .params = {.top_k = 40, .top_p = 0.95f}, .slope = 1.5},
    {.name = "0.8, top_k 40 of flat rows", .params = {.top_k = 40}, .slope = 0.5},
    {.name = "0.8, top_k 1000", .params = {.top_k = 1000}, .slope = 1.5},
    {.name = "0.8, top_p .95", .params = {.top_p = 0.95f}, .slope = 1.5},
    {.name = "0.8, min_p .05", .params = {.min_p = 0.05f}, .slope = 1.5},
    {.name = "1, no filter, peaked", .params = {.temperature = 1.0f}, .slope = 2.0},
    {.name = "1, no filter", .params = {.temperature = 1.0f}, .slope = 1.5},
    {.name = "1, no filter, flat: searched", .params = {.temperature = 1.0f}, .slope = 0.5},
    {.name = "1, no filter, all equal: searched", .params = {.temperature = 1.0f}, .slope = 0},
    {.name = "1, typical_p .95, peaked",
     .params = {.temperature = 1.0f, .typical_p = 0.95f},
     .slope = 2.0},
    {.name = "1, typical_p .95", .params = {.temperature = 1.0f, .typical_p = 0.95f}, .slope = 1.5},
    {.name = "1, typical_p .95, top_p .95, top_k 40",
     .params = {.temperature = 1.0f, .typical_p = 0.95f, .top_p = 0.95f, .top_k = 40},
     .slope = 1.5},
    {.name = "1, top_n_sigma 1",
     .params = {.temperature = 1.0f, .top_n_sigma = 1.0f},
     .slope = 1.5},
    {.name = "1, top_n_sigma 3, min_p .05",
     .params = {.temperature = 1.0f, .top_n_sigma = 3.0f, .min_p = 0.05f},
     .slope = 1.5},
    {.name = "1, all of the filters",
     .params = {.temperature = 1.0f,
                .top_k = 1000,
                .top_p = 0.95f,
                .min_p = 0.001f,
                .typical_p = 0.95f,
                .top_n_sigma = 3.0f},
     .slope = 1.5},
    {.name = "1, typical_p .95, flat",
     .params = {.temperature = 1.0f, .typical_p = 0.95f},
     .slope = 0.5},
    {.name = "1, typical_p .95, all equal",
     .params = {.temperature = 1.0f, .typical_p = 0.95f},
     .slope = 0},
    {.name = "1, logprob and penalties",
     .params = {.temperature = 1.0f, .top_k = 40},
     .slope = 1.5,
     .wants_logprob = true,
     .has_penalties = true},
};

int main(int argc, char **argv)
{
    static const uint32_t row_counts[] = {1, 8, 64, 256};
    struct bench *bench = must_alloc(1, sizeof *bench);
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_bench(bench, argc > 1 ? (uint32_t)atoi(argv[1]) : DEFAULT_VOCAB,
               argc > 2 ? (uint32_t)atoi(argv[2]) : DEFAULT_HISTORY);
    printf("%s, vocabulary %u, history %u\n", bench->device->facts.name, bench->vocab,
           bench->history_tokens);
    double slope = -1.0;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench_case item = cases[i];
        if (argc > 3 && !strstr(item.name, argv[3]))
            continue;
        if (item.params.temperature == 0.0f && item.name[0] != 'g')
            item.params.temperature = 0.8f;
        if (item.params.top_p == 0.0f)
            item.params.top_p = 1.0f;
        if (item.params.typical_p == 0.0f)
            item.params.typical_p = 1.0f;
        item.params.repetition_penalty = item.has_penalties ? 1.0001f : 1.0f;
        if (item.slope != slope)
            upload_logits(bench, item.slope);
        slope = item.slope;
        for (uint32_t r = 0; r < sizeof row_counts / sizeof row_counts[0]; r++)
            measure(bench, &item, row_counts[r]);
    }
    close_bench(bench);
    free(bench);
    return 0;
}
