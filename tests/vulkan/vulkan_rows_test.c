/*
 * The kernels over one row against formulas in double: odd and even widths, every form of output,
 * every weight kind of the embedding, and tokens that the previous step drew.
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
#include "tests/support/tiled_places.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/host/backend.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#define ROWS        3u
#define COLUMNS_MAX 5120u
#define CELLS       (ROWS * COLUMNS_MAX)

static const uint32_t widths[] = {3, 37, 576, 5120};
#define WIDTHS (sizeof widths / sizeof widths[0])

/* Output buffers of all forms, and their expected contents. */
struct outputs {
    uint32_t columns;
    uint32_t forms;
    const struct vulkan_buffer *f32, *f16, *q8, *q8_terms;
    double expected[CELLS];
};

static float random_float(struct test_random *random)
{
    return (float)test_random_below(random, 20001) / 5000.0f - 2.0f;
}

static const struct vulkan_buffer *floats(struct vulkan_trial *trial, struct test_random *random,
                                          uint32_t count, float **values)
{
    const struct vulkan_buffer *buffer = vulkan_trial_buffer(trial, NULL, count * sizeof(float));
    *values = (float *)buffer->mapped;
    for (uint32_t i = 0; i < count; i++)
        (*values)[i] = random_float(random);
    return buffer;
}

static struct vulkan_outputs_push outputs_begin(struct vulkan_trial *trial, uint32_t columns,
                                                struct outputs *outputs)
{
    outputs->columns = columns;
    outputs->forms =
        columns % 32 == 0 ? VULKAN_FORM_F32 | VULKAN_FORM_F16 | VULKAN_FORM_Q8 : VULKAN_FORM_F32;
    uint64_t cells = (uint64_t)ROWS * columns;
    outputs->f32 = vulkan_trial_buffer(trial, NULL, cells * 4);
    outputs->f16 = vulkan_trial_buffer(trial, NULL, cells * 2);
    outputs->q8 = vulkan_trial_buffer(trial, NULL, cells);
    outputs->q8_terms = vulkan_trial_buffer(trial, NULL, cells / 32 * 8 + 8);
    return (struct vulkan_outputs_push){outputs->f32->address, outputs->f16->address,
                                        outputs->q8->address, outputs->q8_terms->address};
}

static double largest_of(const struct outputs *outputs, uint32_t first, uint32_t count)
{
    double largest = 0.0;
    for (uint32_t i = first; i < first + count; i++)
        largest = fmax(largest, fabs(outputs->expected[i]));
    return largest;
}

static void expect_close(const char *what, uint32_t at, double got, double expected, double slack)
{
    if (!(fabs(got - expected) <= slack))
        fail_msg("%s at %u: %.9g, not %.9g", what, at, got, expected);
}

/* `slack`: of f32, relative to the row's largest. */
static void outputs_check(const struct outputs *outputs, double slack)
{
    const float *f32 = (const float *)outputs->f32->mapped;
    const uint16_t *f16 = (const uint16_t *)outputs->f16->mapped;
    const int8_t *q8 = (const int8_t *)outputs->q8->mapped;
    const float *terms = (const float *)outputs->q8_terms->mapped;
    const double tiny = 1e-30; /* below it a device may flush to 0 */
    for (uint32_t row = 0; row < ROWS; row++) {
        uint32_t first = row * outputs->columns;
        double largest = largest_of(outputs, first, outputs->columns);
        for (uint32_t i = first; i < first + outputs->columns; i++) {
            expect_close("f32", i, (double)f32[i], outputs->expected[i], slack * largest + tiny);
            if ((outputs->forms & VULKAN_FORM_F16) != 0)
                expect_close("f16", i, (double)ggml_f16_to_f32(f16[i]), (double)f32[i],
                             fabs((double)f32[i]) / 2048 + 1e-7);
        }
    }
    if ((outputs->forms & VULKAN_FORM_Q8) == 0)
        return;
    for (uint32_t block = 0; block < ROWS * outputs->columns / 32; block++) {
        double d = (double)terms[2 * block];
        double largest = 0.0;
        int32_t sum = 0;
        for (uint32_t i = 32 * block; i < 32 * block + 32; i++) {
            largest = fmax(largest, fabs((double)f32[i]));
            expect_close("code", i, d * q8[i], (double)f32[i], 0.501 * d);
            sum += q8[i];
        }
        expect_close("scale", block, 127.0 * d, largest, 1e-5 * largest);
        expect_close("sum", block, (double)terms[2 * block + 1], d * sum, 1e-5 * 127 * 32 * d);
    }
}

