/*
 * The products of the AMX tier, for every quantized type and for rows that fill tiles or do not. Their
 * kernels run here in plain C, with tiles as strict as the hardware's (tests/support/amx_emulation.h), so that layout and
 * arithmetic are held on any CPU: to the portable tier within its tolerance, and on a CPU with
 * AVX-512 to that tier in every bit. On a CPU with AMX the instructions are held to both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define AMX_EMULATED
#include "worker/backend/cpu/kernels/amx_lanes.h"

#include "tests/support/amx_emulation.h"

#include "tests/support/plan_sketch.h"
#include "tests/support/row_expect.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/kernels/linear_amx_tiles.h"

enum { ROWS_MAX = 83, COLUMNS = 768, PLAIN_COLUMNS = 896, GROUPS = 2 };

#define EMULATED(index, type, number, columns, bytes, bits, span, minimum, center, offset, table)  \
    static void emulated_##type(const struct linear_tile *tile)                                    \
    {                                                                                              \
        assert_true(                                                                               \
            amx_rows(KIND(columns, bits, span, minimum, center, table), tile, tile->rows));        \
    }
GGML_QUANT_LIST(EMULATED)
#undef EMULATED

static void (*const emulated[PACKED_KIND_COUNT])(const struct linear_tile *) = {
#define EMULATED_ROW(index, type, ...) [PACKED_##type] = emulated_##type,
    GGML_QUANT_LIST(EMULATED_ROW)
#undef EMULATED_ROW
};

struct trial {
    struct plan_sketch *sketch;
    struct packed_weight packed;
    uint32_t columns;
    struct quantized_block *x; /* [ROWS_MAX, columns / 32] */
    float add[ROWS_MAX * PACKED_ROWS];
    struct linear_scratch scratch;
};

/* A third of the blocks has an outlier in every second row; `outlier` as in cpu_kernels.h. */
static void trial_init(struct trial *t, enum ggml_type type, float outlier)
{
    t->sketch = plan_sketch_create(type);
    /* types with K scales are of whole units; of others the last chunk is not a whole one */
    t->columns = ggml_type_block(type).elements == 256 ? COLUMNS : PLAIN_COLUMNS;
    t->packed = packed_weight_describe(type, 1, GROUPS * PACKED_ROWS, t->columns);
    plan_weight_id id = plan_sketch_weight(t->sketch, type, GROUPS * PACKED_ROWS, t->columns);
    t->packed.data = aligned_alloc(64, (packed_weight_bytes(&t->packed) + 63) / 64 * 64);
    for (uint32_t group = 0; group < GROUPS; group++)
        packed_weight_fill_group(&t->packed, type, plan_sketch_plan(t->sketch)->weights[id].data,
                                 group);
    float *x = malloc(ROWS_MAX * t->columns * sizeof *x);
    for (uint32_t i = 0; i < ROWS_MAX * t->columns; i++)
        x[i] = plan_sketch_uniform(t->sketch) *
               (i / t->columns % 2 == 0 && i % 97 == 0 ? 30.0f : 1.0f);
    t->x = malloc(ROWS_MAX * t->columns / 32 * sizeof *t->x);
    for (uint32_t row = 0; row < ROWS_MAX; row++)
        cpu_kernels_choose(CPU_TIER_PORTABLE)
            ->quantize(x + row * t->columns, t->columns, outlier, t->x + row * (t->columns / 32));
    free(x);
    for (uint32_t i = 0; i < ROWS_MAX * PACKED_ROWS; i++)
        t->add[i] = plan_sketch_uniform(t->sketch);
    t->scratch = (struct linear_scratch){.bytes = (ROWS_MAX + 15) / 16 * (t->columns / 32) *
                                                  sizeof(struct arranged_block)};
    t->scratch.memory = aligned_alloc(64, t->scratch.bytes);
    memset(t->scratch.memory, 0x5b, t->scratch.bytes);
}

static void trial_fini(struct trial *t)
{
    free(t->scratch.memory);
    free(t->x);
    free(t->packed.data);
    plan_sketch_destroy(t->sketch);
}

static struct linear_tile tile_of(struct trial *t, uint32_t group, uint32_t first, uint32_t rows,
                                  float *out)
{
    return (struct linear_tile){.group = t->packed.data + group * t->packed.group_bytes,
                                .columns = t->columns,
                                .rows = rows,
                                .x = t->x + first * (t->columns / 32),
                                .x_stride_bytes = t->columns / 32 * sizeof *t->x,
                                .add = group == 0 ? NULL : t->add,
                                .out = out,
                                .out_stride = PACKED_ROWS,
                                .scratch = &t->scratch};
}

