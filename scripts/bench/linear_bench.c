/*
 * Measures the CPU's products alone, by tier, type, rows and threads: multiply-adds a second of one core.
 *
 *   linear_bench [--tiers avx512,amx] [--types Q4_0,Q8_0,...] [--rows 1,16,...] [--threads 1,2]
 *                [--columns 4096] [--outputs 4096] [--seconds 0.03] [--repeat 3] [--cpu-time]
 *
 * One matrix of random weights; every thread computes its share of the outputs, block of rows by block of rows, as
 * worker/backend/cpu/ops/cpu_linear.c does. A fifth of the blocks of activations have an outlier and so
 * a second term. Each figure is the best of --repeat runs of at least --seconds. The outputs of all tiers of a
 * line are compared: "differ" follows where bits do (the portable and AVX2 tiers against others).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/host/thread_pool.h"

#define LIST_MAX    64u
#define THREADS_MAX 256u
#define OUTLIERS    5u /* one block of so many has one */

struct bench {
    uint32_t columns, outputs, repeat;
    double seconds;
    bool cpu_time;
    char *tiers[LIST_MAX], *types[LIST_MAX], *rows[LIST_MAX], *threads[LIST_MAX];
};

struct work {
    const struct cpu_kernels *kernels;
    const struct packed_weight *weight;
    const void *x;
    size_t x_stride_bytes;
    float *out;
    uint32_t rows, threads;
    struct linear_scratch scratch[THREADS_MAX];
};

static void split(char *text, char **list)
{
    uint32_t count = 0;
    memset(list, 0, LIST_MAX * sizeof *list);
    for (char *word = strtok(text, ","); word && count < LIST_MAX - 1; word = strtok(NULL, ","))
        list[count++] = word;
}

