/*
 * Matrices in formats that kernels do not read are converted to rows with the bits of MLX's and
 * torch's values (tests/golden/weight_forms), in the smallest type that represents them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/backend/host/ggml_dequantize.h"
#include "worker/plan/weight_source.h"

enum { LINE_BYTES = 16384, VALUES_MAX = 1024 };

struct form {
    char layout[16], scale_type[8], becomes[8];
    uint32_t bits, group, block_rows, rows, columns;
};

/* At an odd address, as in checkpoint folders; freed by the caller, one byte before. */
static uint8_t *read_hex(const char *text)
{
    size_t count = strspn(text, "0123456789abcdef") / 2;
    uint8_t *bytes = malloc(count + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        bytes[1 + i] = (uint8_t)value;
    }
    return bytes + 1;
}

static struct weight_source describe(const struct form *form)
{
    struct weight_source source = {.layout = WEIGHT_AFFINE,
                                   .row_bytes = (uint64_t)form->columns * form->bits / 8,
                                   .bits = form->bits,
                                   .group = form->group,
                                   .block_rows = form->block_rows,
                                   .block_columns = form->group};
    if (strcmp(form->layout, "affine") != 0)
        source.layout = strcmp(form->layout, "fp4") == 0 ? WEIGHT_FP4 : WEIGHT_FP8;
    source.scale_type = strcmp(form->scale_type, "F16") == 0    ? GGML_F16
                        : strcmp(form->scale_type, "BF16") == 0 ? GGML_BF16
                                                                : GGML_F32;
    return source;
}

static void check_values(const struct form *form, const struct weight_source *source,
                         const char *words)
{
    float out[VALUES_MAX];
    uint8_t made[sizeof out];
    for (uint32_t row = 0; row < form->rows; row++) {
        /* In two pieces, as for embeddings. */
        uint32_t block = ggml_type_block(source->type).elements;
        for (uint32_t first = 0, count = block > 32 ? block : 32; first < form->columns;
             first += count) {
            count = first == 0 ? count : form->columns - first;
            struct weight_source from = *source; /* every other row as a matrix's first */
            from.first_row = row % 2 == 1 ? row : 0;
            weight_source_read(&from, form->columns,
                               (struct weight_span){row - from.first_row, first, count}, made);
            ggml_dequantize_row(source->type, made, count, out + first);
        }
        for (uint32_t c = 0; c < form->columns; c++) {
            char *end;
            uint32_t bits = (uint32_t)strtoul(words, &end, 16);
            float expected;
            memcpy(&expected, &bits, sizeof expected);
            words = end;
            if (out[c] != expected && !(isnan(out[c]) && isnan(expected)))
                fail_msg("%s %u bits, groups of %u, [%u, %u]: %.9g, expected %.9g", form->layout,
                         form->bits, form->group, row, c, (double)out[c], (double)expected);
        }
    }
}

static bool read_form(FILE *file, struct form *form)
{
    static char head[LINE_BYTES];
    if (!fgets(head, sizeof head, file))
        return false;
    assert_int_equal(sscanf(head, "%15s %u %u %u %7s %u %u %7s", form->layout, &form->bits,
                            &form->group, &form->block_rows, form->scale_type, &form->rows,
                            &form->columns, form->becomes),
                     8);
    assert_true(form->columns <= VALUES_MAX);
    return true;
}

static void check_file(const char *path, int cases)
{
    FILE *file = fopen(path, "r");
    static char codes[LINE_BYTES], scales[LINE_BYTES], biases[LINE_BYTES], words[LINE_BYTES];
    struct form form;
    int checked = 0;
    assert_non_null(file);
    for (; read_form(file, &form); checked++) {
        assert_non_null(fgets(codes, sizeof codes, file));
        assert_non_null(fgets(scales, sizeof scales, file));
        assert_non_null(fgets(biases, sizeof biases, file));
        assert_non_null(fgets(words, sizeof words, file));
        struct weight_source source = describe(&form);
        source.data = read_hex(codes);
        source.scales = read_hex(scales);
        source.biases = read_hex(biases);
        weight_source_choose_type(&source, form.rows, form.columns);
        assert_string_equal(ggml_type_name(source.type), form.becomes);
        check_values(&form, &source, words);
        free((void *)(uintptr_t)(source.data - 1));
        free((void *)(uintptr_t)(source.scales - 1));
        free((void *)(uintptr_t)(source.biases - 1));
    }
    fclose(file);
    assert_int_equal(checked, cases);
}

