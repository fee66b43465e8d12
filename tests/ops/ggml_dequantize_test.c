/*
 * Every element type decodes to the bits that the `gguf` Python package gives
 * (tests/golden/ggml_quants), types that are converted at load through that type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/host/ggml_dequantize.h"
#include "worker/plan/weight_source.h"

enum { COLUMNS_MAX = 2048, LINE_BYTES = 32768 };

static enum ggml_type type_named(const char *name)
{
    for (int type = 0; type < GGML_TYPE_END; type++)
        if (strcmp(ggml_type_name((enum ggml_type)type), name) == 0)
            return (enum ggml_type)type;
    fail_msg("no type %s", name);
    return GGML_F32;
}

static void read_hex(const char *text, uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
}

/* As it is, or through rows of the type that it is converted to, in two pieces. */
static void decode(enum ggml_type type, const uint8_t *row, uint64_t row_bytes, uint32_t columns,
                   float *out)
{
    static uint8_t made[4 * COLUMNS_MAX];
    struct gguf_tensor tensor = {
        .type = type, .dimensions = {columns, 1, 1, 1}, .data_bytes = row_bytes, .data = row};
    struct weight_source source = weight_source_of_gguf(&tensor);
    if (source.layout == WEIGHT_IN_PLACE) {
        ggml_dequantize_row(type, row, columns, out);
        return;
    }
    print_message("%s[%u] as %s\n", ggml_type_name(type), columns, ggml_type_name(source.type));
    for (uint32_t first = 0; first < columns;) {
        uint32_t block = ggml_type_stored_block(type).elements;
        uint32_t count = first == 0 ? block : columns - first;
        weight_source_read(&source, columns, (struct weight_span){0, first, count}, made);
        ggml_dequantize_row(source.type, made, count, out + first);
        first += count;
    }
}

static void check_vector(enum ggml_type type, uint32_t columns, const char *row_hex,
                         const char *words)
{
    static uint8_t row[4 * COLUMNS_MAX + 1];
    static float out[COLUMNS_MAX];
    struct ggml_block block = ggml_type_stored_block(type);
    uint64_t row_bytes = (uint64_t)(columns / block.elements) * block.bytes;
    assert_true(columns <= COLUMNS_MAX);
    read_hex(row_hex, row + 1, row_bytes); /* deliberately at an odd address */
    memset(out, 0xff, sizeof out);
    decode(type, row + 1, row_bytes, columns, out);
    for (uint32_t i = 0; i < columns; i++) {
        char *end;
        uint32_t bits = (uint32_t)strtoul(words, &end, 16);
        float expected;
        memcpy(&expected, &bits, sizeof expected);
        words = end;
        if (out[i] != expected)
            fail_msg("%s[%u]: %.9g, expected %.9g", ggml_type_name(type), i, (double)out[i],
                     (double)expected);
    }
}

static void test_types_decode_as_in_the_gguf_package(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/ggml_quants/vectors.txt", "r");
    static char head[LINE_BYTES], row[LINE_BYTES], words[LINE_BYTES];
    int checked = 0;
    assert_non_null(file);
    while (fgets(head, sizeof head, file)) {
        char name[16];
        unsigned columns;
        if (head[0] == '#')
            continue;
        assert_int_equal(sscanf(head, "%15s %u", name, &columns), 2);
        assert_non_null(fgets(row, sizeof row, file));
        assert_non_null(fgets(words, sizeof words, file));
        check_vector(type_named(name), columns, row, words);
        checked++;
    }
    fclose(file);
    assert_int_equal(checked, 28);
}

static void test_every_half_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = ggml_f16_to_f32((uint16_t)half);
        if (isnan(value))
            assert_true((ggml_f32_to_f16(value) & 0x7fff) > 0x7c00);
        else
            assert_int_equal(ggml_f32_to_f16(value), half);
    }
}

static void test_floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    assert_int_equal(ggml_f32_to_f16(1.0f + 0x1p-11f), 0x3c00);     /* tie to even: down */
    assert_int_equal(ggml_f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02); /* tie to even: up */
    assert_int_equal(ggml_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(ggml_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ggml_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(ggml_f32_to_f16(-0x1.8p-25f), 0x8001);
    assert_int_equal(ggml_f32_to_f16(0x1.ffep-15f), 0x0400); /* subnormal rounds up to normal */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_decode_as_in_the_gguf_package),
        cmocka_unit_test(test_every_half_survives_the_way_to_float_and_back),
        cmocka_unit_test(test_floats_round_to_the_nearest_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