static void run(struct vulkan_trial *trial, enum op_stem stem, const struct outputs *outputs,
                uint32_t own, const void *push, uint32_t push_bytes)
{
    struct vulkan_row_task task = {.stem = stem,
                                   .rows = ROWS,
                                   .columns = outputs->columns,
                                   .forms = outputs->forms,
                                   .own = own};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&trial->device->facts, &task);
    vulkan_trial_run(trial, choice.shader, &choice.specialization, push, push_bytes, choice.grid);
}

static void expect_norm(const float *x, const float *weights, double offset, double epsilon,
                        uint32_t columns, double *out)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < columns; c++)
        sum += (double)x[c] * (double)x[c];
    for (uint32_t c = 0; c < columns; c++)
        out[c] = (double)x[c] / sqrt(sum / columns + epsilon) * ((double)weights[c] + offset);
}

static void norm_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                      bool listed, struct outputs *outputs)
{
    static const uint32_t sources[ROWS] = {2, 0, 2};
    float *x, *weights;
    struct vulkan_rms_norm_push push = {
        .x = floats(trial, random, ROWS * columns, &x)->address,
        .weights = floats(trial, random, columns, &weights)->address,
        .columns = columns,
        .epsilon = 1e-5f,
        .weight_offset = listed ? 1.0f : 0.0f,
    };
    if (listed)
        push.sources = vulkan_trial_buffer(trial, sources, sizeof sources)->address;
    push.outputs = outputs_begin(trial, columns, outputs);
    for (uint32_t row = 0; row < ROWS; row++)
        expect_norm(x + (listed ? sources[row] : row) * columns, weights,
                    (double)push.weight_offset, 1e-5, columns, outputs->expected + row * columns);
    run(trial, OP_rms_norm, outputs, listed, &push, sizeof push);
    outputs_check(outputs, 1e-5);
    vulkan_trial_clear(trial);
}

static void norm_add_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                          bool next, struct outputs *outputs)
{
    float *x, *y, *weights, *next_weights;
    struct vulkan_rms_norm_add_push push = {
        .x = floats(trial, random, ROWS * columns, &x)->address,
        .y = floats(trial, random, ROWS * columns, &y)->address,
        .weights = floats(trial, random, columns, &weights)->address,
        .next_weights = floats(trial, random, columns, &next_weights)->address,
        .columns = columns,
        .epsilon = 1e-5f,
        .weight_offset = 1.0f,
        .next_epsilon = 1e-6f,
        .next_weight_offset = 0.5f,
    };
    push.outputs = outputs_begin(trial, columns, outputs);
    float sum[COLUMNS_MAX];
    static double sums[CELLS];
    for (uint32_t row = 0; row < ROWS; row++) {
        double *row_sums = sums + row * columns;
        expect_norm(x + row * columns, weights, 1.0, 1e-5, columns, row_sums);
        for (uint32_t c = 0; c < columns; c++)
            sum[c] = (float)(row_sums[c] += (double)y[row * columns + c]);
        expect_norm(sum, next_weights, 0.5, 1e-6, columns, outputs->expected + row * columns);
    }
    run(trial, OP_rms_norm_add, outputs, next, &push, sizeof push);
    for (uint32_t i = 0; i < ROWS * columns; i++)
        expect_close("residual", i, (double)y[i], sums[i], 2e-4);
    if (next)
        outputs_check(outputs, 2e-5);
    vulkan_trial_clear(trial);
}

