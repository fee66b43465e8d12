/*
 * The kernels for many rows, for every weight kind, against double loops over the checkpoint's
 * values: with many tiles, splits and epilogues, with rows, outputs and columns that do not fill a
 * tile, and with nothing written beyond the outputs.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/tiled_places.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"

enum { GUARD_BYTES = 256, GUARD = 0xAA, NAN_HALF = 0xffff };

/* A product and all that is known of it on the host. */
struct product {
    struct vulkan_matrix_request request;
    struct vulkan_matrix_tiling tiling;
    struct plan_sketch *sketch;
    plan_weight_id weight;
    uint32_t columns; /* of the output */
    float *x;         /* [rows, k], each exact in f16 */
    uint32_t stride;  /* columns and, of `padded`, zeros after them */
    bool padded, biased;
    float *before;    /* [rows, columns]: what an ADD finds */
    float *biases;    /* [n], of `biased` */
    double *expected; /* [rows, columns] */
    float *first_row; /* gets the first row of the f32 output; NULL: nothing does */
    /* The device's. */
    struct vulkan_matrix_push weights;
    const struct vulkan_buffer *out_f32, *out_f16, *counters;
};

static bool is_gated(const struct product *p)
{
    return p->request.epilogue >= VULKAN_LINEAR_GATE_SILU;
}

static uint16_t half_bits(float value)
{
    int exponent;
    float fraction = frexpf(fabsf(value), &exponent); /* [0.5, 1) */
    if (value == 0)
        return 0;
    uint16_t bits =
        (uint16_t)((exponent + 14) << 10 | ((int)ldexpf(fraction, 11) & 0x3ff)); /* 2^-14 .. */
    return value < 0 ? (uint16_t)(bits | 0x8000) : bits;
}

