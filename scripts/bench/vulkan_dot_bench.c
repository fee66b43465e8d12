/*
 * Measures the few-rows linear kernels by shape and by tuning, outside any model.
 *
 * Each line of the case file is one variant; it is run as a chain of dispatches with barriers
 * between them, as in a decode step, each on weights of its own far enough apart that no cache
 * holds them. Printed are the microseconds of one dispatch and the weight bytes per second.
 *
 *     name shader kind n k rows input epilogue forms | invocations outputs split depth shared ahead
 *         grid
 *
 * Numbers are those of vulkan_push.h; `shared` is 0 or 1. linear_register takes invocations,
 * outputs (tiles of 16), split, ahead, grid and, as `shared`, whether x is tiled. Weights are
 * random bits: it checks no results (tests/vulkan does).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#define REPEATS      5u
#define CHAIN        32u
#define WARM_UP_MS   15.0
#define FIRST_MS     1000.0
#define CASES_MAX    2048u
#define STAGE_BYTES  (16ull << 20)
#define INPUT_BYTES  (4ull << 20)
#define OUTPUT_BYTES (16ull << 20)
#define PLACE_ALIGN  4096ull

struct bench_case {
    char name[16], shader[24], kind[8];
    uint32_t n, k, rows, input, epilogue, forms;
    uint32_t invocations, outputs, split, depth, shared, ahead, grid;
};

struct bench {
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
    struct vulkan_buffer stage, codes, scales, inputs, outputs;
};

static void check(enum result result, const struct error_text *error)
{
    if (result == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void make_buffer(struct bench *bench, enum vulkan_place place, uint64_t bytes,
                        struct vulkan_buffer *buffer)
{
    struct error_text error;
    check(vulkan_buffer_create(bench->device, place, bytes, "bench", buffer, &error), &error);
}

/* Random bits into the codes and inputs; the same small f16 everywhere else. */
static void fill_buffers(struct bench *bench)
{
    struct error_text error;
    uint32_t *words = bench->stage.mapped;
    uint32_t state = 12345;
    for (uint64_t i = 0; i < STAGE_BYTES / 4; i++) {
        state = state * 1664525u + 1013904223u;
        words[i] = state ^ (state >> 16) * 2654435761u;
    }
    check(vulkan_commands_begin(bench->commands, &error), &error);
    for (uint64_t at = 0; at < bench->codes.bytes; at += STAGE_BYTES) {
        uint64_t left = bench->codes.bytes - at;
        vulkan_commands_copy(bench->commands, &bench->stage, 0, &bench->codes, at,
                             left < STAGE_BYTES ? left : STAGE_BYTES);
    }
    vulkan_commands_fill(bench->commands, &bench->scales, 0, bench->scales.bytes, 0x1C001C00);
    vulkan_commands_fill(bench->commands, &bench->inputs, 0, INPUT_BYTES, 0x3C003C00);
    vulkan_commands_fill(bench->commands, &bench->outputs, 0, OUTPUT_BYTES, 0);
    check(vulkan_commands_end(bench->commands, &error), &error);
    check(vulkan_commands_run(bench->commands, &error), &error);
}

static uint32_t kind_named(const char *name)
{
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++) {
        enum ggml_type type = vulkan_weight_format_facts((enum vulkan_weight_kind)kind).type;
        if (strcmp(ggml_type_name(type), name) == 0)
            return kind;
    }
    fprintf(stderr, "no weight kind %s\n", name);
    exit(1);
}

static void fill_dot_constants(const struct bench *bench, const struct bench_case *c,
                               struct vulkan_specialization *constants)
{
    uint32_t *values = constants->values;
    constants->count = VULKAN_LINEAR_DOT_CONSTANTS;
    values[VULKAN_LINEAR_DOT_INPUT] = c->input;
    values[VULKAN_LINEAR_DOT_EPILOGUE] = c->epilogue;
    values[VULKAN_LINEAR_DOT_FORMS] = c->forms;
    values[VULKAN_LINEAR_DOT_OUTPUTS] = c->outputs;
    values[VULKAN_LINEAR_DOT_SPLIT] = c->split;
    values[VULKAN_LINEAR_DOT_DEPTH] = c->depth;
    values[VULKAN_LINEAR_DOT_SHARED_BLOCKS] = c->shared ? c->k / 32 : 0;
    values[VULKAN_LINEAR_DOT_SUBGROUPS] =
        (c->invocations + bench->device->facts.subgroup_size - 1) /
        bench->device->facts.subgroup_size;
    values[VULKAN_LINEAR_DOT_HAS_DOT] = 1;
    values[VULKAN_LINEAR_DOT_AHEAD] = c->ahead;
}