static void layer_norm_case(struct vulkan_trial *trial, struct test_random *random,
                            uint32_t columns, struct outputs *outputs)
{
    float *x, *weights;
    struct vulkan_layer_norm_push push = {
        .x = floats(trial, random, ROWS * columns, &x)->address,
        .weights = floats(trial, random, columns, &weights)->address,
        .columns = columns,
        .epsilon = 1e-5f,
        .weight_offset = 0.5f,
    };
    push.outputs = outputs_begin(trial, columns, outputs);
    for (uint32_t row = 0; row < ROWS; row++) {
        const float *from = x + row * columns;
        double mean = 0.0, squares = 0.0;
        for (uint32_t c = 0; c < columns; c++)
            mean += (double)from[c] / columns;
        for (uint32_t c = 0; c < columns; c++)
            squares += ((double)from[c] - mean) * ((double)from[c] - mean);
        for (uint32_t c = 0; c < columns; c++)
            outputs->expected[row * columns + c] = ((double)from[c] - mean) /
                                                   sqrt(squares / columns + 1e-5) *
                                                   ((double)weights[c] + 0.5);
    }
    run(trial, OP_layer_norm, outputs, 0, &push, sizeof push);
    outputs_check(outputs, 1e-5);
    vulkan_trial_clear(trial);
}

static void soft_cap_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                          float cap, struct outputs *outputs)
{
    float *x;
    struct vulkan_soft_cap_push push = {
        .x = floats(trial, random, ROWS * columns, &x)->address,
        .columns = columns,
        .scale = 1.5f,
        .cap = cap,
    };
    x[0] = 1e4f;
    x[1] = -1e4f; /* exp() overflows: the result is the cap */
    push.outputs = outputs_begin(trial, columns, outputs);
    for (uint32_t i = 0; i < ROWS * columns; i++) {
        double v = 1.5 * (double)x[i];
        outputs->expected[i] = cap > 0.0f ? (double)cap * tanh(v / (double)cap) : v;
    }
    run(trial, OP_soft_cap, outputs, 0, &push, sizeof push);
    outputs_check(outputs, 1e-5);
    vulkan_trial_clear(trial);
}

/* y is four times as wide, and read from its third quarter. */
static void gate_with_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                           struct outputs *outputs)
{
    float *x, *y;
    uint32_t wide = 4 * columns;
    struct vulkan_gate_with_push push = {
        .x = floats(trial, random, ROWS * columns, &x)->address,
        .y = floats(trial, random, ROWS * wide, &y)->address,
        .columns = columns,
        .y_stride = wide,
        .y_offset = 2 * columns,
    };
    push.outputs = outputs_begin(trial, columns, outputs);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t c = 0; c < columns; c++) {
            double v = (double)x[row * columns + c];
            outputs->expected[row * columns + c] =
                v / (1.0 + exp(-v)) * (double)y[row * wide + 2 * columns + c];
        }
    run(trial, OP_gate_with, outputs, GATE_SILU, &push, sizeof push);
    outputs_check(outputs, 1e-5);
    vulkan_trial_clear(trial);
}

static void gather_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                        struct outputs *outputs)
{
    static const uint32_t sources[ROWS] = {4, 1, 3};
    float *x;
    struct vulkan_gather_rows_push push = {
        .x = floats(trial, random, 5 * columns, &x)->address,
        .logit_rows = vulkan_trial_buffer(trial, sources, sizeof sources)->address,
        .columns = columns,
    };
    push.outputs = outputs_begin(trial, columns, outputs);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t c = 0; c < columns; c++)
            outputs->expected[row * columns + c] = (double)x[sources[row] * columns + c];
    run(trial, OP_gather_rows, outputs, 0, &push, sizeof push);
    outputs_check(outputs, 0.0);
    vulkan_trial_clear(trial);
}