static void test_forms_decode_as_in_mlx(void **state)
{
    (void)state;
    check_file("tests/golden/weight_forms/vectors.txt", 27);
}

static void test_float8_decodes_as_in_torch(void **state)
{
    (void)state;
    check_file("tests/golden/weight_forms/float8.txt", 7);
}

/* --- signed codes without zero points ---------------------------------------------------------- */

enum { SIGNED_ROWS = 3, SIGNED_COLUMNS = 128, SIGNED_GROUP = 64 };

struct signed_matrix {
    uint8_t codes[SIGNED_ROWS * SIGNED_COLUMNS];
    float scales[SIGNED_ROWS * SIGNED_COLUMNS / SIGNED_GROUP];
    struct weight_source source;
};

/* `scale` is one group's; the codes of that group are `code` unless it is negative. */
static void draw_signed(struct signed_matrix *matrix, uint32_t bits, float scale, int code)
{
    uint32_t bytes = SIGNED_GROUP * bits / 8;
    for (size_t i = 0; i < sizeof matrix->codes; i++)
        matrix->codes[i] = (uint8_t)rand();
    matrix->codes[0] = 0; /* the lowest number */
    for (uint32_t i = 0; i < SIGNED_ROWS * SIGNED_COLUMNS / SIGNED_GROUP; i++)
        matrix->scales[i] = (float)(rand() % 255 - 127) / 1024.0f;
    matrix->scales[3] = scale;
    if (code >= 0)
        memset(matrix->codes + (size_t)3 * bytes, bits == 4 ? code * 17 : code, bytes);
    matrix->source = (struct weight_source){.layout = WEIGHT_PACKED,
                                            .data = matrix->codes,
                                            .row_bytes = SIGNED_COLUMNS * bits / 8,
                                            .scales = (const uint8_t *)matrix->scales,
                                            .scale_type = GGML_F32,
                                            .bits = bits,
                                            .group = SIGNED_GROUP};
    weight_source_choose_type(&matrix->source, SIGNED_ROWS, SIGNED_COLUMNS);
}

static void check_signed(const struct signed_matrix *matrix, uint32_t bits, enum ggml_type type)
{
    assert_string_equal(ggml_type_name(matrix->source.type), ggml_type_name(type));
    for (uint32_t row = 0; row < SIGNED_ROWS; row++) {
        uint8_t made[SIGNED_COLUMNS * sizeof(float)];
        float out[SIGNED_COLUMNS];
        weight_source_read(&matrix->source, SIGNED_COLUMNS,
                           (struct weight_span){row, 0, SIGNED_COLUMNS}, made);
        ggml_dequantize_row(type, made, SIGNED_COLUMNS, out);
        for (uint32_t c = 0; c < SIGNED_COLUMNS; c++) {
            uint32_t at = row * SIGNED_COLUMNS + c;
            int code = bits == 8 ? matrix->codes[at] - 128
                                 : (matrix->codes[at / 2] >> (at % 2 * 4) & 15) - 8;
            float expected = (float)(matrix->scales[at / SIGNED_GROUP] * (double)code);
            if (out[c] != expected)
                fail_msg("%u bits, [%u, %u]: %.9g, expected %.9g", bits, row, c, (double)out[c],
                         (double)expected);
        }
    }
}

static void test_signed_codes_need_no_minimum(void **state)
{
    (void)state;
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        enum ggml_type type = bits == 4 ? GGML_Z4_64 : GGML_Q8_0;
        int half = 1 << (bits - 1);
        struct signed_matrix matrix;
        draw_signed(&matrix, bits, 0.25f, -1);
        check_signed(&matrix, bits, type);
        /* f16 holds this scale, but not half the range times it. */
        draw_signed(&matrix, bits, 32768.0f, -1);
        check_signed(&matrix, bits, type);
        draw_signed(&matrix, bits, 1e-9f, half); /* a block of zeros */
        check_signed(&matrix, bits, type);
        draw_signed(&matrix, bits, 0x1p-26f, half - 4); /* one number, which f16 holds */
        check_signed(&matrix, bits, type);
        draw_signed(&matrix, bits, 1e-9f, half + 1); /* one that it does not */
        check_signed(&matrix, bits, GGML_F32);
        draw_signed(&matrix, bits, 0.1f, -1);
        check_signed(&matrix, bits, GGML_F32);
    }
}

int main(void)
{
    srand((unsigned)time(NULL));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signed_codes_need_no_minimum),
        cmocka_unit_test(test_forms_decode_as_in_mlx),
        cmocka_unit_test(test_float8_decodes_as_in_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
