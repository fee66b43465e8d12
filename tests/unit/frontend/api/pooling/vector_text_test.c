/*
 * Vectors as JSON: norms against loops over doubles for drawn vectors, numbers that read back as the
 * same f32, base64, cuts, zeros and magnitudes whose squares overflow.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/api/pooling/vector_text.h"

#define COLUMNS 97u

static uint64_t seed;

static float draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 33) / (double)(1u << 30) - 1.0) * 30.0f;
}

static double norm_of(const float *vector, size_t columns, int norm)
{
    double sum = 0;
    for (size_t c = 0; c < columns; c++)
        sum += pow(fabs((double)vector[c]), norm);
    return pow(sum, 1.0 / norm);
}

static void norms_become_one(void **state)
{
    (void)state;
    for (int norm = 1; norm < 6; norm++) {
        float vector[COLUMNS], given[COLUMNS];
        for (size_t c = 0; c < COLUMNS; c++)
            vector[c] = given[c] = draw();
        const struct vector_form form = {.norm = norm, .dimensions = 40};
        double before = norm_of(given, 40, norm);
        assert_int_equal(vector_text_shape(&form, vector, COLUMNS), 40);
        assert_true(fabs(norm_of(vector, 40, norm) - 1) < 1e-6);
        for (size_t c = 0; c < 40; c++)
            assert_true(fabs((double)vector[c] * before - (double)given[c]) < 1e-4);
    }
}

static void other_norms(void **state)
{
    (void)state;
    float vector[4] = {1, -4, 2, 0}, zeros[3] = {0}, huge[2] = {FLT_MAX, -FLT_MAX};
    const struct vector_form most = {.norm = 0}, none = {.norm = VECTOR_NORM_NONE},
                             euclidean = {.norm = VECTOR_NORM_EUCLIDEAN, .dimensions = 9};
    assert_int_equal(vector_text_shape(&none, vector, 4), 4);
    assert_true(vector[1] == -4);
    assert_int_equal(vector_text_shape(&most, vector, 4), 4);
    assert_true(vector[0] == 8190 && vector[1] == -32760 && vector[2] == 16380 && vector[3] == 0);
    assert_int_equal(vector_text_shape(&euclidean, zeros, 3), 3);
    assert_true(zeros[0] == 0 && zeros[2] == 0);
    assert_int_equal(vector_text_shape(&euclidean, huge, 2), 2);
    assert_true(fabs((double)huge[0] - sqrt(0.5)) < 1e-6 && huge[1] == -huge[0]);
}

static void numbers_are_read_back(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    float vector[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        vector[c] = c % 7 == 0 ? draw() * 1e-38f : draw();
    const struct vector_form form = {.norm = VECTOR_NORM_NONE};
    vector_text_append(&form, vector, COLUMNS, &out);
    text_buffer_append(&out, "", 1);
    char *at = out.bytes;
    for (size_t c = 0; c < COLUMNS; c++) {
        assert_true(*at == (c > 0 ? ',' : '['));
        assert_true(strtof(at + 1, &at) == vector[c]);
    }
    assert_string_equal(at, "]");
    text_buffer_fini(&out);
}

static void base64_has_the_bytes(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    const float vector[2] = {1.0f, -2.0f};
    const struct vector_form form = {.norm = VECTOR_NORM_NONE, .base64 = true};
    vector_text_append(&form, vector, 2, &out);
    text_buffer_append(&out, "", 1);
    assert_string_equal(out.bytes, "\"AACAPwAAAMA=\"");
    text_buffer_fini(&out);
}

int main(void)
{
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_become_one),
        cmocka_unit_test(other_norms),
        cmocka_unit_test(numbers_are_read_back),
        cmocka_unit_test(base64_has_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
