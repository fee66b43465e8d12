/*
 * Half precision: every half converts to its value and back, and values between two halves round to
 * the nearest, ties to even, as the format of IEEE 754 says.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ggml_half.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The value of a finite half by the definition of the format. */
static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31;
    int mantissa = half & 1023;
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void every_half_has_its_value(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        float value = ggml_f16_to_f32((uint16_t)half);
        if ((half >> 10 & 31) < 31) {
            assert_true((double)value == half_value((uint16_t)half));
            assert_int_equal(signbit(value) != 0, half >> 15);
            assert_int_equal(ggml_f32_to_f16(value), half);
            assert_true(ggml_half_holds(value));
        } else if (half & 1023) {
            assert_true(isnan(value));
            assert_int_equal(bits_of(value),
                             (half & 0x8000) << 16 | 0x7f800000 | (half & 1023) << 13);
        } else {
            assert_true(isinf(value) && (signbit(value) != 0) == half >> 15);
        }
    }
}

static void between_two_halves_the_nearest_is_taken(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7bff; half++) {
        float low = ggml_f16_to_f32((uint16_t)half);
        float high = ggml_f16_to_f32((uint16_t)(half + 1));
        float middle = low + (high - low) / 2;
        assert_int_equal(ggml_f32_to_f16(nextafterf(middle, low)), half);
        assert_int_equal(ggml_f32_to_f16(middle), half & 1 ? half + 1 : half);
        assert_int_equal(ggml_f32_to_f16(nextafterf(middle, high)), half + 1);
        assert_int_equal(ggml_f32_to_f16(-nextafterf(middle, high)), 0x8000 | (half + 1));
        assert_false(ggml_half_holds(middle));
    }
}

static void large_values_become_infinite(void **state)
{
    (void)state;
    assert_int_equal(ggml_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(ggml_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ggml_f32_to_f16(-65520.0f), 0xfc00);
    assert_int_equal(ggml_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(ggml_f32_to_f16(-INFINITY), 0xfc00);
    assert_false(ggml_half_holds(65520.0f));
    assert_false(ggml_half_holds(INFINITY));
}

/* Every NaN becomes the quiet NaN of its sign, also one whose upper mantissa bits are 0. */
static void nan_stays_nan(void **state)
{
    (void)state;
    const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        float value;
        memcpy(&value, &nans[i], sizeof value);
        assert_int_equal(ggml_f32_to_f16(value), 0x7e00);
        assert_false(ggml_half_holds(value));
        uint32_t negative = nans[i] | 0x80000000;
        memcpy(&value, &negative, sizeof value);
        assert_int_equal(ggml_f32_to_f16(value), 0xfe00);
    }
}

/* E4M3 of "FP8 Formats for Deep Learning" (arXiv 2209.05433), table 1: bias 7, no infinity, NaN is
 * S.1111.111. */
static void every_e4m3_has_its_value(void **state)
{
    (void)state;
    for (uint32_t byte = 0; byte < 256; byte++) {
        int exponent = byte >> 3 & 15, mantissa = byte & 7;
        float value = ggml_e4m3_to_f32((uint8_t)byte);
        double magnitude =
            exponent == 0 ? ldexp(mantissa / 8.0, -6) : ldexp(1.0 + mantissa / 8.0, exponent - 7);
        if ((byte & 127) == 127) {
            assert_true(isnan(value));
            continue;
        }
        assert_true((double)value == (byte & 128 ? -magnitude : magnitude));
        assert_int_equal(signbit(value) != 0, byte >> 7);
    }
    assert_true(ggml_e4m3_to_f32(0x7e) == 448.0f);  /* the largest, */
    assert_true(ggml_e4m3_to_f32(0x08) == 0x1p-6f); /* the smallest normal, */
    assert_true(ggml_e4m3_to_f32(0x01) == 0x1p-9f); /* and the smallest number */
}

static void loads_little_endian_bytes_at_any_address(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x11, 0x34, 0x82, 0xff};
    assert_int_equal(ggml_load_u16(bytes), 0x3411);
    assert_int_equal(ggml_load_u16(bytes + 1), 0x8234);
    assert_int_equal(ggml_load_u16(bytes + 2), 0xff82);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_has_its_value),
        cmocka_unit_test(between_two_halves_the_nearest_is_taken),
        cmocka_unit_test(large_values_become_infinite),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(every_e4m3_has_its_value),
        cmocka_unit_test(loads_little_endian_bytes_at_any_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
