/*
 * The linear kernels for few rows, for every weight kind, against double loops over the
 * checkpoint's values: almost exact with quantized activations as input, within the op's tolerance
 * with f32 ones; with many tunings, prologues and epilogues.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/tiled_places.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#define POISON      0x7fc0deadu
#define NORM_OFFSET 0.025f

/* One device for all tests. */
struct rig {
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_commands *commands;
};

struct tuning {
    uint32_t subgroups, outputs, split, depth, shared, ahead, grid;
    bool has_dot;
};

struct trial {
    enum vulkan_weight_kind kind;
    uint32_t n, k, rows;
    enum vulkan_linear_input input;
    enum vulkan_linear_epilogue epilogue;
    uint32_t forms;
    bool tiled; /* x */
    struct tuning tuning;
};

/* A trial's data on the host; outputs are [rows, columns]. */
struct figures {
    uint32_t columns;   /* of the output */
    float *x;           /* [rows, k] as given */
    float *effective;   /* [rows, k] as the kernel sees it: normed, and quantized for quantized
                           weights */
    float *norm;        /* [k] */
    float *before;      /* [rows, n]: what an ADD finds */
    double *expected;   /* [rows, columns] */
    double *from_exact; /* [rows, columns] from the input before quantization */
};

static void check(enum result result, const struct error_text *error)
{
    if (result != RESULT_OK)
        fail_msg("%s", error->text);
}

static int open_rig(void **state)
{
    struct rig *rig = must_alloc(1, sizeof *rig);
    struct error_text error;
    rig->device = vulkan_fixture_open(VULKAN_TIER_HIGHEST);
    check(vulkan_kernels_create(rig->device, NULL, &rig->kernels, &error), &error);
    check(vulkan_commands_create(rig->device, VULKAN_QUEUE_COMPUTE, 0, &rig->commands, &error),
          &error);
    rig->device->facts.matrix_registers = vulkan_register_probe(rig->device, rig->kernels);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    vulkan_commands_destroy(rig->commands);
    vulkan_kernels_destroy(rig->kernels);
    vulkan_fixture_close(rig->device);
    free(rig);
    return 0;
}

static struct vulkan_buffer make_buffer(struct rig *rig, uint64_t bytes)
{
    struct vulkan_buffer buffer;
    struct error_text error;
    check(vulkan_buffer_create(rig->device, VULKAN_UPLOAD, bytes + 64, "test", &buffer, &error),
          &error);
    uint32_t *words = buffer.mapped;
    for (uint64_t i = 0; i < (bytes + 64) / 4; i++)
        words[i] = POISON;
    return buffer;
}

/* What the q8 form keeps of a row. */
static void quantize_row(const float *x, uint32_t k, int8_t *codes, float *terms, float *kept)
{
    for (uint32_t b = 0; b < k / 32; b++) {
        float largest = 0;
        int sum = 0;
        for (uint32_t i = 0; i < 32; i++)
            largest = fmaxf(largest, fabsf(x[32 * b + i]));
        float d = largest / 127;
        for (uint32_t i = 0; i < 32; i++) {
            float scaled = largest > 0 ? x[32 * b + i] * (127 / largest) : 0;
            codes[32 * b + i] = (int8_t)lrintf(scaled);
            kept[32 * b + i] = d * (float)codes[32 * b + i];
            sum += codes[32 * b + i];
        }
        terms[2 * b] = d;
        terms[2 * b + 1] = d * (float)sum;
    }
}

static double activate(enum vulkan_linear_epilogue epilogue, double x)
{
    if (epilogue == VULKAN_LINEAR_GATE_SILU)
        return x / (1 + exp(-x));
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static bool is_gated(const struct trial *t)
{
    return t->epilogue >= VULKAN_LINEAR_GATE_SILU;
}

static bool is_quantized(const struct trial *t)
{
    return vulkan_weight_format_facts(t->kind).quantized;
}

/* expected [rows, columns] of activations x [rows, k]. */
static void compute_expected(const struct trial *t, const struct figures *f,
                             const struct plan_sketch *sketch, plan_weight_id weight,
                             const float *x, double *expected)
{
    float *w = must_alloc(t->k, sizeof *w);
    double *sums = must_alloc((size_t)t->rows * t->n, sizeof *sums);
    for (uint32_t n = 0; n < t->n; n++) {
        plan_sketch_weight_row(sketch, weight, n, w);
        for (uint32_t r = 0; r < t->rows; r++) {
            double sum = t->epilogue == VULKAN_LINEAR_ADD ? (double)f->before[r * t->n + n] : 0;
            for (uint32_t k = 0; k < t->k; k++)
                sum += (double)w[k] * (double)x[r * t->k + k];
            sums[r * t->n + n] = sum;
        }
    }
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t c = 0; c < f->columns; c++)
            expected[r * f->columns + c] = is_gated(t) ? activate(t->epilogue, sums[r * t->n + c]) *
                                                             sums[r * t->n + f->columns + c]
                                                       : sums[r * t->n + c];
    free(w);
    free(sums);
}