static double activate(enum vulkan_linear_epilogue epilogue, double x)
{
    if (epilogue == VULKAN_LINEAR_GATE_SILU)
        return x / (1 + exp(-x));
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void compute_expected(struct product *p)
{
    const struct vulkan_matrix_request *q = &p->request;
    float *w = must_alloc(q->k, sizeof *w);
    double *sums = must_alloc((size_t)q->rows * q->n, sizeof *sums);
    for (uint32_t n = 0; n < q->n; n++) {
        plan_sketch_weight_row(p->sketch, p->weight, n, w);
        for (uint32_t r = 0; r < q->rows; r++) {
            double sum = p->biased ? (double)p->biases[n] : 0;
            for (uint32_t k = 0; k < q->k; k++)
                sum += (double)w[k] * (double)p->x[(size_t)r * q->k + k];
            sums[(size_t)r * q->n + n] = sum;
        }
    }
    for (uint32_t r = 0; r < q->rows; r++)
        for (uint32_t c = 0; c < p->columns; c++) {
            double *out = &p->expected[(size_t)r * p->columns + c];
            *out = sums[(size_t)r * q->n + c];
            if (is_gated(p))
                *out = activate(q->epilogue, *out) * sums[(size_t)r * q->n + p->columns + c];
            else if (q->epilogue == VULKAN_LINEAR_ADD)
                *out += (double)p->before[(size_t)r * p->columns + c];
        }
    free(w);
    free(sums);
}

static void product_init(struct product *p, uint64_t seed)
{
    const struct vulkan_matrix_request *q = &p->request;
    p->sketch = plan_sketch_create(seed);
    p->columns = is_gated(p) ? q->n / 2 : q->n;
    p->stride = p->padded ? (p->columns + 127) / 128 * 128 : p->columns;
    p->weight = plan_sketch_weight(p->sketch, vulkan_weight_format_facts(q->kind).type, q->n, q->k);
    p->x = must_alloc((size_t)q->rows * q->k, sizeof *p->x);
    p->before = must_alloc((size_t)q->rows * p->columns, sizeof *p->before);
    p->expected = must_alloc((size_t)q->rows * p->columns, sizeof *p->expected);
    for (size_t i = 0; i < (size_t)q->rows * q->k; i++)
        p->x[i] = roundf(plan_sketch_uniform(p->sketch) * 256.0f) / 1024.0f;
    for (size_t i = 0; i < (size_t)q->rows * p->columns; i++)
        p->before[i] = plan_sketch_uniform(p->sketch);
    p->biases = must_alloc(q->n, sizeof *p->biases);
    for (uint32_t i = 0; i < q->n; i++)
        p->biases[i] = plan_sketch_uniform(p->sketch);
    compute_expected(p);
}

static void product_fini(struct product *p)
{
    plan_sketch_destroy(p->sketch);
    free(p->x);
    free(p->before);
    free(p->biases);
    free(p->expected);
}

static const struct vulkan_buffer *guarded_buffer(struct vulkan_trial *trial, const void *data,
                                                  uint64_t bytes)
{
    const struct vulkan_buffer *buffer = vulkan_trial_buffer(trial, NULL, bytes + GUARD_BYTES);
    if (data)
        memcpy(buffer->mapped, data, bytes);
    return buffer;
}

static void expect_guard(const struct vulkan_buffer *buffer)
{
    const uint8_t *guard = (const uint8_t *)buffer->mapped + buffer->bytes - GUARD_BYTES;
    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(guard[i], GUARD);
}

/* The packed weights on the device. */
static void upload_weights(struct vulkan_trial *trial, struct product *p)
{
    const struct vulkan_matrix_request *q = &p->request;
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(q->kind, q->n, q->k);
    const struct vulkan_buffer *codes = guarded_buffer(trial, NULL, bytes.codes);
    const struct vulkan_buffer *high = guarded_buffer(trial, NULL, bytes.high);
    const struct vulkan_buffer *scales = guarded_buffer(trial, NULL, bytes.scales);
    const struct vulkan_weight_arrays arrays = {codes->mapped, high->mapped, scales->mapped};
    vulkan_weight_format_pack(q->kind, plan_sketch_plan(p->sketch)->weights[p->weight].data, q->n,
                              q->k, &arrays);
    p->weights = (struct vulkan_matrix_push){
        codes->address, vulkan_weight_format_high(q->kind, q->k, high->address), scales->address};
}

/* What a kernel may read, but not use, is NaN. */
static uint64_t upload_x(struct vulkan_trial *trial, const struct product *p,
                         const struct vulkan_matrix_choice *choice)
{
    size_t count = (size_t)p->request.rows * p->request.k;
    bool staged = choice->x_form == VULKAN_FORM_STAGED;
    size_t readable = staged ? staged_places_count(choice->x_rows, p->request.k)
                             : (size_t)choice->x_rows * p->request.k;
    if (choice->x_form == VULKAN_FORM_F32)
        return guarded_buffer(trial, p->x, count * sizeof *p->x)->address;
    uint16_t *halves = must_alloc(readable, sizeof *halves);
    for (size_t i = 0; i < readable; i++) {
        size_t at = staged ? staged_places_find((uint32_t)(i / p->request.k),
                                                (uint32_t)(i % p->request.k), p->request.k)
                           : i;
        halves[at] = i < count ? half_bits(p->x[i]) : NAN_HALF;
    }
    uint64_t address = guarded_buffer(trial, halves, readable * sizeof *halves)->address;
    free(halves);
    return address;
}

/* What it leaves as it was is NaN. */
static void unpack(struct vulkan_trial *trial, struct product *p,
                   const struct vulkan_matrix_choice *choice, const struct vulkan_buffer *halves)
{
    memset(halves->mapped, NAN_HALF & 0xff, choice->unpacked_bytes);
    const struct vulkan_matrix_unpack_push push = {
        p->weights, halves->address, (uint32_t)((uint64_t)p->request.n * p->request.k / 8), 0};
    vulkan_trial_run(trial, choice->unpack.shader, &choice->unpack.constants, &push, sizeof push,
                     choice->unpack.grid);
}

static void expect_outputs(const struct product *p)
{
    const struct vulkan_matrix_request *q = &p->request;
    const float *f32 = p->out_f32->mapped;
    const uint16_t *f16 = p->out_f16->mapped;
    bool staged = (q->forms & VULKAN_FORM_STAGED) != 0;
    /* Packing rounds K types' scales and A8's minimums to f16, matrix units round all weights. */
    bool floats = p->tiling.path == VULKAN_MATRIX_TILE || p->tiling.path == VULKAN_MATRIX_PLAIN;
    enum ggml_type type = vulkan_weight_format_facts(q->kind).type;
    bool exact =
        floats && type != GGML_A8 && type != GGML_A8_64 && ggml_type_block(type).elements < 256;
    double near = exact ? 2e-5 : is_gated(p) ? 4e-3 : 2e-3;
    for (uint32_t r = 0; r < q->rows; r++) {
        const double *expected = p->expected + (size_t)r * p->columns;
        double largest = 1e-30;
        for (uint32_t c = 0; c < p->columns; c++)
            largest = fmax(largest, fabs(expected[c]));
        for (uint32_t c = 0; c < p->stride; c++) {
            size_t at = (size_t)r * p->stride + c;
            size_t half_at = staged ? staged_places_find(r, c, p->stride) : at;
            double value = (q->forms & VULKAN_FORM_F32) != 0
                               ? (double)f32[at]
                               : (double)ggml_f16_to_f32(f16[half_at]);
            double bound = (near + ((q->forms & VULKAN_FORM_F32) != 0 ? 0 : 1e-3)) * largest;
            double wanted = c < p->columns ? expected[c] : 0;
            bound = c < p->columns ? bound : 0;
            if ((q->forms & VULKAN_FORM_F32) == 0) /* halves end there */
                wanted = fmax(fmin(wanted, 65504.0), -65504.0);
            if (!(fabs(value - wanted) <= bound))
                fail_msg("%s path %d %ux%ux%u epilogue %d tile %ux%ux%u splits %u: [%u, %u] is "
                         "%.9g, not %.9g",
                         ggml_type_name(vulkan_weight_format_facts(q->kind).type),
                         (int)p->tiling.path, q->rows, q->n, q->k, (int)q->epilogue, p->tiling.rows,
                         p->tiling.columns, p->tiling.k, p->tiling.splits, r, c, value, wanted);
        }
    }
    expect_guard(p->out_f32);
    expect_guard(p->out_f16);
    for (uint32_t i = 0; i < p->counters->bytes / 4; i++)
        assert_int_equal(((const uint32_t *)p->counters->mapped)[i], 0);
}

static void check_product(struct vulkan_trial *trial, struct product *p, uint64_t seed)
{
    product_init(p, seed);
    if (p->tiling.path == VULKAN_MATRIX_KHR && trial->device->facts.matrix_shapes[0].m > 8) {
        p->tiling.part_rows = p->tiling.part_rows > 16 ? p->tiling.part_rows : 16;
        p->tiling.part_columns = 32;
    }
    struct vulkan_matrix_choice choice;
    vulkan_matrix_choice_make(&trial->device->facts, &p->request, &p->tiling, &choice);
    upload_weights(trial, p);
    size_t outputs = (size_t)p->request.rows * p->stride;
    p->out_f32 = guarded_buffer(trial, p->request.epilogue == VULKAN_LINEAR_ADD ? p->before : NULL,
                                outputs * sizeof(float));
    bool staged = (p->request.forms & VULKAN_FORM_STAGED) != 0;
    p->out_f16 = guarded_buffer(
        trial, NULL, 2 * (staged ? staged_places_count(p->request.rows, p->stride) : outputs));
    p->counters = vulkan_trial_buffer(trial, NULL, 4ull * choice.counter_count + 4);
    memset(p->counters->mapped, 0, p->counters->bytes);
    const struct vulkan_buffer *partials = guarded_buffer(trial, NULL, choice.partial_bytes);
    struct vulkan_linear_matrix_push push = {.weights = p->weights,
                                             .x = upload_x(trial, p, &choice),
                                             .out_f32 = p->out_f32->address,
                                             .out_f16 = p->out_f16->address,
                                             .partials = partials->address,
                                             .counters = p->counters->address};
    vulkan_matrix_push_fill(&p->request, &choice, &push);
    push.out_stride = p->stride;
    if (choice.unpacked_bytes > 0) {
        const struct vulkan_buffer *halves = guarded_buffer(trial, NULL, choice.unpacked_bytes);
        unpack(trial, p, &choice, halves);
        push.weights.codes = halves->address;
    }
    const struct vulkan_linear_ptx_push ptx = vulkan_matrix_ptx_push(
        &p->request, &push,
        p->biased ? guarded_buffer(trial, p->biases, p->request.n * sizeof(float))->address : 0);
    bool is_ptx = p->tiling.path == VULKAN_MATRIX_PTX;
    vulkan_trial_run(trial, choice.product.shader, &choice.product.constants,
                     is_ptx ? (const void *)&ptx : &push, is_ptx ? sizeof ptx : sizeof push,
                     choice.product.grid);
    if (is_ptx && choice.partial_bytes > 0)
        vulkan_trial_run(trial, choice.sum.shader, &choice.sum.constants, &ptx, sizeof ptx,
                         choice.sum.grid);
    expect_outputs(p);
    expect_guard(partials);
    if (p->first_row)
        memcpy(p->first_row, p->out_f32->mapped, p->stride * sizeof(float));
    vulkan_trial_clear(trial);
    product_fini(p);
}

static uint32_t columns_unit(enum vulkan_weight_kind kind)
{
    enum ggml_type type = vulkan_weight_format_facts(kind).type;
    return ggml_type_block(type).elements > 32 ? 256 : 32;
}

/* Every `step`th kind once, with epilogues in turn and a shape for each. */
static void check_kinds(struct vulkan_trial *trial, const struct vulkan_matrix_tiling *tilings,
                        uint32_t tiling_count, uint32_t step)
{
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind += step) {
        struct product p = {.tiling = tilings[kind % tiling_count]};
        p.request.kind = (enum vulkan_weight_kind)kind;
        p.request.epilogue = (enum vulkan_linear_epilogue)(kind % 4);
        p.request.rows = 1 + 13 * kind % 37;
        p.request.n = 2 * (17 + 5 * kind);
        p.request.k = columns_unit(p.request.kind) * (kind % 2 ? 1 : 3);
        p.request.forms = kind % 3 == 1 && p.request.epilogue != VULKAN_LINEAR_ADD
                              ? VULKAN_FORM_F16
                              : VULKAN_FORM_F32 | VULKAN_FORM_F16;
        check_product(trial, &p, kind);
    }
}

