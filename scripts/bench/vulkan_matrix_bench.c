/*
 * Measures the matrix kernels by shape and tiling, outside any model, and checks each variant's
 * result against the plain kernel's (linear_tile) on the same device.
 *
 *     vulkan_matrix_bench CASES [SHADER FOLDER]
 *
 * Each line of the case file is one variant:
 *
 *     name kind epilogue rows n k path tile_rows tile_columns tile_k part_rows part_columns stages
 *     splits invocations (path fragment: depth)
 *
 * with the numbers of vulkan_matrix_policy.h; path `ptx` takes x as if it were staged, so its error says
 * nothing (vulkan_linear_matrix_test checks it); path `policy` takes what the policy chooses, and the
 * rest of the line is then absent. A variant is run as a chain of dispatches with barriers between
 * them, each on weights of its own, so that no cache holds them. Printed are the microseconds of
 * one op, the weight bytes per second, the arithmetic done and the largest error relative to the
 * largest magnitude, of the first and the last 16 MB of the outputs. With a folder, kernels come
 * from its .spv files instead of the build's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

#define REPEATS        5u
#define WARM_FIRST_NS  8e8
#define WARM_NS        1e8
#define WARM_RUNS_MAX  1000u
#define CHAIN_MAX      32u
#define STAGE_BYTES    (16ull << 20)
#define WEIGHT_BYTES   (1ull << 30)
#define SCALE_BYTES    (256ull << 20)
#define INPUT_BYTES    (256ull << 20)
#define OUTPUT_BYTES   (512ull << 20)
#define PARTIAL_BYTES  (128ull << 20)
#define SCRATCH_BYTES  (512ull << 20)
#define COMPARED_BYTES (16ull << 20)
#define PLACE_ALIGN    4096ull

struct bench_case {
    char name[32], kind[8], path[16];
    struct vulkan_matrix_request request;
    struct vulkan_matrix_tiling tiling;
};

struct bench {
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
    struct vulkan_buffer stage, codes, scales, halves, floats, output, partials, counters, scratch,
        expected, readback;
    const char *folder; /* NULL: embedded shaders */
    bool filled_floats;
    bool warm;
    bool filled;
};