/* Row r of the input, and the same quantized, both before the norm's factor is applied. */
static void fill_effective(const struct trial *t, const struct figures *f, uint32_t r, float *exact)
{
    float *kept = f->effective + (size_t)r * t->k;
    const float *x = f->x + (size_t)r * t->k;
    double squares = 0;
    for (uint32_t k = 0; k < t->k; k++)
        squares += (double)x[k] * (double)x[k];
    double factor = t->input == VULKAN_LINEAR_NORM ? 1 / sqrt(squares / t->k + 1e-5) : 1;
    for (uint32_t k = 0; k < t->k; k++)
        exact[k] = t->input == VULKAN_LINEAR_NORM ? x[k] * (f->norm[k] + NORM_OFFSET) : x[k];
    if (t->input == VULKAN_LINEAR_F16) {
        for (uint32_t k = 0; k < t->k; k++)
            kept[k] = ggml_f16_to_f32(ggml_f32_to_f16(exact[k]));
    } else if (is_quantized(t)) {
        int8_t *codes = must_alloc(t->k, 1);
        float *terms = must_alloc(t->k / 16, sizeof *terms);
        quantize_row(exact, t->k, codes, terms, kept);
        free(codes);
        free(terms);
    } else {
        memcpy(kept, exact, t->k * sizeof *kept);
    }
    for (uint32_t k = 0; k < t->k; k++) {
        exact[k] = (float)(exact[k] * factor);
        kept[k] = (float)(kept[k] * factor);
    }
}

static void fill_figures(const struct trial *t, struct plan_sketch *sketch, plan_weight_id weight,
                         struct figures *f)
{
    size_t inputs = (size_t)t->rows * t->k;
    f->columns = is_gated(t) ? t->n / 2 : t->n;
    f->x = must_alloc(inputs, sizeof *f->x);
    f->effective = must_alloc(inputs, sizeof *f->effective);
    f->norm = must_alloc(t->k, sizeof *f->norm);
    f->before = must_alloc((size_t)t->rows * t->n, sizeof *f->before);
    f->expected = must_alloc((size_t)t->rows * f->columns, sizeof *f->expected);
    f->from_exact = must_alloc((size_t)t->rows * f->columns, sizeof *f->from_exact);
    for (size_t i = 0; i < inputs; i++)
        f->x[i] = plan_sketch_uniform(sketch) * (i % 61 == 0 ? 0.0f : 0.05f);
    for (uint32_t k = 0; k < t->k; k++)
        f->norm[k] = 0.1f + 0.05f * plan_sketch_uniform(sketch);
    for (size_t i = 0; i < (size_t)t->rows * t->n; i++)
        f->before[i] = plan_sketch_uniform(sketch);
    float *exact = must_alloc(inputs, sizeof *exact);
    for (uint32_t r = 0; r < t->rows; r++)
        fill_effective(t, f, r, exact + (size_t)r * t->k);
    compute_expected(t, f, sketch, weight, exact, f->from_exact);
    compute_expected(t, f, sketch, weight, f->effective, f->expected);
    free(exact);
}

static void free_figures(struct figures *f)
{
    free(f->x);
    free(f->effective);
    free(f->norm);
    free(f->before);
    free(f->expected);
    free(f->from_exact);
}

