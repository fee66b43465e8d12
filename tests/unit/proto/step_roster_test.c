/*
 * The roster of the requests in a step: each slot has a bit of its own, and clearing removes all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/step_roster.h"

static struct step_roster_copy copy_of(const struct step_roster *roster)
{
    struct step_roster_copy copy;
    step_roster_read(roster, &copy);
    return copy;
}

static void each_slot_has_a_bit_of_its_own(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < LIMIT_LIVE_REQUESTS; slot += slot < 200 ? 1 : 61) {
        struct step_roster roster = {0};
        step_roster_add(&roster, slot);
        struct step_roster_copy copy = copy_of(&roster);
        assert_int_equal(copy.words[slot / 64], 1ull << slot % 64);
        assert_false(step_roster_copy_is_empty(&copy));
        for (uint32_t other = 0; other < LIMIT_LIVE_REQUESTS; other++)
            assert_int_equal(step_roster_copy_has(&copy, other), other == slot);
    }
}

static void slots_add_up_until_all_are_cleared(void **state)
{
    (void)state;
    const uint32_t slots[] = {0, 1, 63, 64, 127, LIMIT_LIVE_REQUESTS - 1};
    const size_t count = sizeof slots / sizeof slots[0];
    struct step_roster roster = {0};
    for (size_t i = 0; i < count; i++)
        step_roster_add(&roster, slots[i]);
    step_roster_add(&roster, 63); /* a second time changes nothing */
    struct step_roster_copy copy = copy_of(&roster);
    uint32_t found = 0;
    for (uint32_t slot = 0; slot < LIMIT_LIVE_REQUESTS; slot++)
        found += step_roster_copy_has(&copy, slot);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_true(step_roster_copy_has(&copy, slots[i]));

    step_roster_clear(&roster);
    assert_false(step_roster_copy_is_empty(&copy)); /* a copy is not the roster */
    copy = copy_of(&roster);
    assert_true(step_roster_copy_is_empty(&copy));
    for (uint32_t slot = 0; slot < LIMIT_LIVE_REQUESTS; slot++)
        assert_false(step_roster_copy_has(&copy, slot));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_has_a_bit_of_its_own),
        cmocka_unit_test(slots_add_up_until_all_are_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