static const struct vulkan_matrix_tiling plain_tilings[] = {
    {.path = VULKAN_MATRIX_TILE,
     .rows = 16,
     .columns = 32,
     .k = 32,
     .part_rows = 2,
     .part_columns = 4,
     .splits = 1},
    {.path = VULKAN_MATRIX_TILE,
     .rows = 32,
     .columns = 64,
     .k = 32,
     .part_rows = 4,
     .part_columns = 4,
     .splits = 1},
};

static void test_tiles_multiply_every_kind(void **state)
{
    const struct vulkan_trial *trial = *state;
    bool layer = vulkan_fixture_share(trial->device) == VULKAN_SHARE_MATRIX;
    check_kinds(*state, plain_tilings, 2, layer ? 5 : 1);
}

static void test_tiles_take_any_width_of_float_weights(void **state)
{
    for (uint32_t k = 1; k <= 67; k += 11) {
        struct product p = {.tiling = plain_tilings[k % 2]};
        p.request = (struct vulkan_matrix_request){
            .kind = (enum vulkan_weight_kind)(VULKAN_WEIGHT_F32 + k % 3),
            .rows = 3 + k,
            .n = 1 + k,
            .k = k,
            .forms = VULKAN_FORM_F32};
        check_product(*state, &p, k);
    }
}