static const struct vulkan_kernel *make_kernel(struct rig *rig, const struct trial *t)
{
    bool registers = t->input == VULKAN_LINEAR_F16;
    struct vulkan_specialization constants;
    const struct vulkan_kernel *kernel;
    struct error_text error;
    uint32_t *values = constants.values;
    values[0] = t->tuning.subgroups * rig->device->facts.subgroup_size;
    values[1] = t->kind;
    values[2] = t->rows;
    if (registers) {
        values[VULKAN_LINEAR_REGISTER_ROWS] = (t->rows + 7) / 8 * 8;
        constants.count = VULKAN_LINEAR_REGISTER_CONSTANTS;
        values[VULKAN_LINEAR_REGISTER_EPILOGUE] = t->epilogue;
        values[VULKAN_LINEAR_REGISTER_FORMS] = t->forms;
        values[VULKAN_LINEAR_REGISTER_OUTPUT_TILES] = t->tuning.outputs;
        values[VULKAN_LINEAR_REGISTER_SUBGROUPS] = t->tuning.subgroups;
        values[VULKAN_LINEAR_REGISTER_SPLIT] = t->tuning.split;
        values[VULKAN_LINEAR_REGISTER_AHEAD] = t->tuning.ahead;
        values[VULKAN_LINEAR_REGISTER_TILED] = t->tiled;
    } else {
        constants.count = VULKAN_LINEAR_DOT_CONSTANTS;
        values[VULKAN_LINEAR_DOT_INPUT] = t->input;
        values[VULKAN_LINEAR_DOT_EPILOGUE] = t->epilogue;
        values[VULKAN_LINEAR_DOT_FORMS] = t->forms;
        values[VULKAN_LINEAR_DOT_OUTPUTS] = t->tuning.outputs;
        values[VULKAN_LINEAR_DOT_SPLIT] = t->tuning.split;
        values[VULKAN_LINEAR_DOT_DEPTH] = t->tuning.depth;
        values[VULKAN_LINEAR_DOT_SHARED_BLOCKS] = t->tuning.shared ? t->k / 32 : 0;
        values[VULKAN_LINEAR_DOT_SUBGROUPS] = t->tuning.subgroups;
        values[VULKAN_LINEAR_DOT_HAS_DOT] = t->tuning.has_dot;
        values[VULKAN_LINEAR_DOT_AHEAD] = t->tuning.ahead;
    }
    check(vulkan_kernels_get(rig->kernels, registers ? "linear_register" : "linear_dot", &constants,
                             &kernel, &error),
          &error);
    return kernel;
}

static void expect_near(const struct trial *t, const char *what, double value, double expected,
                        double bound, uint32_t r, uint32_t c)
{
    if (fabs(value - expected) <= bound)
        return;
    const struct tuning *u = &t->tuning;
    fail_msg("%s: %s n %u k %u rows %u input %d epilogue %d subgroups %u outputs %u split %u depth "
             "%u shared %u ahead %u grid %u dot %d: [%u, %u] is %.9g, not %.9g (bound %.3g)",
             what, ggml_type_name(vulkan_weight_format_facts(t->kind).type), t->n, t->k, t->rows,
             (int)t->input, (int)t->epilogue, u->subgroups, u->outputs, u->split, u->depth,
             u->shared, u->ahead, u->grid, (int)u->has_dot, r, c, value, expected, bound);
}

static double row_magnitude(const double *row, uint32_t count)
{
    double largest = 1e-30;
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(row[i]));
    return largest;
}

static void check_outputs(const struct trial *t, const struct figures *f, const float *f32,
                          const uint16_t *f16, const int8_t *q8, const float *q8_terms)
{
    enum ggml_type type = vulkan_weight_format_facts(t->kind).type;
    bool rounded = ggml_type_block(type).elements == 256 || type == GGML_A8 || type == GGML_A8_64;
    /* Packing rounds K types' scales and 8-bit codes' minimums to f16, matrix units round all weights; a
     * kernel that quantizes may round a code at a tie the other way. */
    double near = t->input == VULKAN_LINEAR_Q8 || !is_quantized(t) ? (rounded ? 1e-3 : 1e-4) : 3e-3;
    double far = is_gated(t) ? 4e-2 : 2e-2; /* of a product, twice a factor's */
    /* A few outputs may all be small by chance; the error of 8 bits is not. */
    bool tells = f->columns >= 8;
    for (uint32_t r = 0; r < t->rows; r++) {
        const double *expected = f->expected + (size_t)r * f->columns;
        double magnitude = row_magnitude(expected, f->columns);
        for (uint32_t c = 0; c < f->columns; c++) {
            size_t at = (size_t)r * f->columns + c;
            if ((t->forms & VULKAN_FORM_F32) != 0) {
                expect_near(t, "f32", (double)f32[at], expected[c], near * magnitude, r, c);
                if (tells)
                    expect_near(t, "f32, exact", (double)f32[at], f->from_exact[at],
                                far * row_magnitude(f->from_exact + at - c, f->columns), r, c);
            }
            double half = fmax(fmin(expected[c], 65504.0), -65504.0); /* halves end there */
            if ((t->forms & VULKAN_FORM_F16) != 0)
                expect_near(t, "f16", (double)ggml_f16_to_f32(f16[at]), half,
                            (near + 1e-3) * magnitude, r, c);
            if ((t->forms & VULKAN_FORM_TILED) != 0)
                expect_near(t, "tiled",
                            (double)ggml_f16_to_f32(f16[tiled_places_find(r, c, f->columns)]), half,
                            (near + 1e-3) * magnitude, r, c);
            if ((t->forms & VULKAN_FORM_Q8) != 0)
                expect_near(t, "q8", (double)q8[at] * (double)q8_terms[2 * (at / 32)], expected[c],
                            (near + 1.0 / 250) * magnitude, r, c);
        }
    }
    for (uint32_t b = 0; (t->forms & VULKAN_FORM_Q8) != 0 && b < t->rows * f->columns / 32; b++) {
        int sum = 0;
        for (uint32_t i = 0; i < 32; i++)
            sum += q8[32 * b + i];
        double d = (double)q8_terms[2 * b];
        expect_near(t, "q8 sum", (double)q8_terms[2 * b + 1], d * sum, 1e-4 * d + 1e-30, 0, b);
    }
}

