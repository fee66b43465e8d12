/*
 * Packed weights as kernels in PTX read them are the checkpoint's numbers rounded to halves: layouts with powers of
 * two as scales, with terms that several blocks share and with zero points. The macros are those of the variants in
 * moe_wgmma.c, whose lines the test reads and compares.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plan_sketch.h"
#include "tests/support/vulkan_ptx_host.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

enum { ROWS = 5, COLUMNS = 768, LINE_BYTES = 256 };

#define NAME      q4_0
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   0
#define CENTER    8
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      q4_1
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   1
#define CENTER    0
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      q5_0
#define CODE_BITS 4
#define HIGH_BITS 1
#define SPANS     1
#define MINIMUM   0
#define CENTER    16
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      q6_k
#define CODE_BITS 4
#define HIGH_BITS 2
#define SPANS     2
#define MINIMUM   0
#define CENTER    32
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      q8_0
#define CODE_BITS 8
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   0
#define CENTER    0
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      e2m1
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   0
#define CENTER    0
#define TABLE     2
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      a4_64
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   1
#define CENTER    0
#define GROUP     64
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      a4_128
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   1
#define CENTER    0
#define GROUP     128
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      a6_64
#define CODE_BITS 4
#define HIGH_BITS 2
#define SPANS     1
#define MINIMUM   1
#define CENTER    0
#define GROUP     64
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      a8_64
#define CODE_BITS 8
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   1
#define CENTER    0
#define GROUP     64
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      z4_64
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   2
#define CENTER    0
#define GROUP     64
#include "tests/support/vulkan_ptx_variant.h"

#define NAME      z4_128
#define CODE_BITS 4
#define HIGH_BITS 0
#define SPANS     1
#define MINIMUM   2
#define CENTER    0
#define GROUP     128
#include "tests/support/vulkan_ptx_variant.h"

static const struct variant {
    const char *line; /* of moe_wgmma.c, after "// variant: " */
    enum ggml_type type;
    void (*read)(const struct vulkan_weight_arrays *arrays, u32 first, u32 number, u32 f, u32 *even,
                 u32 *odd);
} variants[] = {
    {"q4_0 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8", GGML_Q4_0, read_q4_0},
    {"q4_1 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0", GGML_Q4_1, read_q4_1},
    {"q5_0 512 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16", GGML_Q5_0,
     read_q5_0},
    {"q6_k 512 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32", GGML_Q6_K,
     read_q6_k},
    {"q8_0 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0", GGML_Q8_0, read_q8_0},
    {"e2m1 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2", GGML_MXFP4,
     read_e2m1},
    {"a4_64 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64",
     GGML_A4_64, read_a4_64},
    {"a4_128 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128",
     GGML_A4_128, read_a4_128},
    {"a6_64 512 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64",
     GGML_A6_64, read_a6_64},
    {"a8_64 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64",
     GGML_A8_64, read_a8_64},
    {"z4_64 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64",
     GGML_Z4_64, read_z4_64},
    {"z4_128 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128",
     GGML_Z4_128, read_z4_128},
};

static float half_at(u32 even, u32 odd, u32 e)
{
    u32 pair = e % 2 ? odd : even;
    return ggml_f16_to_f32((uint16_t)(pair >> e / 2 * 16));
}

static void check_row(const struct variant *v, const struct vulkan_weight_arrays *arrays, u32 row,
                      const float *expected)
{
    float largest = 0;
    for (u32 c = 0; c < COLUMNS; c++)
        largest = fmaxf(largest, fabsf(expected[c]));
    for (u32 c = 0; c < COLUMNS; c++) {
        u32 even, odd;
        v->read(arrays, row * (COLUMNS / BLOCK), c / BLOCK, c % BLOCK / 4, &even, &odd);
        float value = half_at(even, odd, c % 4);
        if (!(fabsf(value - expected[c]) <= largest * 0x1p-9f))
            fail_msg("%s [%u, %u] is %.9g, not %.9g", ggml_type_name(v->type), row, c,
                     (double)value, (double)expected[c]);
    }
}

static void check(const struct variant *v, uint64_t seed)
{
    struct plan_sketch *sketch = plan_sketch_create(seed);
    enum vulkan_weight_kind kind = vulkan_weight_format_kind(v->type);
    plan_weight_id weight = plan_sketch_weight(sketch, v->type, ROWS, COLUMNS);
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(kind, ROWS, COLUMNS);
    struct vulkan_weight_arrays arrays = {malloc(bytes.codes), malloc(bytes.high + 1),
                                          malloc(bytes.scales)};
    float expected[COLUMNS];
    assert_true(arrays.codes && arrays.high && arrays.scales);
    vulkan_weight_format_pack(kind, plan_sketch_plan(sketch)->weights[weight].data, ROWS, COLUMNS,
                              &arrays);
    for (u32 row = 0; row < ROWS; row++) {
        plan_sketch_weight_row(sketch, weight, row, expected);
        check_row(v, &arrays, row, expected);
    }
    free(arrays.codes);
    free(arrays.high);
    free(arrays.scales);
    plan_sketch_destroy(sketch);
}

static void test_halves_are_the_checkpoints_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        check(&variants[i], 60 + i);
}

/* Otherwise the macros above would not be the kernels'. */
static void test_variants_are_those_of_the_kernels(void **state)
{
    (void)state;
    static const char head[] = "// variant: ";
    char line[LINE_BYTES];
    FILE *file = fopen("worker/backend/vulkan/ptx/moe_wgmma.c", "r");
    size_t found = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
            found += strncmp(line, head, strlen(head)) == 0 &&
                     strcmp(line + strlen(head), variants[i].line) == 0;
    }
    fclose(file);
    assert_int_equal(found, sizeof variants / sizeof variants[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_are_the_checkpoints_numbers),
        cmocka_unit_test(test_variants_are_those_of_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