/* Rows of the output may be wider than the gated columns: the rest is zeros, in every form. */
static void gate_case(struct vulkan_trial *trial, struct test_random *random, uint32_t columns,
                      uint32_t out_columns, enum gate_activation activation,
                      struct outputs *outputs)
{
    float *x;
    struct vulkan_gate_push push = {
        .x = floats(trial, random, 2 * ROWS * columns, &x)->address,
        .out_columns = out_columns,
        .columns = columns,
    };
    x[0] = 200.0f;
    x[columns - 1] = -200.0f; /* exp() overflows: the result is 0 */
    push.outputs = outputs_begin(trial, out_columns, outputs);
    memset(outputs->expected, 0, sizeof outputs->expected);
    for (uint32_t i = 0; i < ROWS * columns; i++) {
        const float *row = x + (size_t)(i / columns) * 2 * columns;
        double v = (double)row[i % columns];
        double inner = v;
        if (activation == GATE_GELU_TANH)
            inner = 2.0 * sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v);
        outputs->expected[i / columns * out_columns + i % columns] =
            v / (1.0 + exp(-inner)) * (double)row[columns + i % columns];
    }
    run(trial, OP_gate, outputs, activation, &push, sizeof push);
    outputs_check(outputs, 1e-5);
    vulkan_trial_clear(trial);
}

static void test_norms(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {11};
    struct outputs *outputs = calloc(1, sizeof *outputs);
    vulkan_trial_init(&trial, (const struct vulkan_device *)*state);
    for (uint32_t i = 0; i < WIDTHS; i++)
        for (uint32_t variant = 0; variant < 2; variant++) {
            norm_case(&trial, &random, widths[i], variant != 0, outputs);
            norm_add_case(&trial, &random, widths[i], variant != 0, outputs);
        }
    for (uint32_t i = 0; i < WIDTHS; i++)
        layer_norm_case(&trial, &random, widths[i], outputs);
    vulkan_trial_fini(&trial);
    free(outputs);
}

static void test_gather_gate_and_cap(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {12};
    struct outputs *outputs = calloc(1, sizeof *outputs);
    vulkan_trial_init(&trial, (const struct vulkan_device *)*state);
    for (uint32_t i = 0; i < WIDTHS; i++) {
        gather_case(&trial, &random, widths[i], outputs);
        gate_case(&trial, &random, widths[i], widths[i], GATE_SILU, outputs);
        gate_case(&trial, &random, widths[i], widths[i], GATE_GELU_TANH, outputs);
        gate_case(&trial, &random, widths[i], (widths[i] + 31) / 32 * 32, GATE_SILU, outputs);
        gate_with_case(&trial, &random, widths[i], outputs);
        soft_cap_case(&trial, &random, widths[i], i % 2 == 0 ? 3.0f : 0.0f, outputs);
    }
    vulkan_trial_fini(&trial);
    free(outputs);
}

/* --- embed_rows --- */

#define VOCAB  23u
#define BLOCKS 6u

/* Makes an ordinary scale of a random block of a float type. */
static void tame_scale(uint8_t *block)
{
    float scale = 0.5f + (float)block[0] / 256.0f;
    memcpy(block, &scale, sizeof scale);
}

/* The same, and numbers, of an F8 type. */
static void tame_f8(uint8_t *block, uint64_t bytes)
{
    float scale;
    tame_scale(block);
    for (uint64_t i = sizeof scale; i < bytes; i++)
        block[i] = (uint8_t)((block[i] & 0x7f) == 0x7f ? block[i] - 1 : block[i]);
}

/* The same of NVFP4 and MXFP4. */
static void tame_fp4(uint8_t *block, enum ggml_type type)
{
    const float factor = -3.0f;
    if (type == GGML_MXFP4) {
        block[0] = (uint8_t)(124 + block[0] % 8);
        return;
    }
    memcpy(block, &factor, sizeof factor);
    for (uint32_t i = 4; i < 6; i++)
        block[i] = (uint8_t)((block[i] & 0x7f) == 0x7f ? block[i] - 1 : block[i] | 0x10);
}

