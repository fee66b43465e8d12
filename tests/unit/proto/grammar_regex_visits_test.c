/*
 * What a search for a live string visits: every state once, however its tables grow, those with the
 * smallest bound first; and what it says if its tables cannot grow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/grammar_regex.h"
#include "tests/support/no_memory.h"
#include "tests/support/regex_texts.h"
#include "tests/support/sanitized.h"

#define FUEL 1000000000ull

static struct regex_store store;

static void open_store(void)
{
    assert_true(regex_store_init(&store, (size_t)64 << 20, FUEL));
}

static uint32_t any(void)
{
    return regex_set(&store, (uint64_t[4]){~0ull, ~0ull, ~0ull, ~0ull});
}

/* Texts whose length is a multiple of `modulus`, and one more than a multiple: none. Every byte leads
 * on, through `modulus` states, to the first one. */
static uint32_t two_lengths(uint32_t modulus)
{
    uint32_t round = regex_repeat(&store, any(), modulus, modulus);
    uint32_t rounds = regex_repeat(&store, round, 0, REGEX_UNBOUNDED);
    return regex_and(&store, rounds, regex_concat(&store, any(), rounds));
}

static void every_state_is_visited_once(void **state)
{
    (void)state;
    for (uint32_t modulus = 3; modulus <= 300; modulus += modulus < 60 || modulus > 70 ? 31 : 1) {
        open_store();
        uint32_t node = two_lengths(modulus);
        assert_int_equal(regex_liveness(&store, node, NULL, modulus - 1), REGEX_LIVENESS_UNKNOWN);
        assert_int_equal(regex_liveness(&store, node, NULL, modulus), REGEX_DEAD);
        regex_store_fini(&store);
    }
}

/* (x|y){n} that does not end with x: its shortest string shows only at its end. */
static uint32_t searched(uint32_t length)
{
    uint32_t all = regex_repeat(&store, regex_texts_set(&store, "xy"), length, length);
    uint32_t end = regex_concat(&store, REGEX_ANYTHING, regex_byte(&store, 'x'));
    return regex_and(&store, all, regex_not(&store, end));
}

/* The steps that find a live string of the short part, beside a far one that comes first. */
static uint32_t steps_of(bool with_far)
{
    uint32_t steps = 0;
    for (enum regex_liveness found = REGEX_LIVENESS_UNKNOWN; found != REGEX_LIVE; steps++) {
        open_store();
        uint32_t far = regex_concat(&store, regex_byte(&store, 'a'), searched(500));
        uint32_t near = regex_concat(&store, regex_byte(&store, 'b'), searched(5));
        uint32_t node = with_far ? regex_or(&store, far, near) : near;
        found = regex_liveness(&store, node, NULL, steps);
        assert_true(found != REGEX_DEAD && steps < 1000);
        regex_store_fini(&store);
    }
    return steps - 1;
}

static void a_farther_state_that_came_first_waits(void **state)
{
    (void)state;
    uint32_t alone = steps_of(false);
    assert_true(alone >= 5);
    assert_int_equal(steps_of(true), alone + 1); /* the letter a is tried */
}

static void without_memory_nothing_is_known(void **state)
{
    (void)state;
    enum { MODULUS = 3000 };
    if (SANITIZED)
        skip();
    open_store();
    uint32_t node = two_lengths(MODULUS);
    /* The store has all nodes after this, so only the search needs memory. */
    assert_int_equal(regex_liveness(&store, node, NULL, MODULUS - 1), REGEX_LIVENESS_UNKNOWN);
    no_memory_begin(1 << 12);
    enum regex_liveness found = regex_liveness(&store, node, NULL, MODULUS);
    no_memory_end();
    assert_int_equal(found, REGEX_LIVENESS_UNKNOWN);
    assert_int_equal(store.failure, REGEX_FINE);
    assert_int_equal(regex_liveness(&store, node, NULL, MODULUS), REGEX_DEAD);
    regex_store_fini(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_is_visited_once),
        cmocka_unit_test(a_farther_state_that_came_first_waits),
        cmocka_unit_test(without_memory_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