/* Buffers in the order of the push constants' addresses. */
enum { CODES, HIGH, SCALES, X, X_TERMS, NORM, OUT_F32, OUT_F16, OUT_Q8, OUT_TERMS, BUFFERS };

static void make_buffers(struct rig *rig, const struct trial *t, struct figures *f,
                         const struct plan_weight *weight, struct vulkan_buffer *buffers)
{
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(t->kind, t->n, t->k);
    size_t outputs = (size_t)t->rows * f->columns;
    const uint64_t sizes[BUFFERS] = {bytes.codes,
                                     bytes.high,
                                     bytes.scales,
                                     t->tiled ? 2 * tiled_places_count(t->rows, t->k)
                                              : 4ull * t->rows * t->k,
                                     t->rows * t->k / 4ull,
                                     4ull * t->k,
                                     4 * outputs,
                                     2 * tiled_places_count(t->rows, f->columns),
                                     outputs,
                                     outputs / 4};
    for (uint32_t i = 0; i < BUFFERS; i++)
        buffers[i] = make_buffer(rig, sizes[i]);
    const struct vulkan_weight_arrays arrays = {buffers[CODES].mapped, buffers[HIGH].mapped,
                                                buffers[SCALES].mapped};
    vulkan_weight_format_pack(t->kind, weight->data, t->n, t->k, &arrays);
    memcpy(buffers[NORM].mapped, f->norm, t->k * sizeof *f->norm);
    if (t->epilogue == VULKAN_LINEAR_ADD)
        memcpy(buffers[OUT_F32].mapped, f->before, outputs * sizeof *f->before);
    float *kept = must_alloc(t->k, sizeof *kept);
    if (t->tiled) /* what is padding must not matter */
        memset(buffers[X].mapped, 0x7F, sizes[X]);
    for (uint32_t r = 0; r < t->rows; r++) {
        size_t at = (size_t)r * t->k;
        if (t->input == VULKAN_LINEAR_Q8)
            quantize_row(f->x + at, t->k, (int8_t *)buffers[X].mapped + at,
                         (float *)buffers[X_TERMS].mapped + at / 16, kept);
        else if (t->input == VULKAN_LINEAR_F16)
            for (uint32_t k = 0; k < t->k; k++)
                ((uint16_t *)buffers[X].mapped)[t->tiled ? tiled_places_find(r, k, t->k) : at + k] =
                    ggml_f32_to_f16(f->x[at + k]);
        else
            memcpy((float *)buffers[X].mapped + at, f->x + at, t->k * sizeof *f->x);
    }
    free(kept);
}

/* The validation layer needs one form of the kernel; the other CPU driver runs all forms. */
#define SEEN_BY_LAYER 6u
static bool is_left_out(const struct rig *rig, uint32_t trial)
{
    return vulkan_fixture_share(rig->device) == VULKAN_SHARE_MATRIX && trial % SEEN_BY_LAYER != 0;
}