static void check(enum result result, const struct error_text *error)
{
    if (result == RESULT_OK)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void run(struct bench *bench)
{
    struct error_text error;
    check(vulkan_commands_end(bench->commands, &error), &error);
    check(vulkan_commands_run(bench->commands, &error), &error);
}

static void begin(struct bench *bench)
{
    struct error_text error;
    check(vulkan_commands_begin(bench->commands, &error), &error);
}

static void spread_stage(struct bench *bench, const struct vulkan_buffer *target)
{
    begin(bench);
    for (uint64_t at = 0; at < target->bytes; at += bench->stage.bytes) {
        uint64_t left = target->bytes - at;
        vulkan_commands_copy(bench->commands, &bench->stage, 0, target, at,
                             left < bench->stage.bytes ? left : bench->stage.bytes);
    }
    run(bench);
}

static float half_value(uint16_t bits)
{
    float magnitude = ldexpf((float)((bits & 0x3ff) | 0x400), (int)(bits >> 10 & 31) - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* Random bits for codes, halves of 2^-9 .. 2^-8 for scales and float weights, of 1/4 .. 1/2 of
 * either sign for x. */
static void fill_buffers(struct bench *bench, bool float_weights)
{
    if (bench->filled && bench->filled_floats == float_weights)
        return;
    bench->filled = true;
    bench->filled_floats = float_weights;
    uint32_t *words = bench->stage.mapped;
    uint32_t state = 12345;
    for (uint64_t i = 0; i < bench->stage.bytes / 4; i++) {
        state = state * 1664525u + 1013904223u;
        words[i] = state ^ (state >> 16) * 2654435761u;
        if (float_weights)
            words[i] = (words[i] & 0x83ff83ffu) | 0x18001800u;
    }
    spread_stage(bench, &bench->codes);
    for (uint64_t i = 0; i < bench->stage.bytes / 4; i++)
        words[i] = (words[i] & 0x03ff03ffu) | 0x18001800u;
    spread_stage(bench, &bench->scales);
    uint16_t *halves = bench->stage.mapped;
    float *floats = bench->stage.mapped;
    for (uint64_t i = 0; i < bench->stage.bytes / 4; i++) {
        /* Twice the same, so that halves and floats repeat after as many. */
        state = state * 1664525u + 1013904223u;
        halves[i] = (uint16_t)((state >> 16 & 0x83ffu) | 0x3400u);
        halves[i + bench->stage.bytes / 4] = halves[i];
    }
    spread_stage(bench, &bench->halves);
    for (uint64_t i = bench->stage.bytes / 4; i-- > 0;)
        words[i] = halves[i];
    for (uint64_t i = 0; i < bench->stage.bytes / 4; i++)
        floats[i] = half_value((uint16_t)words[i]);
    spread_stage(bench, &bench->floats);
    begin(bench);
    vulkan_commands_fill(bench->commands, &bench->counters, 0, bench->counters.bytes, 0);
    run(bench);
}

static const struct vulkan_kernel *make_kernel(struct bench *bench,
                                               const struct vulkan_matrix_dispatch *dispatch)
{
    const struct vulkan_kernel *kernel;
    struct error_text error;
    if (!bench->folder) {
        check(vulkan_kernels_get(bench->kernels, dispatch->shader, &dispatch->constants, &kernel,
                                 &error),
              &error);
        return kernel;
    }
    static uint32_t words[16][1 << 15];
    static char names[16][64];
    uint32_t slot = 0;
    while (names[slot][0] && strcmp(names[slot], dispatch->shader) != 0)
        slot++;
    must(slot < 16);
    char path[512];
    snprintf(path, sizeof path, "%s/%s.spv", bench->folder, dispatch->shader);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    uint32_t count = (uint32_t)fread(words[slot], 4, 1 << 15, file);
    fclose(file);
    snprintf(names[slot], sizeof names[slot], "%s", dispatch->shader);
    check(vulkan_kernels_get_words(bench->kernels, names[slot], words[slot], count,
                                   &dispatch->constants, &kernel, &error),
          &error);
    return kernel;
}

struct op {
    const struct bench_case *c;
    struct vulkan_matrix_choice choice;
    const struct vulkan_kernel *unpack, *product, *sum; /* NULL: none */
    uint64_t code_stride, scale_stride;
    uint64_t out; /* address */
};

static struct op make_op(struct bench *bench, const struct bench_case *c,
                         const struct vulkan_matrix_tiling *tiling, uint64_t out)
{
    struct op op = {.c = c, .out = out};
    vulkan_matrix_choice_make(&bench->device->facts, &c->request, tiling, &op.choice);
    must(op.choice.partial_bytes <= bench->partials.bytes);
    if (op.choice.unpacked_bytes > 0)
        op.unpack = make_kernel(bench, &op.choice.unpack);
    op.product = make_kernel(bench, &op.choice.product);
    if (tiling->path == VULKAN_MATRIX_PTX && op.choice.partial_bytes > 0)
        op.sum = make_kernel(bench, &op.choice.sum);
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes(c->request.kind, c->request.n, c->request.k);
    op.code_stride = (bytes.codes + bytes.high + PLACE_ALIGN - 1) & ~(PLACE_ALIGN - 1);
    op.scale_stride = (bytes.scales + PLACE_ALIGN - 1) & ~(PLACE_ALIGN - 1);
    return op;
}

static void record_op(struct bench *bench, const struct op *op, uint64_t copy)
{
    const struct vulkan_matrix_request *request = &op->c->request;
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes(request->kind, request->n, request->k);
    struct vulkan_linear_matrix_push push = {
        .x = op->choice.x_form == VULKAN_FORM_F32 ? bench->floats.address : bench->halves.address,
        .out_f32 = op->out,
        .out_f16 = op->out + bench->output.bytes / 2,
        .partials = bench->partials.address,
        .counters = bench->counters.address};
    push.weights.codes = bench->codes.address + copy * op->code_stride;
    push.weights.high = push.weights.codes + bytes.codes;
    push.weights.scales = bench->scales.address + copy * op->scale_stride;
    vulkan_matrix_push_fill(request, &op->choice, &push);
    if (op->unpack) {
        struct vulkan_matrix_unpack_push unpack = {
            push.weights, bench->scratch.address, (uint32_t)((uint64_t)request->n * request->k / 8),
            0};
        vulkan_commands_dispatch(bench->commands, op->unpack, &unpack, sizeof unpack,
                                 op->choice.unpack.grid);
        vulkan_commands_barrier(bench->commands);
        push.weights.codes = bench->scratch.address;
    }
    if (op->choice.tiling.path == VULKAN_MATRIX_PTX) {
        const struct vulkan_linear_ptx_push ptx = vulkan_matrix_ptx_push(request, &push, 0);
        vulkan_commands_dispatch(bench->commands, op->product, &ptx, sizeof ptx,
                                 op->choice.product.grid);
        vulkan_commands_barrier(bench->commands);
        if (!op->sum)
            return;
        vulkan_commands_dispatch(bench->commands, op->sum, &ptx, sizeof ptx, op->choice.sum.grid);
    } else {
        vulkan_commands_dispatch(bench->commands, op->product, &push, sizeof push,
                                 op->choice.product.grid);
    }
    vulkan_commands_barrier(bench->commands);
}

/* Relative to the largest output; NaN where one is. */
static double compare_outputs(struct bench *bench, uint64_t from, uint64_t bytes)
{
    begin(bench);
    vulkan_commands_copy(bench->commands, &bench->output, from, &bench->readback, 0, bytes);
    vulkan_commands_copy(bench->commands, &bench->expected, from, &bench->readback,
                         bench->readback.bytes / 2, bytes);
    run(bench);
    const float *values = bench->readback.mapped;
    const float *expected = values + bench->readback.bytes / 8;
    double largest = 0, error = 0;
    for (uint64_t i = 0; i < bytes / sizeof *values; i++) {
        double difference = fabs((double)values[i] - (double)expected[i]);
        largest = fmax(largest, fabs((double)expected[i]));
        error = isnan(error) || error > difference ? error : difference;
    }
    return error / largest;
}

static double largest_error(struct bench *bench, const struct op *op)
{
    struct vulkan_matrix_tiling plain = {.path = VULKAN_MATRIX_TILE,
                                         .rows = 64,
                                         .columns = 64,
                                         .k = 32,
                                         .part_rows = 4,
                                         .part_columns = 4,
                                         .splits = 1};
    struct op reference = make_op(bench, op->c, &plain, bench->expected.address);
    begin(bench);
    vulkan_commands_fill(bench->commands, &bench->output, 0, bench->output.bytes, 0);
    vulkan_commands_fill(bench->commands, &bench->expected, 0, bench->expected.bytes, 0);
    vulkan_commands_barrier(bench->commands);
    record_op(bench, op, 0);
    record_op(bench, &reference, 0);
    run(bench);
    /* What lies at the end has edges. */
    const struct vulkan_matrix_request *request = &op->c->request;
    uint64_t outputs = request->epilogue < VULKAN_LINEAR_GATE_SILU ? request->n : request->n / 2;
    uint64_t bytes = request->rows * outputs * sizeof(float);
    uint64_t half = bench->readback.bytes / 2, compared = bytes < half ? bytes : half;
    double first = compare_outputs(bench, 0, compared);
    double last = compare_outputs(bench, bytes - compared, compared);
    return isnan(first) || first > last ? first : last;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(struct bench *bench, const struct bench_case *c)
{
    fill_buffers(bench, c->request.kind >= VULKAN_WEIGHT_F32);
    struct op op = make_op(bench, c, &c->tiling, bench->output.address);
    uint64_t copies = bench->codes.bytes / op.code_stride;
    if (op.scale_stride > 0 && bench->scales.bytes / op.scale_stride < copies)
        copies = bench->scales.bytes / op.scale_stride;
    must(copies > 0);
    double work = 2.0 * c->request.rows * c->request.n * c->request.k;
    uint32_t chain = work > 1e11 ? 4 : CHAIN_MAX;
    double ns[REPEATS];
    struct error_text error;
    begin(bench);
    vulkan_commands_timestamp(bench->commands, 0);
    for (uint32_t i = 0; i < chain; i++)
        record_op(bench, &op, i % copies);
    vulkan_commands_timestamp(bench->commands, 1);
    check(vulkan_commands_end(bench->commands, &error), &error);
    /* A device that was idle while a kernel was compiled runs slowly at first. */
    double first_ns = 0, warm_ns = 0;
    double enough_ns = bench->warm ? WARM_NS : WARM_FIRST_NS;
    bench->warm = true;
    for (uint32_t i = 0; i < WARM_RUNS_MAX && warm_ns < enough_ns; i++) {
        check(vulkan_commands_run(bench->commands, &error), &error);
        double run_ns = vulkan_commands_elapsed_ns(bench->commands, 0, 1);
        warm_ns += run_ns;
        first_ns = i == 0 ? run_ns / chain : first_ns;
    }
    for (uint32_t i = 0; i < REPEATS; i++) {
        check(vulkan_commands_run(bench->commands, &error), &error);
        ns[i] = vulkan_commands_elapsed_ns(bench->commands, 0, 1) / chain;
    }
    qsort(ns, REPEATS, sizeof *ns, compare_doubles);
    const struct vulkan_matrix_tiling *t = &op.choice.tiling;
    struct vulkan_weight_bytes bytes =
        vulkan_weight_format_bytes(c->request.kind, c->request.n, c->request.k);
    printf("%-10s %-5s e%u %4ux%ux%u path %u %ux%ux%u part %ux%u st %u sp %u d %u inv %u: %.1f us "
           "%.0f "
           "GB/s %.1f TFLOP/s err %.1e (at first %.1f us)\n",
           c->name, c->kind, c->request.epilogue, c->request.rows, c->request.n, c->request.k,
           t->path, t->rows, t->columns, t->k, t->part_rows, t->part_columns, t->stages, t->splits,
           t->depth, op.choice.product.constants.values[0], ns[REPEATS / 2] / 1e3,
           (double)(bytes.codes + bytes.high + bytes.scales) / ns[REPEATS / 2],
           work / ns[REPEATS / 2] / 1e3, largest_error(bench, &op), first_ns / 1e3);
    fflush(stdout);
}

static bool read_case(const struct bench *bench, const char *line, struct bench_case *c)
{
    static const char *paths[] = {"tile", "khr", "packed", "unpacked", "fragment", "plain", "ptx"};
    memset(c, 0, sizeof *c);
    struct vulkan_matrix_tiling *t = &c->tiling;
    struct vulkan_matrix_request *r = &c->request;
    uint32_t epilogue = 0;
    int got = sscanf(line, "%31s %7s %u %u %u %u %15s %u %u %u %u %u %u %u %u", c->name, c->kind,
                     &epilogue, &r->rows, &r->n, &r->k, c->path, &t->rows, &t->columns, &t->k,
                     &t->part_rows, &t->part_columns, &t->stages, &t->splits, &t->invocations);
    if (got < 7 || c->name[0] == '#')
        return false;
    r->epilogue = (enum vulkan_linear_epilogue)epilogue;
    r->forms = VULKAN_FORM_F32;
    r->scratch_bytes = SCRATCH_BYTES;
    r->staged = true;
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++) {
        r->kind = (enum vulkan_weight_kind)kind;
        if (strcmp(ggml_type_name(vulkan_weight_format_facts(r->kind).type), c->kind) == 0)
            break;
    }
    for (uint32_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(c->path, paths[i]) == 0)
            t->path = (enum vulkan_matrix_path)i;
    if (t->path == VULKAN_MATRIX_FRAGMENT)
        t->depth = t->invocations;
    if (strcmp(c->path, "policy") == 0)
        *t = vulkan_matrix_tiling_choose(&bench->device->facts, r);
    return true;
}

static void open_bench(struct bench *bench)
{
    struct error_text error;
    struct vulkan_device_options options = {.tier_limit = VULKAN_TIER_HIGHEST};
    check(vulkan_device_open(&options, &bench->device, &error), &error);
    const struct vulkan_device *device = bench->device;
    check(vulkan_kernels_create(device, NULL, &bench->kernels, &error), &error);
    check(vulkan_commands_create(device, VULKAN_QUEUE_COMPUTE, 2, &bench->commands, &error),
          &error);
    struct {
        enum vulkan_place place;
        uint64_t bytes;
        struct vulkan_buffer *buffer;
    } wanted[] = {{VULKAN_UPLOAD, STAGE_BYTES, &bench->stage},
                  {VULKAN_DEVICE, WEIGHT_BYTES, &bench->codes},
                  {VULKAN_DEVICE, SCALE_BYTES, &bench->scales},
                  {VULKAN_DEVICE, INPUT_BYTES, &bench->halves},
                  {VULKAN_DEVICE, INPUT_BYTES, &bench->floats},
                  {VULKAN_DEVICE, OUTPUT_BYTES, &bench->output},
                  {VULKAN_DEVICE, PARTIAL_BYTES, &bench->partials},
                  {VULKAN_DEVICE, 1 << 20, &bench->counters},
                  {VULKAN_DEVICE, SCRATCH_BYTES, &bench->scratch},
                  {VULKAN_DEVICE, OUTPUT_BYTES, &bench->expected},
                  {VULKAN_READBACK, 2 * COMPARED_BYTES, &bench->readback}};
    uint64_t shrink = device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 16 : 1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        check(vulkan_buffer_create(device, wanted[i].place, wanted[i].bytes / shrink, "bench",
                                   wanted[i].buffer, &error),
              &error);
}

int main(int argc, char **argv)
{
    FILE *cases = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!cases) {
        fprintf(stderr, "usage: vulkan_matrix_bench CASES [SHADER FOLDER]\n");
        return 2;
    }
    static struct bench bench;
    bench.folder = argc > 2 ? argv[2] : NULL;
    open_bench(&bench);
    printf("%s, %s, %s\n", bench.device->facts.name, bench.device->facts.driver,
           vulkan_tier_name(bench.device->facts.tier));
    char line[256];
    struct bench_case c;
    while (fgets(line, sizeof line, cases))
        if (read_case(&bench, line, &c))
            measure(&bench, &c);
    fclose(cases);
    return 0;
}
