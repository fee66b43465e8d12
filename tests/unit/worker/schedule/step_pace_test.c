/*
 * step_pace: small before anything is known, then as many rows as the time allows, between one
 * block and the caller's bound, following a change within a few steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/step_pace.h"

static void note(struct step_pace *pace, uint32_t prompt_rows, uint32_t decode_rows,
                 uint64_t patch_work, uint64_t time_us)
{
    step_pace_note(pace, &(struct step_cost){.prompt_rows = prompt_rows,
                                             .decode_rows = decode_rows,
                                             .patch_work = patch_work,
                                             .time_us = time_us});
}

static void test_unmeasured_is_small(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 64);
    assert_int_equal(step_pace_mixed_rows(&pace, 8), 8);
}

static void test_rows_follow_the_time(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 60, 4, 0, 64000); /* 1 ms a row */
    assert_int_equal(step_pace_lone_rows(&pace, 512), 500);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 100);
    assert_int_equal(step_pace_mixed_rows(&pace, 64), 64);
    for (int i = 0; i < 40; i++)
        note(&pace, 100, 0, 0, 2000000); /* 20 ms a row */
    assert_in_range(step_pace_lone_rows(&pace, 512), 24, 26);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 16); /* not below a block */
    for (int i = 0; i < 40; i++)
        note(&pace, 16, 0, 0, 1);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 512);
}

static void test_few_rows_teach_nothing(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 15, 100, 0, 1000000000);
    note(&pace, 0, 1, 0, 1000000000);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
}

static void test_odd_times_stay_in_range(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 512, 0, 0, 0); /* a clock that stood still */
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
    note(&pace, 512, 0, 0, UINT64_MAX);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 16);
}

static void test_patches_are_learned_apart(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_patch_work(&pace, true), 0);
    note(&pace, 0, 4, 0, 8000);                                /* streams alone: 8 ms a step */
    note(&pace, 0, 4, 1000, 10000);                            /* 2 us for a patch row in a stage */
    assert_int_equal(step_pace_patch_work(&pace, true), 1600); /* 3.2 ms: not half as long again */
    assert_int_equal(step_pace_patch_work(&pace, false), 250000);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64); /* of rows nothing was learned */
    note(&pace, 50, 0, 1000, 1000000); /* nor of patches where rows are not known */
    assert_int_equal(step_pace_patch_work(&pace, true), 1600);
    note(&pace, 50, 0, 0, 50000); /* 1 ms a row */
    for (int i = 0; i < 40; i++)
        note(&pace, 50, 0, 1000, 51000);
    assert_in_range(step_pace_patch_work(&pace, false), 95000, 130000); /* not less than a share */
    for (int i = 0; i < 40; i++)
        note(&pace, 0, 0, 1000, 1000); /* alone */
    assert_in_range(step_pace_patch_work(&pace, false), 490000, 510000);
    note(&pace, 0, 0, 1000, 0);
    note(&pace, 0, 0, UINT64_MAX, 0);
    assert_true(step_pace_patch_work(&pace, false) > 0);
}

static void test_rows_of_pictures_go_at_the_pace_of_patches(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_shown_rows(&pace, 0, 512), 64);
    note(&pace, 100, 0, 0, 10000);                              /* 0.1 ms a row */
    assert_int_equal(step_pace_shown_rows(&pace, 0, 512), 512); /* beside what is not known */
    note(&pace, 0, 4, 0, 20000); /* streams alone: 20 ms a step, of which encoding may add 8 */
    assert_int_equal(step_pace_shown_rows(&pace, 0, 512), 80);
    assert_int_equal(step_pace_shown_rows(&pace, 0, 50), 50);
    note(&pace, 0, 4, 1000, 30000); /* 10 us for a patch row in a stage */
    assert_int_equal(step_pace_shown_rows(&pace, 600, 512), 20);
    assert_int_equal(step_pace_shown_rows(&pace, 760, 512), 4);
    assert_int_equal(step_pace_shown_rows(&pace, 765, 512),
                     0); /* too few for a step of their own */
    assert_int_equal(step_pace_shown_rows(&pace, 600000, 512), 0);
    for (int i = 0; i < 60; i++)
        note(&pace, 0, 1, 0, 10);                             /* brief steps */
    assert_int_equal(step_pace_shown_rows(&pace, 0, 512), 4); /* without encoding, in any case */
    for (int i = 0; i < 80; i++)
        note(&pace, 0, 1, 0, 10000000); /* long ones: no more than a prompt of words */
    assert_int_equal(step_pace_shown_rows(&pace, 0, 100000), step_pace_mixed_rows(&pace, 100000));
}

static void test_an_interrupted_step_counts_for_little(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 0, 1, 0, 1000);
    note(&pace, 0, 1, 1000, 2000);
    assert_int_equal(step_pace_patch_work(&pace, true), 400);
    note(&pace, 0, 1, 0, 100000);
    assert_int_equal(step_pace_patch_work(&pace, true), 500);
    for (int i = 0; i < 40; i++)
        note(&pace, 0, 1, 0, 100000); /* now they do take so long */
    assert_in_range(step_pace_patch_work(&pace, true), 39000, 40000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmeasured_is_small),
        cmocka_unit_test(test_rows_follow_the_time),
        cmocka_unit_test(test_few_rows_teach_nothing),
        cmocka_unit_test(test_odd_times_stay_in_range),
        cmocka_unit_test(test_patches_are_learned_apart),
        cmocka_unit_test(test_rows_of_pictures_go_at_the_pace_of_patches),
        cmocka_unit_test(test_an_interrupted_step_counts_for_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