/* The kernel for drivers that compute on a CPU, whose subgroups have 4 to 16 lanes. */
static void test_lanes_multiply_every_kind(void **state)
{
    struct vulkan_trial *trial = *state;
    uint32_t lanes = trial->device->facts.subgroup_size;
    const struct vulkan_matrix_tiling tilings[] = {
        {VULKAN_MATRIX_PLAIN, 8, 8 * lanes, 32, 8, 2, 1, 1, 0, 0, false},
        {VULKAN_MATRIX_PLAIN, 4, 8 * lanes, 32, 4, 2, 1, 1, 0, 0, false},
    };
    if (lanes < 4 || lanes > 16 || trial->device->facts.tier >= VULKAN_KHR_MATRIX)
        vulkan_fixture_skip(
            "plain tilings are for devices without matrix units and with subgroups of 4 to 16");
    check_kinds(trial, tilings, 2, 1);
}

/* Parts are small because CPU drivers compile unrolled code slowly. */
static void test_matrix_units_multiply_every_kind(void **state)
{
    struct vulkan_trial *trial = *state;
    static const struct vulkan_matrix_tiling tilings[] = {
        {VULKAN_MATRIX_KHR, 16, 32, 32, 8, 16, 1, 1, 0, 0, false},
        {VULKAN_MATRIX_KHR, 32, 32, 64, 8, 16, 2, 1, 0, 0, false},
        {VULKAN_MATRIX_KHR, 16, 64, 32, 8, 16, 1, 1, 0, 0, false},
    };
    if (trial->device->facts.tier < VULKAN_KHR_MATRIX)
        vulkan_fixture_skip("the device has no KHR matrices");
    /* There the plain kernel and the unpacking test every kind. */
    bool slow = trial->device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    check_kinds(trial, tilings, 3, slow ? 3 : 1);
}

