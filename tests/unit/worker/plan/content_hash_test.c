/*
 * The hash differs for every changed bit, every length, every seed, and for bytes that change
 * places, which a sum would not detect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/plan/content_hash.h"

#define BYTES 200

static uint8_t bytes[BYTES + 8];

static int fill(void **state)
{
    (void)state;
    struct test_random random = {.state = 21};
    test_random_fill(&random, bytes, sizeof bytes);
    return 0;
}

static void test_every_bit(void **state)
{
    (void)state;
    for (size_t count = 1; count <= BYTES; count += 7) {
        uint64_t whole = content_hash(bytes, count, 3);
        for (size_t bit = 0; bit < 8 * count; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(content_hash(bytes, count, 3) != whole);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_true(content_hash(bytes, count, 3) == whole);
        assert_true(content_hash(bytes, count, 4) != whole);
    }
}

static void test_lengths_of_zeros(void **state)
{
    (void)state;
    uint8_t zeros[100] = {0};
    for (size_t a = 0; a < sizeof zeros; a++)
        for (size_t b = 0; b < a; b++)
            assert_true(content_hash(zeros, a, 0) != content_hash(zeros, b, 0));
}

static void test_places(void **state)
{
    (void)state;
    uint64_t whole = content_hash(bytes, BYTES, 0);
    for (size_t a = 0; a + 8 <= BYTES; a += 8)
        for (size_t b = 0; b < a; b += 8) {
            uint8_t swapped[BYTES];
            memcpy(swapped, bytes, BYTES);
            memcpy(swapped + a, bytes + b, 8);
            memcpy(swapped + b, bytes + a, 8);
            assert_true(content_hash(swapped, BYTES, 0) != whole);
        }
    /* Where it lies in memory says nothing. */
    for (size_t shift = 1; shift < 8; shift++) {
        uint8_t moved[BYTES + 8];
        memcpy(moved + shift, bytes, BYTES);
        assert_true(content_hash(moved + shift, BYTES, 0) == whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_bit, fill),
        cmocka_unit_test(test_lengths_of_zeros),
        cmocka_unit_test_setup(test_places, fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