/* All rows by `kernel`, the instructions' or the emulated one, are `expected`. */
static void expect_bits(struct trial *t, void (*kernel)(const struct linear_tile *), uint32_t group,
                        uint32_t rows, const float *expected)
{
    float out[(ROWS_MAX + 1) * PACKED_ROWS];
    for (uint32_t i = 0; i < (ROWS_MAX + 1) * PACKED_ROWS; i++)
        out[i] = -7.0f;
    struct linear_tile tile = tile_of(t, group, 0, rows, out);
    kernel(&tile);
    assert_memory_equal(out, expected, rows * PACKED_ROWS * sizeof *out);
    for (uint32_t i = rows * PACKED_ROWS; i < (ROWS_MAX + 1) * PACKED_ROWS; i++)
        assert_true(out[i] == -7.0f);
}

static void check_type(enum ggml_type type, float outlier)
{
    static const uint32_t counts[] = {16,       17, 31, 64,
                                      ROWS_MAX, 5,  1}; /* also of rows arranged before */
    const struct cpu_kernels *portable = cpu_kernels_choose(CPU_TIER_PORTABLE);
    const struct cpu_kernels *avx512 = cpu_kernels_choose(CPU_TIER_AVX512);
    const struct cpu_kernels *amx = cpu_kernels_choose(CPU_TIER_AMX);
    struct trial t;
    trial_init(&t, type, outlier);
    for (uint32_t group = 0; group < GROUPS; group++) {
        float whole[ROWS_MAX * PACKED_ROWS], other[ROWS_MAX * PACKED_ROWS];
        double reference[ROWS_MAX * PACKED_ROWS];
        struct linear_tile tile = tile_of(&t, group, 0, ROWS_MAX, other);
        portable->linear[t.packed.kind](&tile);
        for (uint32_t i = 0; i < ROWS_MAX * PACKED_ROWS; i++)
            reference[i] = (double)other[i];
        tile.out = whole;
        emulated[t.packed.kind](&tile);
        row_expect_close(ggml_type_name(type), whole, reference, ROWS_MAX * PACKED_ROWS, 2e-6);
        if (avx512) {
            tile.out = other;
            avx512->linear[t.packed.kind](&tile);
            assert_memory_equal(whole, other, sizeof whole);
        }
        t.scratch.x = NULL;
        memset(t.scratch.memory, 0x5b, t.scratch.bytes);
        for (uint32_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            expect_bits(&t, emulated[t.packed.kind], group, counts[c], whole);
            if (amx)
                expect_bits(&t, amx->linear[t.packed.kind], group, counts[c], whole);
        }
    }
    trial_fini(&t);
}

static void test_products_have_the_bits_of_avx512(void **state)
{
    (void)state;
    print_message("AVX-512 %s, AMX %s\n", cpu_kernels_choose(CPU_TIER_AVX512) ? "runs" : "lacks",
                  cpu_kernels_choose(CPU_TIER_AMX) ? "runs" : "lacks");
    for (int type = 0; type < GGML_TYPE_END; type++) {
        if (ggml_type_block((enum ggml_type)type).elements == 0 ||
            !packed_weight_shape((enum ggml_type)type).quantized)
            continue;
        check_type((enum ggml_type)type, QUANTIZE_OUTLIER);
        check_type((enum ggml_type)type, QUANTIZE_ALL);
    }
}

/* The tier's kernels do without scratch memory, or with too little of it. */
static void test_rows_that_do_not_fit_are_left(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, GGML_Q4_0, QUANTIZE_OUTLIER);
    float out[ROWS_MAX * PACKED_ROWS];
    struct linear_tile tile = tile_of(&t, 0, 0, 32, out);
    const struct kind kind = KIND(32, 4, 32, 0, 8, 0);
    t.scratch.bytes = 2 * (t.columns / 32) * sizeof(struct arranged_block);
    assert_true(amx_rows(kind, &tile, 32));
    assert_false(amx_rows(kind, &tile, 33));
    tile.scratch = NULL;
    assert_false(amx_rows(kind, &tile, 16));
    trial_fini(&t);
}

/* Activations are arranged once for all groups, and anew when they are said to have changed. */
static void test_arranged_rows_are_kept_until_they_change(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, GGML_Q8_0, QUANTIZE_OUTLIER);
    float before[16 * PACKED_ROWS], after[16 * PACKED_ROWS];
    struct linear_tile tile = tile_of(&t, 0, 0, 16, before);
    emulated_Q8_0(&tile);
    t.x[0].term[0].scale *= 2.0f;
    tile.out = after;
    emulated_Q8_0(&tile);
    assert_memory_equal(before, after, sizeof before);
    t.scratch.x = NULL;
    emulated_Q8_0(&tile);
    assert_memory_not_equal(before, after, PACKED_ROWS * sizeof *before);
    assert_memory_equal(before + PACKED_ROWS, after + PACKED_ROWS,
                        15 * PACKED_ROWS * sizeof *before);
    tile = tile_of(&t, 0, 1, 16, after); /* other rows */
    emulated_Q8_0(&tile);
    assert_memory_equal(before + PACKED_ROWS, after, 15 * PACKED_ROWS * sizeof *before);
    trial_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_have_the_bits_of_avx512),
        cmocka_unit_test(test_rows_that_do_not_fit_are_left),
        cmocka_unit_test(test_arranged_rows_are_kept_until_they_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