static void test_splits_add_up(void **state)
{
    struct vulkan_trial *trial = *state;
    if (trial->device->facts.tier < VULKAN_KHR_MATRIX)
        vulkan_fixture_skip("the device has no KHR matrices");
    for (uint32_t splits = 2; splits <= 4; splits += 2) {
        uint32_t part_rows = splits == 4 ? 16 : 8;
        struct product p = {
            .tiling = {VULKAN_MATRIX_KHR, 16, 32, 32, part_rows, 16, 1, splits, 0, 0, false}};
        p.request =
            (struct vulkan_matrix_request){.kind = VULKAN_WEIGHT_Q4_0,
                                           .rows = 21,
                                           .n = 70,
                                           .k = 224,
                                           .epilogue = (enum vulkan_linear_epilogue)(splits - 1),
                                           .forms = VULKAN_FORM_F32};
        check_product(trial, &p, splits);
    }
}

static void test_fragments_in_registers_multiply_every_kind(void **state)
{
    struct vulkan_trial *trial = *state;
    static const struct vulkan_matrix_tiling tilings[] = {
        {VULKAN_MATRIX_FRAGMENT, 32, 64, 256, 16, 32, 2, 1, 0, 2, false},
        {VULKAN_MATRIX_FRAGMENT, 64, 128, 128, 64, 32, 2, 1, 0, 1, false},
        {VULKAN_MATRIX_FRAGMENT, 16, 64, 256, 16, 16, 1, 3, 0, 1, false},
    };
    if (!trial->device->facts.matrix_registers)
        vulkan_fixture_skip("the device has no matrices in registers");
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_F32; kind++) {
        struct product p = {.tiling = tilings[kind % 3]};
        p.request = (struct vulkan_matrix_request){
            .kind = (enum vulkan_weight_kind)kind,
            .rows = 1 + 13 * kind % 97,
            .n = 2 * (17 + 51 * kind),
            .k = columns_unit((enum vulkan_weight_kind)kind) * (kind % 2 ? 5 : 3),
            .epilogue = (enum vulkan_linear_epilogue)(kind % 4),
            .forms = VULKAN_FORM_F32 | VULKAN_FORM_F16};
        check_product(trial, &p, kind);
    }
}

static void test_workgroups_multiply_by_whole_matrices(void **state)
{
    struct vulkan_trial *trial = *state;
    if (trial->device->facts.tier < VULKAN_NV_MATRIX2)
        vulkan_fixture_skip("the device has no NV matrix 2");
    for (uint32_t i = 0; i < 32; i++) {
        bool whole = i % 8 >= 6, packed = i % 2;
        uint32_t kind = packed ? i % VULKAN_WEIGHT_F32 : i / 2 * 3 % VULKAN_WEIGHT_KIND_COUNT;
        uint32_t unit = columns_unit((enum vulkan_weight_kind)kind);
        struct product p = {
            .tiling = {.path = packed ? VULKAN_MATRIX_NV2_PACKED : VULKAN_MATRIX_NV2_UNPACKED,
                       .rows = 128,
                       .columns = 128,
                       .k = 64,
                       .splits = 1,
                       .invocations = 256}};
        p.request =
            (struct vulkan_matrix_request){.kind = (enum vulkan_weight_kind)kind,
                                           .rows = whole ? 256 : 131 + 7 * i,
                                           .n = whole ? 256 : 250 + 6 * i,
                                           .k = whole ? 512 : unit * (256 / unit + i % 3),
                                           .epilogue = (enum vulkan_linear_epilogue)(i % 5 % 4),
                                           .forms = VULKAN_FORM_F32 | VULKAN_FORM_F16};
        check_product(trial, &p, i);
    }
}