static void check_trial(struct rig *rig, const struct trial *t, uint64_t seed)
{
    struct error_text error;
    struct figures f;
    struct vulkan_buffer buffers[BUFFERS];
    struct plan_sketch *sketch = plan_sketch_create(seed);
    enum ggml_type type = vulkan_weight_format_facts(t->kind).type;
    plan_weight_id weight = plan_sketch_weight(sketch, type, t->n, t->k);
    fill_figures(t, sketch, weight, &f);
    make_buffers(rig, t, &f, &plan_sketch_plan(sketch)->weights[weight], buffers);
    const struct vulkan_linear_dot_push push = {
        .weights = {buffers[CODES].address,
                    vulkan_weight_format_high(t->kind, t->k, buffers[HIGH].address),
                    buffers[SCALES].address},
        .x = buffers[X].address,
        .x_terms = buffers[X_TERMS].address,
        .norm_weights = buffers[NORM].address,
        .out_f32 = buffers[OUT_F32].address,
        .out_f16 = buffers[OUT_F16].address,
        .out_q8 = buffers[OUT_Q8].address,
        .out_q8_terms = buffers[OUT_TERMS].address,
        .n = t->n,
        .k = t->k,
        .epsilon = 1e-5f,
        .weight_offset = NORM_OFFSET,
        .out_stride = f.columns,
        .rows = t->rows};
    check(vulkan_commands_begin(rig->commands, &error), &error);
    vulkan_commands_dispatch(rig->commands, make_kernel(rig, t), &push, sizeof push,
                             (struct vulkan_grid){t->tuning.grid, 1, 1});
    check(vulkan_commands_end(rig->commands, &error), &error);
    check(vulkan_commands_run(rig->commands, &error), &error);
    check_outputs(t, &f, buffers[OUT_F32].mapped, buffers[OUT_F16].mapped, buffers[OUT_Q8].mapped,
                  buffers[OUT_TERMS].mapped);
    for (uint32_t i = 0; i < BUFFERS; i++)
        vulkan_buffer_destroy(rig->device, &buffers[i]);
    free_figures(&f);
    plan_sketch_destroy(sketch);
}

static uint32_t pick(struct test_random *random, const uint32_t *from, uint32_t count)
{
    return from[test_random_below(random, count)];
}

/* A tuning that fits: teams are whole, a gated tile is whole passes. Bounded, because CPU drivers
 * compile unrolled code slowly. */
static struct tuning random_tuning(const struct rig *rig, struct test_random *random,
                                   const struct trial *t)
{
    static const uint32_t powers[] = {1, 2, 4, 8};
    uint32_t most = vulkan_fixture_share(rig->device) == VULKAN_SHARE_ALL ? 12 : 8;
    struct tuning u;
    do {
        u.subgroups = pick(random, powers, 4);
        u.outputs = pick(random, powers, 4);
        u.split = pick(random, powers, 4);
        u.depth = pick(random, powers, 3);
    } while (u.subgroups % u.split != 0 || u.outputs * u.depth * t->rows > most);
    u.shared = is_quantized(t) && (t->input != VULKAN_LINEAR_Q8 || test_random_below(random, 2));
    u.ahead = test_random_below(random, 3);
    u.grid = 1 + test_random_below(random, 5);
    u.has_dot = test_random_below(random, 4) != 0;
    return u;
}

static void test_every_kind_and_every_row_count(void **state)
{
    struct test_random random = {51};
    for (uint32_t i = 0; i < VULKAN_WEIGHT_KIND_COUNT; i++) {
        struct trial t = {.kind = (enum vulkan_weight_kind)(i % VULKAN_WEIGHT_KIND_COUNT),
                          .rows = 1 + i % VULKAN_DOT_ROWS,
                          .forms = 1};
        t.n = 1 + test_random_below(&random, 90);
        t.k = 256 * (1 + test_random_below(&random, 3));
        t.input = is_quantized(&t) ? VULKAN_LINEAR_Q8 : VULKAN_LINEAR_F32;
        t.tuning = random_tuning(*state, &random, &t);
        if (!is_left_out(*state, i))
            check_trial(*state, &t, 100 + i);
    }
}

