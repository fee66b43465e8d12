/*
 * Products with F8 types on every tier against double precision: all 256 codes, scales that are zero,
 * subnormal and huge, and numbers of rows for each way of the kernels. A code that is NaN makes all
 * products of its row NaN, and no others.
 */
// tags: arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/test_random.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/host/ggml_dequantize.h"

enum { COLUMNS = 384, ROWS_MAX = 53 };

struct trial {
    struct test_random random;
    enum ggml_type type;
    uint8_t source[PACKED_ROWS * COLUMNS / 32 * 36];
    float x[ROWS_MAX * COLUMNS];
    bool has_nan[PACKED_ROWS];
};

static float draw_scale(struct trial *t, uint32_t row)
{
    static const float extremes[] = {0.0f, 0x1p-149f, 0x1p-130f, 1e30f};
    float ordinary = (float)(test_random_next(&t->random) % 1000 + 1) * (row % 2 ? -1e-4f : 1e-5f);
    return row < 4 ? extremes[row] : ordinary; /* of a whole row: each product has its own size */
}

/* Each code occurs; rows 5 and 9 have one NaN each, in any block. */
static void draw(struct trial *t)
{
    struct ggml_block block = ggml_type_block(t->type);
    uint32_t code = 0, blocks = COLUMNS / block.elements;
    for (uint32_t row = 0; row < PACKED_ROWS; row++) {
        uint32_t nan_column = (uint32_t)(test_random_next(&t->random) % COLUMNS);
        t->has_nan[row] = row == 5 || row == 9;
        for (uint32_t c = 0; c < COLUMNS; c++) {
            uint8_t *at = t->source + (row * blocks + c / block.elements) * block.bytes;
            float scale = draw_scale(t, row);
            if (c % block.elements == 0)
                memcpy(at, &scale, sizeof scale);
            uint8_t drawn = (uint8_t)(row % 3 == 0 ? code++ : test_random_next(&t->random));
            if ((drawn & 0x7f) == 0x7f)
                drawn &= 0xbf;
            if (t->has_nan[row] && c == nan_column)
                drawn = row == 5 ? 0x7f : 0xff;
            at[sizeof scale + c % block.elements] = drawn;
        }
    }
    for (uint32_t i = 0; i < ROWS_MAX * COLUMNS; i++)
        t->x[i] = (float)(test_random_next(&t->random) >> 40) * 0x1p-23f - 1.0f;
}

static void check(const struct trial *t, const struct cpu_kernels *kernels, uint32_t rows)
{
    static float weights[COLUMNS], out[ROWS_MAX * PACKED_ROWS];
    struct packed_weight packed = packed_weight_describe(t->type, 1, PACKED_ROWS, COLUMNS);
    packed.data = aligned_alloc(64, (packed_weight_bytes(&packed) + 63) / 64 * 64);
    assert_non_null(packed.data);
    packed_weight_fill_group(&packed, t->type, t->source, 0);
    struct linear_tile tile = {.group = packed.data,
                               .columns = COLUMNS,
                               .rows = rows,
                               .x = t->x,
                               .x_stride_bytes = COLUMNS * sizeof(float),
                               .out = out,
                               .out_stride = PACKED_ROWS};
    kernels->linear[packed.kind](&tile);
    for (uint32_t o = 0; o < PACKED_ROWS; o++) {
        ggml_dequantize_row(t->type, t->source + o * ggml_row_bytes(t->type, COLUMNS), COLUMNS,
                            weights);
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, size = 0;
            for (uint32_t c = 0; c < COLUMNS; c++) {
                sum += (double)weights[c] * (double)t->x[r * COLUMNS + c];
                size += fabs((double)weights[c] * (double)t->x[r * COLUMNS + c]);
            }
            double value = (double)out[r * PACKED_ROWS + o];
            if (t->has_nan[o] ? !isnan(value) : !(fabs(value - sum) <= 1e-6 * size + 0x1p-140))
                fail_msg("%s %s, %u rows, [%u, %u]: %.9g, expected %.9g", kernels->name,
                         ggml_type_name(t->type), rows, r, o, value, sum);
        }
    }
    free(packed.data);
}

static void test_products_against_double(void **state)
{
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 8, 49, ROWS_MAX};
    static const enum ggml_type types[] = {GGML_F8_128, GGML_F8_32};
    static struct trial t;
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    t.random.state = seed;
    for (uint32_t i = 0; i < 2; i++) {
        t.type = types[i];
        draw(&t);
        for (enum cpu_tier tier = CPU_TIER_BEST; tier <= CPU_TIER_I8MM; tier++) {
            const struct cpu_kernels *kernels = cpu_kernels_choose(tier);
            for (uint32_t n = 0; kernels && n < sizeof rows / sizeof rows[0]; n++)
                check(&t, kernels, rows[n]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