/* Every kind that the kernels in PTX have: tiles of all sizes, edges of rows and outputs, splits, biases. */
static void test_kernels_in_ptx_multiply(void **state)
{
    struct vulkan_trial *trial = *state;
    if (trial->device->facts.tier < VULKAN_PTX)
        vulkan_fixture_skip("the device has no PTX");
    for (uint32_t i = 0; i < 160; i++) {
        struct product p = {
            .request = {.kind = (enum vulkan_weight_kind)(i % VULKAN_WEIGHT_KIND_COUNT),
                        .rows = i % 3 ? 33 + 37 * i % 240 : 25 + i % 8,
                        .n = 64 * (1 + 5 * i % 13) + (i % 3 == 2 ? 22 : 0),
                        .k = 256 * (1 + i % 7),
                        .epilogue = (enum vulkan_linear_epilogue)(i / 2 % 4),
                        .forms = VULKAN_FORM_F32,
                        .staged = true,
                        .scratch_bytes = 64 << 20}};
        if (p.request.epilogue >= VULKAN_LINEAR_GATE_SILU && i % 3 > 0)
            p.request.forms = VULKAN_FORM_STAGED;
        else if (p.request.epilogue != VULKAN_LINEAR_ADD && i % 2)
            p.request.forms |= VULKAN_FORM_F16;
        p.tiling = vulkan_matrix_tiling_choose(&trial->device->facts, &p.request);
        p.biased = i % 3 == 0;
        p.padded = p.request.epilogue >= VULKAN_LINEAR_GATE_SILU;
        enum vulkan_ptx_layout layout = vulkan_ptx_layout(p.request.kind);
        bool known = layout < (p.request.rows > 32 ? VULKAN_PTX_NONE : VULKAN_PTX_F32);
        assert_int_equal(p.tiling.path == VULKAN_MATRIX_PTX, known);
        if (!known)
            continue;
        p.tiling.splits = i % 5 < 3 ? 1 + i % 4 : p.tiling.splits;
        check_product(trial, &p, i);
    }
}

/* A row has the same bits in tiles of any size, in the units of warps and of warpgroups. */
static void test_rows_in_ptx_do_not_depend_on_tiles(void **state)
{
    static const uint32_t rows[] = {7, 20, 40, 100, 150}; /* the last with folded splits */
    struct vulkan_trial *trial = *state;
    if (trial->device->facts.tier < VULKAN_PTX)
        vulkan_fixture_skip("the device has no PTX");
    assert_int_equal(vulkan_ptx_layout(VULKAN_WEIGHT_Q2_K), VULKAN_PTX_NONE);
    for (uint32_t i = 0; i < 2 * VULKAN_WEIGHT_KIND_COUNT; i++) {
        enum vulkan_weight_kind kind = (enum vulkan_weight_kind)(i / 2);
        float first[256], row[256]; /* the widest that is tested */
        bool few = vulkan_ptx_layout(kind) < VULKAN_PTX_F32;
        if (vulkan_ptx_layout(kind) == VULKAN_PTX_NONE)
            continue;
        for (uint32_t size = few ? 0 : 2; size < (few ? 5 : 4); size++) {
            struct product p = {.tiling = {.path = VULKAN_MATRIX_PTX,
                                           .rows = size < 4 ? 16u << size : 128,
                                           .columns = 256,
                                           .k = 128,
                                           .splits = 1 + 2 * (i % 2),
                                           .invocations = 512,
                                           .folded = size == 4},
                                .request = {.kind = kind,
                                            .rows = rows[size],
                                            .n = 256,
                                            .k = 1536,
                                            .forms = VULKAN_FORM_F32,
                                            .staged = true},
                                .first_row = size == (few ? 0 : 2) ? first : row};
            check_product(trial, &p, i);
            if (p.first_row == row && memcmp(first, row, sizeof row) != 0)
                fail_msg("%s: the first of %u rows differs",
                         ggml_type_name(vulkan_weight_format_facts(kind).type), rows[size]);
        }
    }
}

/* F16 matrices whose outputs fill tiles are read in place. */
static void test_workgroups_multiply_by_halves_in_place(void **state)
{
    struct vulkan_trial *trial = *state;
    if (trial->device->facts.tier < VULKAN_NV_MATRIX2)
        vulkan_fixture_skip("the device has no NV matrix 2");
    for (uint32_t n = 120; n <= 136; n += 8) {
        struct product p = {.tiling = {.path = VULKAN_MATRIX_NV2_UNPACKED,
                                       .rows = 64,
                                       .columns = 64,
                                       .k = 64,
                                       .splits = 1,
                                       .invocations = 128},
                            .request = {.kind = VULKAN_WEIGHT_F16,
                                        .rows = n + 9,
                                        .n = n,
                                        .k = 96,
                                        .epilogue = VULKAN_LINEAR_ADD,
                                        .forms = VULKAN_FORM_F32}};
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choice_make(&trial->device->facts, &p.request, &p.tiling, &choice);
        assert_int_equal(choice.unpacked_bytes, n == 128 ? 0 : (n + 63) / 64 * 64 * 96 * 2);
        check_product(trial, &p, n);
    }
}

