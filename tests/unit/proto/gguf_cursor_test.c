/*
 * Numbers of a GGUF file: taken where all their bytes are there; otherwise the cursor stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/gguf_cursor.h"

static const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void a_u32_needs_four_bytes(void **state)
{
    (void)state;
    uint32_t value = 99;
    struct gguf_cursor cursor = {.at = bytes, .end = bytes + 3};
    assert_false(gguf_cursor_take_u32(&cursor, &value));
    assert_int_equal(value, 99);
    assert_ptr_equal(cursor.at, bytes);
    cursor.end = bytes + 4;
    assert_true(gguf_cursor_take_u32(&cursor, &value));
    assert_int_equal(value, 0x04030201);
    assert_ptr_equal(cursor.at, cursor.end);
}

static void a_u64_needs_eight_bytes(void **state)
{
    (void)state;
    uint64_t value = 99;
    struct gguf_cursor cursor = {.at = bytes, .end = bytes + 7};
    assert_false(gguf_cursor_take_u64(&cursor, &value));
    assert_int_equal(value, 99);
    assert_ptr_equal(cursor.at, bytes);
    cursor.end = bytes + 8;
    assert_true(gguf_cursor_take_u64(&cursor, &value));
    assert_true(value == 0x0807060504030201);
    assert_ptr_equal(cursor.at, cursor.end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_u32_needs_four_bytes),
        cmocka_unit_test(a_u64_needs_eight_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