static void fill_register_constants(const struct bench_case *c,
                                    struct vulkan_specialization *constants)
{
    uint32_t *values = constants->values;
    constants->count = VULKAN_LINEAR_REGISTER_CONSTANTS;
    values[VULKAN_LINEAR_REGISTER_EPILOGUE] = c->epilogue;
    values[VULKAN_LINEAR_REGISTER_FORMS] = c->forms;
    values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES] = c->outputs;
    values[VULKAN_LINEAR_REGISTER_SUBGROUPS] = c->invocations / 32;
    values[VULKAN_LINEAR_REGISTER_SPLIT] = c->split;
    values[VULKAN_LINEAR_REGISTER_AHEAD] = c->ahead;
    values[VULKAN_LINEAR_REGISTER_TILED] = c->shared;
}

static const struct vulkan_kernel *make_kernel(struct bench *bench, const struct bench_case *c)
{
    struct vulkan_specialization constants;
    const struct vulkan_kernel *kernel;
    struct error_text error;
    if (strcmp(c->shader, "linear_register") == 0)
        fill_register_constants(c, &constants);
    else
        fill_dot_constants(bench, c, &constants);
    constants.values[0] = c->invocations;
    constants.values[1] = kind_named(c->kind);
    constants.values[2] = c->rows;
    check(vulkan_kernels_get(bench->kernels, c->shader, &constants, &kernel, &error), &error);
    return kernel;
}

