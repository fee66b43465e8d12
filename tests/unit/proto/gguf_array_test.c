/*
 * Elements of GGUF arrays: every numeric type converts, and numbers that int64_t cannot hold
 * saturate.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_array.h"

/* Two elements of `bytes` each, at an odd address: 0 and then the value. */
static struct gguf_array array_of(enum gguf_value_type type, const void *value, size_t bytes)
{
    static uint8_t memory[32];
    memset(memory, 0, sizeof memory);
    memcpy(memory + 1 + bytes, value, bytes);
    return (struct gguf_array){
        .type = type, .count = 2, .first = memory + 1, .end = memory + 1 + 2 * bytes};
}

#define ASSERT_ELEMENT(type, c_type, value, as_whole, as_real)                                     \
    do {                                                                                           \
        c_type element = (value);                                                                  \
        struct gguf_array array = array_of(type, &element, sizeof element);                        \
        assert_true(gguf_array_i64(&array, 1) == (as_whole));                                      \
        assert_true(gguf_array_f64(&array, 1) == (as_real));                                       \
        assert_true(gguf_array_i64(&array, 0) == 0);                                               \
        assert_true(gguf_array_f64(&array, 0) == 0);                                               \
    } while (0)

static void every_numeric_type_converts(void **state)
{
    (void)state;
    ASSERT_ELEMENT(GGUF_UINT8, uint8_t, 250, 250, 250.0);
    ASSERT_ELEMENT(GGUF_BOOL, uint8_t, 1, 1, 1.0);
    ASSERT_ELEMENT(GGUF_INT8, int8_t, -2, -2, -2.0);
    ASSERT_ELEMENT(GGUF_UINT16, uint16_t, 65535, 65535, 65535.0);
    ASSERT_ELEMENT(GGUF_INT16, int16_t, -32768, -32768, -32768.0);
    ASSERT_ELEMENT(GGUF_UINT32, uint32_t, UINT32_MAX, 4294967295, 4294967295.0);
    ASSERT_ELEMENT(GGUF_INT32, int32_t, INT32_MIN, INT32_MIN, -2147483648.0);
    ASSERT_ELEMENT(GGUF_INT64, int64_t, INT64_MIN, INT64_MIN, -9223372036854775808.0);
    ASSERT_ELEMENT(GGUF_UINT64, uint64_t, 1ull << 62, 1ll << 62, 4611686018427387904.0);
    ASSERT_ELEMENT(GGUF_FLOAT32, float, -2.5f, -2, -2.5);
    ASSERT_ELEMENT(GGUF_FLOAT64, double, 1e15 + 0.5, 1000000000000000, 1e15 + 0.5);
    /* Above INT64_MAX only the real conversion keeps the value. */
    uint64_t huge = UINT64_MAX;
    struct gguf_array array = array_of(GGUF_UINT64, &huge, sizeof huge);
    assert_true(gguf_array_f64(&array, 1) == 18446744073709551616.0);
}

static int64_t whole_of(double value)
{
    struct gguf_array array = array_of(GGUF_FLOAT64, &value, sizeof value);
    return gguf_array_i64(&array, 1);
}

static void reals_beyond_int64_saturate(void **state)
{
    (void)state;
    assert_true(whole_of(0x1p63) == INT64_MAX);
    assert_true(whole_of(nextafter(0x1p63, 0)) == 9223372036854774784);
    assert_true(whole_of(INFINITY) == INT64_MAX);
    assert_true(whole_of(DBL_MAX) == INT64_MAX);
    assert_true(whole_of(-0x1p63) == INT64_MIN);
    assert_true(whole_of(nextafter(-0x1p63, 0)) == -9223372036854774784);
    assert_true(whole_of(nextafter(-0x1p63, -INFINITY)) == INT64_MIN);
    assert_true(whole_of(-INFINITY) == INT64_MIN);
    assert_true(whole_of(NAN) == 0);
}

static void strings_come_in_order(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0,   0,  0,
                             0, 0, 0, 2, 0, 0, 0, 0, 0,   0, 0, 'b', 'c'};
    struct gguf_array array = {
        .type = GGUF_STRING, .count = 3, .first = bytes, .end = bytes + sizeof bytes};
    const uint8_t *cursor = array.first;
    struct gguf_string text;
    assert_true(gguf_array_next_string(&array, &cursor, &text));
    assert_true(text.length == 1 && text.bytes[0] == 'a');
    assert_true(gguf_array_next_string(&array, &cursor, &text));
    assert_int_equal(text.length, 0);
    assert_true(gguf_array_next_string(&array, &cursor, &text));
    assert_true(text.length == 2 && memcmp(text.bytes, "bc", 2) == 0);
    assert_ptr_equal(cursor, array.end);
    assert_false(gguf_array_next_string(&array, &cursor, &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_numeric_type_converts),
        cmocka_unit_test(reals_beyond_int64_saturate),
        cmocka_unit_test(strings_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