/* Random bytes whose f16 and f32 parts are ordinary numbers. */
static uint8_t *random_table(struct test_random *random, enum ggml_type type, uint32_t columns)
{
    uint64_t bytes = VOCAB * ggml_row_bytes(type, columns);
    uint8_t *table = malloc(bytes);
    test_random_fill(random, table, bytes);
    float *row = malloc(columns * sizeof *row);
    /* A block whose scale is infinite, not a number or tiny is drawn again. */
    uint64_t block_bytes = ggml_type_block(type).bytes;
    uint32_t elements = ggml_type_block(type).elements;
    for (uint64_t at = 0; at < bytes; at += block_bytes)
        for (bool good = false; !good;) {
            if (type == GGML_F8_128 || type == GGML_F8_32)
                tame_f8(table + at, block_bytes);
            if (type == GGML_MXFP4 || type == GGML_NVFP4)
                tame_fp4(table + at, type);
            if (type == GGML_NF4_64 || type == GGML_FP4_64)
                tame_scale(table + at);
            if (type == GGML_Z8) /* an integer, which packing decreases */
                memcpy(table + at + 2, (const uint16_t[]){ggml_f32_to_f16((float)table[at + 2])},
                       2);
            ggml_dequantize_row(type, table + at, elements, row);
            good = true;
            for (uint32_t i = 0; i < elements; i++)
                good = good && fabsf(row[i]) < 1e4f && (row[i] == 0.0f || fabsf(row[i]) > 1e-3f);
            if (!good)
                test_random_fill(random, table + at, block_bytes);
            if (!good && elements > 1)
                for (uint64_t b = 0; b + 2 <= block_bytes; b += 2)
                    table[at + b + 1] = (uint8_t)(table[at + b + 1] & 0x33u);
        }
    free(row);
    return table;
}

static struct vulkan_matrix_push upload_matrix(struct vulkan_trial *trial,
                                               enum vulkan_weight_kind kind, const uint8_t *table,
                                               uint32_t columns)
{
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(kind, VOCAB, columns);
    const struct vulkan_buffer *codes = vulkan_trial_buffer(trial, NULL, bytes.codes + 16);
    const struct vulkan_buffer *high = vulkan_trial_buffer(trial, NULL, bytes.high + 16);
    const struct vulkan_buffer *scales = vulkan_trial_buffer(trial, NULL, bytes.scales + 16);
    struct vulkan_weight_arrays arrays = {codes->mapped, high->mapped, scales->mapped};
    vulkan_weight_format_pack(kind, table, VOCAB, columns, &arrays);
    return (struct vulkan_matrix_push){
        codes->address, vulkan_weight_format_high(kind, columns, high->address), scales->address};
}

