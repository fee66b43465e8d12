/*
 * The table of nodes and sets: many different nodes stay different, intersections of sets keep every
 * byte that both have, and a store at its limit of memory fails before it writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/grammar_regex.h"

#define FUEL 1000000000ull

/* So many that some share 32 bits of their hashes: n * n / 2^33 pairs are expected, about ten. */
static void many_nodes_stay_different(void **state)
{
    (void)state;
    enum { BYTES = 250, NODES = 1200 };
    struct regex_store store;
    assert_true(regex_store_init(&store, (size_t)256 << 20, FUEL));
    uint32_t zero = regex_byte(&store, 0);
    for (uint32_t j = 2; j < NODES; j++) {
        uint32_t after = regex_repeat(&store, zero, j, j);
        for (uint32_t byte = 1; byte <= BYTES; byte++) {
            uint32_t first = regex_byte(&store, (uint8_t)byte), count = store.node_count;
            uint32_t made = regex_concat(&store, first, after);
            assert_int_equal(made, count); /* a new one */
            assert_int_equal(store.nodes[made].a, first);
            assert_int_equal(store.nodes[made].b, after);
        }
    }
    assert_int_equal(store.failure, REGEX_FINE);
    regex_store_fini(&store);
}

static uint32_t set_of_bytes(struct regex_store *store, uint32_t first, uint32_t last)
{
    uint64_t words[4] = {0};
    for (uint32_t byte = first; byte <= last; byte++)
        words[byte / 64] |= (uint64_t)1 << byte % 64;
    return regex_set(store, words);
}

static void intersections_keep_every_common_byte(void **state)
{
    (void)state;
    struct regex_store store;
    assert_true(regex_store_init(&store, (size_t)1 << 20, FUEL));
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t up_to = set_of_bytes(&store, 0, byte), from = set_of_bytes(&store, byte, 255);
        assert_int_equal(regex_and(&store, up_to, from), regex_byte(&store, (uint8_t)byte));
    }
    uint32_t low = set_of_bytes(&store, 0, 127), high = set_of_bytes(&store, 128, 255);
    assert_int_equal(regex_and(&store, low, high), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, low, REGEX_NOTHING), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, REGEX_NOTHING, low), REGEX_NOTHING);
    assert_int_equal(store.failure, REGEX_FINE);
    regex_store_fini(&store);
}

/* A derivative of a set, or one that is kept, costs one step. */
static void a_step_of_a_derivative_has_a_price(void **state)
{
    (void)state;
    struct regex_store store;
    assert_true(regex_store_init(&store, (size_t)1 << 20, FUEL));
    uint32_t byte = regex_byte(&store, 'a'), word = regex_concat(&store, byte, byte);
    assert_int_equal(regex_derivative(&store, word, 'a'), byte);
    store.fuel = 2;
    assert_int_equal(regex_derivative(&store, byte, 'a'), REGEX_EMPTY);
    assert_int_equal(store.fuel, 1);
    assert_int_equal(regex_derivative(&store, word, 'a'), byte);
    assert_int_equal(store.fuel, 0);
    assert_int_equal(regex_derivative(&store, byte, 'a'), REGEX_FAILED);
    assert_int_equal(store.failure, REGEX_OUT_OF_FUEL);
    regex_store_fini(&store);
}

/* Every limit between that of the first tables and that of larger ones. */
static void a_full_store_fails(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (size_t limit = 8 << 10; limit < 48 << 10; limit += 256) {
        struct regex_store store;
        assert_true(regex_store_init(&store, limit, FUEL));
        uint32_t last = 0, made = 0;
        while (made < 255 && (last = set_of_bytes(&store, made, made + 1)) != REGEX_FAILED) {
            assert_int_equal(set_of_bytes(&store, made, made + 1), last);
            made++;
        }
        assert_true(made >= 60); /* the first tables have room for 64 sets */
        assert_true(store.set_count <= store.set_capacity);
        assert_true(store.node_count <= store.node_capacity);
        if (made < 255) {
            failures++;
            assert_int_equal(store.failure, REGEX_OUT_OF_MEMORY);
            assert_true(store.bytes <= limit || store.set_capacity == 64);
            assert_int_equal(set_of_bytes(&store, 0, 1), REGEX_FAILED);
        }
        regex_store_fini(&store);
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_nodes_stay_different),
        cmocka_unit_test(intersections_keep_every_common_byte),
        cmocka_unit_test(a_step_of_a_derivative_has_a_price),
        cmocka_unit_test(a_full_store_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