static void test_prologues_and_epilogues(void **state)
{
    static const enum vulkan_weight_kind kinds[] = {VULKAN_WEIGHT_Q4_0, VULKAN_WEIGHT_Q6_K,
                                                    VULKAN_WEIGHT_Q4_1, VULKAN_WEIGHT_F16};
    struct test_random random = {52};
    for (uint32_t i = 0; i < 3 * 4; i++) {
        struct trial t = {.kind = kinds[(i + i / 4) % 4],
                          .input = (enum vulkan_linear_input)(i % 3),
                          .epilogue = (enum vulkan_linear_epilogue)(i / 3 % 4)};
        if (!is_quantized(&t) && t.input == VULKAN_LINEAR_Q8)
            t.input = VULKAN_LINEAR_NORM;
        t.rows = 1 + test_random_below(&random, VULKAN_DOT_ROWS);
        t.k = 256 * (1 + test_random_below(&random, 3));
        t.n = is_gated(&t) ? 64 * (1 + test_random_below(&random, 3))
                           : 1 + test_random_below(&random, 100);
        t.forms = is_gated(&t) ? 7 : t.epilogue == VULKAN_LINEAR_ADD ? 1 : 3;
        t.tuning = random_tuning(*state, &random, &t);
        if (!is_left_out(*state, i))
            check_trial(*state, &t, 1000 + i);
    }
}

static void test_odd_shapes(void **state)
{
    struct test_random random = {53};
    for (uint32_t i = 0; i < 12; i++) {
        struct trial t = {
            .kind = (enum vulkan_weight_kind)(test_random_below(&random, VULKAN_WEIGHT_KIND_COUNT)),
            .rows = 1 + test_random_below(&random, VULKAN_DOT_ROWS),
            .forms = 1};
        uint32_t unit = ggml_type_block(vulkan_weight_format_facts(t.kind).type).elements;
        t.k = unit * (1 + test_random_below(&random, unit == 1 ? 300 : unit == 32 ? 40 : 4));
        t.input = (enum vulkan_linear_input)(is_quantized(&t) ? test_random_below(&random, 3)
                                                              : 1 + test_random_below(&random, 2));
        t.epilogue = (enum vulkan_linear_epilogue)test_random_below(&random, 4);
        t.n = 1 + test_random_below(&random, 150);
        if (is_gated(&t))
            t.n *= 2; /* any number of columns, so no q8 */
        t.tuning = random_tuning(*state, &random, &t);
        if (!is_left_out(*state, i))
            check_trial(*state, &t, 2000 + i);
    }
}

/* Only if the device's units hold fragments as the kernel fills them; those of CPU drivers do not.
 */
static void test_matrix_registers(void **state)
{
    static const uint32_t powers[] = {1, 2, 4, 8};
    static const uint32_t forms[] = {VULKAN_FORM_F32, VULKAN_FORM_F16, VULKAN_FORM_TILED,
                                     VULKAN_FORM_F32 | VULKAN_FORM_F16,
                                     VULKAN_FORM_F32 | VULKAN_FORM_TILED};
    struct rig *rig = *state;
    struct test_random random = {54};
    if (!rig->device->facts.matrix_registers)
        vulkan_fixture_skip("the device has no matrices in registers");
    for (uint32_t i = 0; i < 120; i++) {
        struct trial t = {.kind = (enum vulkan_weight_kind)(i % VULKAN_WEIGHT_F32),
                          .input = VULKAN_LINEAR_F16,
                          .epilogue = (enum vulkan_linear_epilogue)test_random_below(&random, 4),
                          .rows = 1 + test_random_below(&random, VULKAN_REGISTER_ROWS)};
        uint32_t unit = ggml_type_block(vulkan_weight_format_facts(t.kind).type).elements;
        t.k = unit * (1 + test_random_below(&random, unit == 32 ? 40 : 5));
        t.n = (40 + test_random_below(&random, 150)) * (is_gated(&t) ? 2 : 1);
        t.forms = t.epilogue == VULKAN_LINEAR_ADD ? 1 : pick(&random, forms, 5);
        t.tiled = test_random_below(&random, 2) != 0;
        t.tuning.outputs = 1 + test_random_below(&random, 4);
        do {
            t.tuning.subgroups = pick(&random, powers, 4);
            t.tuning.split = pick(&random, powers, 4);
        } while (t.tuning.subgroups % t.tuning.split != 0 ||
                 t.tuning.subgroups * 32 * (16 * t.tuning.outputs + 1) * 4 >
                     rig->device->facts.shared_bytes);
        t.tuning.ahead = test_random_below(&random, 2);
        t.tuning.grid = t.n; /* more than there is work for */
        check_trial(rig, &t, 3000 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_and_every_row_count),
        cmocka_unit_test(test_prologues_and_epilogues),
        cmocka_unit_test(test_odd_shapes),
        cmocka_unit_test(test_matrix_registers),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