static void record_chain(struct bench *bench, const struct bench_case *c,
                         const struct vulkan_kernel *kernel)
{
    struct error_text error;
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes((enum vulkan_weight_kind)kind_named(c->kind), c->n, c->k);
    uint64_t code_stride = (bytes.codes + bytes.high + PLACE_ALIGN - 1) & ~(PLACE_ALIGN - 1);
    uint64_t scale_stride = (bytes.scales + PLACE_ALIGN - 1) & ~(PLACE_ALIGN - 1);
    uint64_t copies = bench->codes.bytes / code_stride;
    if (scale_stride != 0 && bench->scales.bytes / scale_stride < copies)
        copies = bench->scales.bytes / scale_stride;
    must(copies > 0);
    struct vulkan_linear_dot_push push = {
        .x = bench->inputs.address,
        .x_terms = bench->inputs.address + INPUT_BYTES / 2,
        .norm_weights = bench->inputs.address,
        .out_f32 = bench->outputs.address,
        .out_f16 = bench->outputs.address,
        .out_q8 = bench->outputs.address,
        .out_q8_terms = bench->outputs.address + OUTPUT_BYTES / 2,
        .n = c->n,
        .k = c->k,
        .epsilon = 1e-5f,
        .out_stride = c->epilogue >= VULKAN_LINEAR_GATE_SILU ? c->n / 2 : c->n,
        .rows = c->rows};
    check(vulkan_commands_begin(bench->commands, &error), &error);
    for (uint32_t i = 0; i <= CHAIN; i++) {
        push.weights.codes = bench->codes.address + i % copies * code_stride;
        push.weights.high = push.weights.codes + bytes.codes;
        push.weights.scales = bench->scales.address + i % copies * scale_stride;
        if (i == 1)
            vulkan_commands_timestamp(bench->commands, 0);
        vulkan_commands_dispatch(bench->commands, kernel, &push, sizeof push,
                                 (struct vulkan_grid){c->grid, 1, 1});
        vulkan_commands_barrier(bench->commands);
    }
    vulkan_commands_timestamp(bench->commands, 1);
    check(vulkan_commands_end(bench->commands, &error), &error);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_case(struct bench *bench, const struct bench_case *c, double warm_up_ms)
{
    struct error_text error;
    double ns[REPEATS];
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes((enum vulkan_weight_kind)kind_named(c->kind), c->n, c->k);
    record_chain(bench, c, make_kernel(bench, c));
    /* An idle device clocks down. */
    for (double ms = 0; ms < warm_up_ms;
         ms += vulkan_commands_elapsed_ns(bench->commands, 0, 1) / 1e6)
        check(vulkan_commands_run(bench->commands, &error), &error);
    for (uint32_t i = 0; i < REPEATS; i++) {
        check(vulkan_commands_run(bench->commands, &error), &error);
        ns[i] = vulkan_commands_elapsed_ns(bench->commands, 0, 1) / CHAIN;
    }
    qsort(ns, REPEATS, sizeof *ns, compare_doubles);
    printf("%-8s %s %s %u r%u in%u ep%u f%u | wg%u o%u s%u d%u sh%u a%u g%u : %.2f us %.0f GB/s\n",
           c->name, c->shader, c->kind, c->n, c->rows, c->input, c->epilogue, c->forms,
           c->invocations, c->outputs, c->split, c->depth, c->shared, c->ahead, c->grid,
           ns[REPEATS / 2] / 1e3,
           (double)(bytes.codes + bytes.high + bytes.scales) / ns[REPEATS / 2]);
    fflush(stdout);
}

static void open_bench(struct bench *bench, uint32_t device, uint64_t pool_bytes)
{
    struct error_text error;
    const struct vulkan_device_options options = {.index = device,
                                                  .tier_limit = VULKAN_TIER_HIGHEST};
    check(vulkan_device_open(&options, &bench->device, &error), &error);
    check(vulkan_kernels_create(bench->device, NULL, &bench->kernels, &error), &error);
    check(vulkan_commands_create(bench->device, VULKAN_QUEUE_COMPUTE, 2, &bench->commands, &error),
          &error);
    make_buffer(bench, VULKAN_UPLOAD, STAGE_BYTES, &bench->stage);
    make_buffer(bench, VULKAN_DEVICE, pool_bytes, &bench->codes);
    make_buffer(bench, VULKAN_DEVICE, pool_bytes / 4, &bench->scales);
    make_buffer(bench, VULKAN_DEVICE, INPUT_BYTES, &bench->inputs);
    make_buffer(bench, VULKAN_DEVICE, OUTPUT_BYTES, &bench->outputs);
    fill_buffers(bench);
}

static void close_bench(struct bench *bench)
{
    struct vulkan_buffer *buffers[] = {&bench->stage, &bench->codes, &bench->scales, &bench->inputs,
                                       &bench->outputs};
    vulkan_commands_destroy(bench->commands);
    vulkan_kernels_destroy(bench->kernels);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        vulkan_buffer_destroy(bench->device, buffers[i]);
    vulkan_device_close(bench->device);
}

static bool read_case(const char *line, struct bench_case *c)
{
    memset(c, 0, sizeof *c);
    return sscanf(line, "%15s %23s %7s %u %u %u %u %u %u | %u %u %u %u %u %u %u", c->name,
                  c->shader, c->kind, &c->n, &c->k, &c->rows, &c->input, &c->epilogue, &c->forms,
                  &c->invocations, &c->outputs, &c->split, &c->depth, &c->shared, &c->ahead,
                  &c->grid) == 16;
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct bench_case *list = must_alloc(CASES_MAX, sizeof *list);
    uint32_t count = 0;
    char line[256];
    if (argc < 3) {
        fprintf(stderr, "usage: %s CASES POOL_MB [DEVICE]\n", argv[0]);
        return 1;
    }
    FILE *cases = fopen(argv[1], "r");
    must(cases);
    open_bench(&bench, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
               strtoull(argv[2], NULL, 10) << 20);
    while (count < CASES_MAX && fgets(line, sizeof line, cases))
        count += read_case(line, &list[count]);
    for (uint32_t i = 0; i < count; i++)
        (void)make_kernel(&bench, &list[i]);
    for (uint32_t i = 0; i < count; i++)
        run_case(&bench, &list[i], i == 0 ? FIRST_MS : WARM_UP_MS);
    free(list);
    fclose(cases);
    close_bench(&bench);
    return 0;
}