static double now_s(const struct bench *bench)
{
    struct timespec now;
    clock_gettime(bench->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void multiply(void *context, uint32_t thread)
{
    struct work *work = context;
    const struct packed_weight *weight = work->weight;
    const uint32_t first = weight->groups * thread / work->threads;
    const uint32_t end = weight->groups * (thread + 1) / work->threads;
    const uint32_t block = linear_block_rows(work->kernels, weight->columns);
    work->scratch[thread].x = NULL;
    for (uint32_t row = 0; row < work->rows; row += block) {
        for (uint32_t group = first; group < end; group++) {
            struct linear_tile tile = {.group = weight->data + group * weight->group_bytes,
                                       .columns = weight->columns,
                                       .rows = work->rows - row < block ? work->rows - row : block,
                                       .x = (const char *)work->x + row * work->x_stride_bytes,
                                       .x_stride_bytes = work->x_stride_bytes,
                                       .out = work->out + (size_t)row * weight->rows +
                                              group * PACKED_ROWS,
                                       .out_stride = weight->rows,
                                       .scratch = &work->scratch[thread]};
            work->kernels->linear[weight->kind](&tile);
        }
    }
}

/* G multiply-adds a second of one thread; 0: the tier does not run here. */
static double measure(const struct bench *bench, const char *tier_name, struct work *work)
{
    enum cpu_tier tier;
    if (cpu_tier_parse(tier_name, &tier) != 0 || !(work->kernels = cpu_kernels_choose(tier)))
        return 0.0;
    struct thread_pool *pool;
    struct error_text error;
    must(thread_pool_create(work->threads, &pool, &error) == RESULT_OK);
    const uint32_t columns = work->weight->columns;
    const uint32_t block = linear_block_rows(work->kernels, columns);
    for (uint32_t t = 0; t < work->threads; t++) {
        struct linear_scratch *scratch = &work->scratch[t];
        scratch->bytes = linear_scratch_bytes(work->kernels, block, columns);
        scratch->memory = scratch->bytes > 0 ? aligned_alloc(64, scratch->bytes) : NULL;
    }
    double best = 0.0;
    for (uint32_t r = 0; r < bench->repeat; r++) {
        uint32_t runs = 0;
        double start = now_s(bench), took;
        do {
            thread_pool_run(pool, multiply, work);
            runs++;
            took = now_s(bench) - start;
        } while (took < bench->seconds);
        double rate = (double)runs * work->rows * columns * work->weight->rows / took * 1e-9;
        rate = bench->cpu_time ? rate : rate / work->threads;
        best = rate > best ? rate : best;
    }
    for (uint32_t t = 0; t < work->threads; t++)
        free(work->scratch[t].memory);
    thread_pool_destroy(pool);
    return best;
}

/* Quantized activations of `rows` rows, or floats. */
static void *make_inputs(struct plan_sketch *sketch, bool quantized, uint32_t rows,
                         uint32_t columns)
{
    const struct cpu_kernels *kernels = cpu_kernels_choose(CPU_TIER_BEST);
    float *x = must_alloc((size_t)rows * columns, sizeof *x);
    for (size_t i = 0; i < (size_t)rows * columns; i++)
        x[i] = plan_sketch_uniform(sketch);
    for (size_t i = 0; i < (size_t)rows * columns / 32; i++)
        if (test_random_below(plan_sketch_random(sketch), OUTLIERS) == 0)
            x[32 * i + 7] = 9.0f;
    if (!quantized)
        return x;
    struct quantized_block *blocks = must_alloc((size_t)rows * columns / 32, sizeof *blocks);
    for (uint32_t row = 0; row < rows; row++)
        kernels->quantize(x + (size_t)row * columns, columns, QUANTIZE_OUTLIER,
                          blocks + (size_t)row * (columns / 32));
    free(x);
    return blocks;
}

static void bench_rows(const struct bench *bench, struct plan_sketch *sketch, const char *type,
                       uint32_t rows, struct work *work)
{
    const uint32_t columns = work->weight->columns;
    const size_t bytes = (size_t)rows * work->weight->rows * sizeof(float);
    void *x = make_inputs(sketch, work->weight->quantized, rows, columns);
    float *expected = must_alloc(1, bytes);
    work->x = x;
    work->x_stride_bytes = work->weight->quantized ? columns / 32 * sizeof(struct quantized_block)
                                                   : columns * sizeof(float);
    work->rows = rows;
    work->out = must_alloc(1, bytes);
    for (uint32_t t = 0; bench->threads[t]; t++) {
        bool differ = false;
        work->threads = (uint32_t)atoi(bench->threads[t]);
        must(work->threads >= 1 && work->threads <= THREADS_MAX);
        printf("%-10s %4u rows %3u threads ", type, rows, work->threads);
        for (uint32_t i = 0; bench->tiers[i]; i++) {
            double rate = measure(bench, bench->tiers[i], work);
            printf(rate > 0 ? "  %s %7.1f" : "  %s       -", bench->tiers[i], rate);
            if (i == 0)
                memcpy(expected, work->out, bytes);
            else if (rate > 0)
                differ = differ || memcmp(expected, work->out, bytes) != 0;
        }
        printf("%s\n", differ ? "  differ" : "");
        fflush(stdout);
    }
    free(expected);
    free(work->out);
    free(x);
}

static void bench_type(const struct bench *bench, const char *name)
{
    static struct work work;
    enum ggml_type type = 0;
    while (type < GGML_TYPE_END &&
           (ggml_type_block(type).elements == 0 || strcmp(ggml_type_name(type), name) != 0))
        type++;
    if (type == GGML_TYPE_END) {
        fprintf(stderr, "unknown type %s\n", name);
        exit(2);
    }
    struct plan_sketch *sketch = plan_sketch_create(1);
    plan_weight_id id = plan_sketch_weight(sketch, type, bench->outputs, bench->columns);
    struct packed_weight weight = packed_weight_describe(type, 1, bench->outputs, bench->columns);
    weight.data = aligned_alloc(64, (packed_weight_bytes(&weight) + 63) / 64 * 64);
    must(weight.data);
    for (uint32_t group = 0; group < weight.groups; group++)
        packed_weight_fill_group(&weight, type, plan_sketch_plan(sketch)->weights[id].data, group);
    work.weight = &weight;
    for (uint32_t r = 0; bench->rows[r]; r++)
        bench_rows(bench, sketch, name, (uint32_t)atoi(bench->rows[r]), &work);
    free(weight.data);
    plan_sketch_destroy(sketch);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"tiers", required_argument, NULL, 'i'},   {"types", required_argument, NULL, 'y'},
        {"rows", required_argument, NULL, 'r'},    {"threads", required_argument, NULL, 't'},
        {"columns", required_argument, NULL, 'c'}, {"outputs", required_argument, NULL, 'o'},
        {"seconds", required_argument, NULL, 's'}, {"repeat", required_argument, NULL, 'n'},
        {"cpu-time", no_argument, NULL, 'u'},      {NULL, 0, NULL, 0}};
    static struct bench bench = {.columns = 4096, .outputs = 4096, .repeat = 3, .seconds = 0.03};
    static char tiers[] = "avx512,amx", rows[] = "1,4,8,16,32,64,128,512", threads[] = "1";
    static char types[] = "Q4_0,Q8_0,Q4_K,Q6_K,IQ4_NL,MXFP4";
    split(tiers, bench.tiers);
    split(types, bench.types);
    split(rows, bench.rows);
    split(threads, bench.threads);
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'i': split(optarg, bench.tiers); break;
        case 'y': split(optarg, bench.types); break;
        case 'r': split(optarg, bench.rows); break;
        case 't': split(optarg, bench.threads); break;
        case 'c': bench.columns = (uint32_t)atoi(optarg); break;
        case 'o': bench.outputs = (uint32_t)atoi(optarg); break;
        case 's': bench.seconds = atof(optarg); break;
        case 'n': bench.repeat = (uint32_t)atoi(optarg); break;
        case 'u': bench.cpu_time = true; break;
        default: return 2;
        }
    }
    must(bench.columns > 0 && bench.columns % 256 == 0 && bench.outputs % PACKED_ROWS == 0);
    printf("G multiply-adds a second of one core; %u columns, %u outputs\n", bench.columns,
           bench.outputs);
    for (uint32_t i = 0; bench.types[i]; i++)
        bench_type(&bench, bench.types[i]);
    return 0;
}