static void embed_case(struct vulkan_trial *trial, struct test_random *random, enum ggml_type type,
                       uint32_t columns, struct outputs *outputs)
{
    enum vulkan_weight_kind kind = vulkan_weight_format_kind(type);
    static const struct vulkan_step_row rows[ROWS] = {
        {7, 17, 1, 0}, {0, 31, 0, VULKAN_STEP_DRAWN | 1}, {VOCAB - 1, 2, 1, 0}};
    static const uint32_t sampled[2] = {3, 19}, tables[4] = {5, 2, 4, 1};
    static const uint32_t ids[ROWS] = {7, 19, VOCAB - 1},
                          cells[ROWS] = {1 * 16 + 1, 2 * 16 + 15, 4 * 16 + 2};
    static const struct vulkan_step_sequence sequences[2] = {{.table = {0}}, {.table = {2}}};
    uint8_t *table = random_table(random, type, columns);
    const struct vulkan_buffer *history = vulkan_trial_buffer(trial, NULL, BLOCKS * 16 * 4);
    struct vulkan_embed_rows_push push = {
        .weights = upload_matrix(trial, kind, table, columns),
        .rows = vulkan_trial_buffer(trial, rows, sizeof rows)->address,
        .sampled = vulkan_trial_buffer(trial, sampled, sizeof sampled)->address,
        .sequences = vulkan_trial_buffer(trial, sequences, sizeof sequences)->address,
        .tables = vulkan_trial_buffer(trial, tables, sizeof tables)->address,
        .history = history->address,
        .columns = columns,
        .vocab_tokens = VOCAB,
        .scale = 1.5f,
    };
    push.outputs = outputs_begin(trial, columns, outputs);
    float values[COLUMNS_MAX];
    for (uint32_t row = 0; row < ROWS; row++) {
        ggml_dequantize_row(type, table + ids[row] * ggml_row_bytes(type, columns), columns,
                            values);
        for (uint32_t c = 0; c < columns; c++)
            outputs->expected[row * columns + c] = 1.5 * (double)values[c];
    }
    run(trial, OP_embed_rows, outputs, kind, &push, sizeof push);
    /* K types' scales are products that packing rounds to f16, A8's minimums are sums. */
    bool products = ggml_type_block(type).elements == 256 && ggml_type_layout(type).table == 0;
    bool rounded = products || type == GGML_A8 || type == GGML_A8_64;
    outputs_check(outputs, rounded ? 2e-3 : 1e-6);
    const uint32_t *tokens = (const uint32_t *)history->mapped;
    for (uint32_t cell = 0; cell < BLOCKS * 16; cell++) {
        uint32_t expected = 0xAAAAAAAAu;
        for (uint32_t row = 0; row < ROWS; row++)
            expected = cells[row] == cell ? ids[row] : expected;
        assert_int_equal(tokens[cell], expected);
    }
    vulkan_trial_clear(trial);
    free(table);
}

static void test_embed(void **state)
{
    struct vulkan_trial trial;
    struct test_random random = {13};
    struct outputs *outputs = calloc(1, sizeof *outputs);
    vulkan_trial_init(&trial, (const struct vulkan_device *)*state);
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++) {
        enum ggml_type type = vulkan_weight_format_facts((enum vulkan_weight_kind)kind).type;
        uint32_t unit = ggml_type_block(type).elements;
        if (unit == 1)
            embed_case(&trial, &random, type, 37, outputs);
        embed_case(&trial, &random, type, unit > 32 ? 3 * unit : 96, outputs);
    }
    vulkan_trial_fini(&trial);
    free(outputs);
}

typedef size_t places_fn(uint32_t row, uint32_t column, uint32_t columns);

/* The same function for all kernels over rows. */
static void check_order(const struct vulkan_device *device, enum vulkan_form form, uint32_t rows,
                        uint32_t columns, size_t halves_count, places_fn *find)
{
    struct vulkan_trial trial;
    struct test_random random = {14};
    float *x;
    vulkan_trial_init(&trial, device);
    const struct vulkan_buffer *ordered = vulkan_trial_buffer(&trial, NULL, 2 * halves_count);
    const struct vulkan_soft_cap_push push = {
        .x = floats(&trial, &random, rows * columns, &x)->address,
        .outputs = {.f16 = ordered->address},
        .columns = columns,
        .scale = 1.0f,
    };
    const struct vulkan_row_task task = {
        .stem = OP_soft_cap, .rows = rows, .columns = columns, .forms = form};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&trial.device->facts, &task);
    vulkan_trial_run(&trial, choice.shader, &choice.specialization, &push, sizeof push,
                     choice.grid);
    const uint16_t *halves = (const uint16_t *)ordered->mapped;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t c = 0; c < columns; c++)
            assert_int_equal(halves[find(row, c, columns)], ggml_f32_to_f16(x[row * columns + c]));
    vulkan_trial_fini(&trial);
}

static void test_orders_of_halves(void **state)
{
    const struct vulkan_device *device = *state;
    check_order(device, VULKAN_FORM_TILED, 11, 288, tiled_places_count(11, 288), tiled_places_find);
    check_order(device, VULKAN_FORM_STAGED, 131, 256, staged_places_count(131, 256),
                staged_places_find);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms), cmocka_unit_test(test_gather_gate_and_cap),
        cmocka_unit_test(test_embed), cmocka_unit_test(test_orders_of_halves)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
