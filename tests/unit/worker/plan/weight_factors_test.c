/*
 * GGUF's NVFP4 has its factors in another tensor: one for a matrix, or one for each of a stack. Values are multiplied by
 * them; factors of another shape, negative or not finite are refused with the tensor's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/support/gguf_builder.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/plan/tensor_table.h"

enum { COLUMNS = 64, ROWS = 2, MATRICES = 3, ALIGNMENT = 32, BLOCK_BYTES = 36, NVFP4 = 40 };

struct trial {
    struct gguf_builder builder;
    struct gguf_file *file;
    struct tensor_table *table;
    struct error_text error;
};

/* Scale s of row r is the byte 0x38 + r, 2^0 * (1 + r / 8); every code is 2, the number 1. */
static void add_codes(struct gguf_builder *builder, uint32_t rows)
{
    gguf_builder_add_data(builder, ALIGNMENT, 0);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < BLOCK_BYTES; i++)
            gguf_builder_add_u8(builder, i < 4 ? (uint8_t)(0x38 + row) : 0x22);
}

static enum result open_table(struct trial *t, const char *scale, uint32_t count,
                              const float *factors)
{
    const uint64_t shape[] = {COLUMNS, ROWS, MATRICES}, counts[] = {count};
    const uint64_t codes_bytes = ROWS * MATRICES * BLOCK_BYTES;
    memset(t, 0, sizeof *t);
    gguf_builder_init(&t->builder, 2, 0);
    gguf_builder_add_tensor(&t->builder, "blk.0.ffn_up_exps.weight", 3, shape, NVFP4, 0);
    gguf_builder_add_tensor(&t->builder, scale, 1, counts, GGML_F32,
                            (codes_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    add_codes(&t->builder, ROWS * MATRICES);
    gguf_builder_add_data(&t->builder, ALIGNMENT, 0);
    for (uint32_t i = 0; i < 4 * count; i++)
        gguf_builder_add_u8(&t->builder, ((const uint8_t *)factors)[i]);
    assert_int_equal(gguf_file_open(t->builder.bytes, t->builder.byte_count, &t->file, &t->error),
                     RESULT_OK);
    t->table = tensor_table_create(2);
    assert_non_null(t->table);
    tensor_table_add_gguf(t->table, t->file, NULL);
    return tensor_table_finish(t->table, &t->error);
}

static void close_table(struct trial *t)
{
    tensor_table_destroy(t->table);
    gguf_file_close(t->file);
}

static void expect_factors(const char *scale, uint32_t count, const float *factors)
{
    struct trial t;
    assert_int_equal(open_table(&t, scale, count, factors), RESULT_OK);
    const struct checkpoint_tensor *tensor = tensor_table_find(t.table, "blk.0.ffn_up_exps.weight");
    assert_true(tensor && tensor->type == GGML_NVFP4 && !tensor->part);
    const struct checkpoint_tensor *beside = tensor_table_find(t.table, scale);
    bool known = strstr(scale, "scale") != NULL;
    assert_true(beside && beside->part == known);
    for (uint32_t row = 0; row < ROWS * MATRICES; row++) {
        uint8_t made[COLUMNS / 32 * 22];
        float values[COLUMNS];
        weight_source_read(&tensor->source, COLUMNS, (struct weight_span){row, 0, COLUMNS}, made);
        ggml_dequantize_row(tensor->type, made, COLUMNS, values);
        float factor = !known ? 1.0f : count == 1 ? factors[0] : factors[row / ROWS];
        for (uint32_t c = 0; c < COLUMNS; c++)
            assert_true(values[c] == (1.0f + (float)row / 8.0f) * factor);
    }
    close_table(&t);
}

static void test_factors_multiply(void **state)
{
    static const float factors[] = {0.375f, 2.0f, 0.0f};
    (void)state;
    expect_factors("blk.0.ffn_up_exps.scale", 1, factors);
    expect_factors("blk.0.ffn_up_exps.scale", MATRICES, factors);
    expect_factors("blk.0.ffn_up_exps.weight.scale", MATRICES, factors);
    expect_factors("blk.0.other", MATRICES, factors);
}

static void expect_refusal(uint32_t count, const float *factors)
{
    struct trial t;
    assert_int_equal(open_table(&t, "blk.0.ffn_up_exps.scale", count, factors), RESULT_INVALID);
    assert_non_null(strstr(t.error.text, "blk.0.ffn_up_exps.scale"));
    close_table(&t);
}

static void test_other_factors_are_refused(void **state)
{
    (void)state;
    expect_refusal(2, (const float[]){1.0f, 1.0f});
    expect_refusal(4, (const float[]){1.0f, 1.0f, 1.0f, 1.0f});
    expect_refusal(1, (const float[]){-1.0f});
    expect_refusal(3, (const float[]){1.0f, INFINITY, 1.0f});
    expect_refusal(1, (const float[]){NAN});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_multiply),
        cmocka_unit_test(test_other_factors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