static void test_unpacked_weights_are_the_checkpoints(void **state)
{
    struct vulkan_trial *trial = *state;
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++) {
        struct product p = {.request = {.kind = (enum vulkan_weight_kind)kind,
                                        .rows = 1,
                                        .n = 37,
                                        .k = columns_unit((enum vulkan_weight_kind)kind),
                                        .forms = VULKAN_FORM_F32},
                            .tiling = {.path = VULKAN_MATRIX_NV2_UNPACKED,
                                       .rows = 128,
                                       .columns = 128,
                                       .k = 64,
                                       .splits = 1,
                                       .invocations = 256}};
        product_init(&p, kind);
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choice_make(&trial->device->facts, &p.request, &p.tiling, &choice);
        upload_weights(trial, &p);
        const struct vulkan_buffer *halves = guarded_buffer(trial, NULL, choice.unpacked_bytes);
        unpack(trial, &p, &choice, halves);
        float row[256];
        for (uint32_t n = 0; n < p.request.n; n++) {
            plan_sketch_weight_row(p.sketch, p.weight, n, row);
            for (uint32_t k = 0; k < p.request.k; k++) {
                float value =
                    ggml_f16_to_f32(((const uint16_t *)halves->mapped)[n * p.request.k + k]);
                /* Minimums of 8-bit codes and what is added to them are each up to 128 scales. */
                bool eight = kind == VULKAN_WEIGHT_A8 || kind == VULKAN_WEIGHT_A8_64;
                float terms = eight ? 8.0f : 1.0f;
                float bound = 0x1p-9f * (fabsf(row[k]) + terms);
                if (!(fabsf(value - row[k]) <= bound))
                    fail_msg("kind %u [%u, %u]: %.9g, not %.9g", kind, n, k, (double)value,
                             (double)row[k]);
            }
        }
        expect_guard(halves);
        vulkan_trial_clear(trial);
        product_fini(&p);
    }
}

static void test_the_policys_choices_multiply(void **state)
{
    struct vulkan_trial *trial = *state;
    for (uint32_t rows = 9; rows <= 300; rows *= 4) {
        struct product p = {.request = {.kind = VULKAN_WEIGHT_Q4_0,
                                        .rows = rows,
                                        .n = 300,
                                        .k = 320,
                                        .epilogue = VULKAN_LINEAR_ADD,
                                        .forms = VULKAN_FORM_F32,
                                        .scratch_bytes = 1 << 20}};
        p.tiling = vulkan_matrix_tiling_choose(&trial->device->facts, &p.request);
        check_product(trial, &p, rows);
    }
}

static int open_trial(void **state)
{
    struct vulkan_trial *trial = must_alloc(1, sizeof *trial);
    struct vulkan_device *device = vulkan_fixture_open(VULKAN_TIER_HIGHEST);
    vulkan_trial_init(trial, device);
    device->facts.matrix_registers = vulkan_register_probe(device, trial->kernels);
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
        cmocka_unit_test(test_tiles_multiply_every_kind),
        cmocka_unit_test(test_tiles_take_any_width_of_float_weights),
        cmocka_unit_test(test_lanes_multiply_every_kind),
        cmocka_unit_test(test_matrix_units_multiply_every_kind),
        cmocka_unit_test(test_splits_add_up),
        cmocka_unit_test(test_fragments_in_registers_multiply_every_kind),
        cmocka_unit_test(test_workgroups_multiply_by_whole_matrices),
        cmocka_unit_test(test_kernels_in_ptx_multiply),
        cmocka_unit_test(test_rows_in_ptx_do_not_depend_on_tiles),
        cmocka_unit_test(test_workgroups_multiply_by_halves_in_place),
        cmocka_unit_test(test_unpacked_weights_are_the_checkpoints),
        cmocka_unit_test(test_the_policys_choices_multiply),
    };
    return cmocka_run_group_tests(tests, open_trial, close_trial);
}
