/*
 * step_pace: few rows before anything is measured, then as many as the time allows, between one
 * block and the caller's maximum; a change of speed is followed within a few steps.
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
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 64);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 8), 8);
}

static void test_rows_follow_the_time(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 60, 4, 0, 64000); /* 1 ms a row */
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 500);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 64), 64);
    for (int i = 0; i < 40; i++)
        note(&pace, 100, 0, 0, 2000000); /* 20 ms a row */
    assert_in_range(step_pace_prefill_only_rows(&pace, 512), 24, 26);
    for (int i = 0; i < 40; i++)
        note(&pace, 100, 0, 0, 20000000);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 16); /* not below a block */
    for (int i = 0; i < 40; i++)
        note(&pace, 16, 0, 0, 1);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 512);
}

static void test_few_rows_are_not_measured(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 15, 100, 0, 1000000000);
    note(&pace, 0, 1, 0, 1000000000);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 64);
}

static void test_odd_times_stay_in_range(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    note(&pace, 512, 0, 0, 0); /* a clock that stood still */
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 64);
    note(&pace, 512, 0, 0, UINT64_MAX);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 16);
}

static void test_patches_are_measured_separately(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_patch_work(&pace, true), 0);
    note(&pace, 0, 4, 0, 8000);                                /* streams alone: 8 ms a step */
    note(&pace, 0, 4, 1000, 10000);                            /* 2 us for a patch row in a stage */
    assert_int_equal(step_pace_patch_work(&pace, true), 1600); /* 3.2 ms: not half as long again */
    assert_int_equal(step_pace_patch_work(&pace, false), 250000);
    assert_int_equal(step_pace_prefill_only_rows(&pace, 512), 64); /* of rows nothing was learned */
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

/* Steps of four streams last 10 ms; prompt rows add `added_us`. Returns the number of rows of the
 * last of `steps` steps, and in *long_steps the number of steps that took more than `most_us`. */
static uint32_t run_image_rows(struct step_pace *pace, uint64_t (*added_us)(uint32_t rows),
                               int steps, uint64_t most_us, int *long_steps)
{
    uint32_t rows = 0;
    *long_steps = 0;
    for (int i = 0; i < steps; i++) {
        rows = step_pace_image_rows(pace, 512);
        *long_steps += 10000 + added_us(rows) > most_us;
        note(pace, rows, 4, 0, 10000 + added_us(rows));
    }
    return rows;
}

static uint64_t line(uint32_t rows)
{
    return 500u * rows;
}

static uint64_t stairs(uint32_t rows)
{
    return rows < 4 ? 1000 : rows < 128 ? 2500 : 9000;
}

static uint64_t wall(uint32_t rows)
{
    return rows < 2 ? 7000 : 20000;
}

static void test_rows_of_images_add_no_more_than_their_share(void **state)
{
    (void)state;
    int long_steps;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_image_rows(&pace, 512), 512); /* nothing is known */
    for (int i = 0; i < 40; i++)
        note(&pace, 0, 4, 0, 10000);
    assert_int_equal(step_pace_image_rows(&pace, 512), 1); /* of rows nothing is known */
    assert_int_equal(run_image_rows(&pace, line, 20, 16000, &long_steps), 8);
    assert_int_equal(long_steps, 0); /* sixteen would add twice as much as eight: not tried */
    assert_int_equal(step_pace_image_rows(&pace, 5), 5);
    struct step_pace stepped = {.stream_us = 10000};
    assert_int_equal(run_image_rows(&stepped, stairs, 20, 16000, &long_steps), 64);
    assert_int_equal(long_steps, 1);
    struct step_pace walled = {.stream_us = 10000};
    assert_int_equal(run_image_rows(&walled, wall, 20, 17000, &long_steps), 1); /* in any case */
    assert_int_equal(long_steps, 0);
}

static void test_rows_of_images_follow_a_change(void **state)
{
    (void)state;
    int long_steps;
    struct step_pace pace = {.stream_us = 10000};
    (void)run_image_rows(&pace, wall, 40, 17000, &long_steps);
    assert_int_equal(run_image_rows(&pace, stairs, 2000, 16000, &long_steps), 64);
    assert_in_range(long_steps, 1, 20); /* 128 rows are tried now and then, not often */
    assert_int_equal(run_image_rows(&pace, wall, 200, 17000, &long_steps), 1);
}

static void test_image_rows_beside_long_steps_match_text(void **state)
{
    (void)state;
    struct step_pace pace = {.stream_us = 1000000};
    note(&pace, 1, 4, 0, 1060000); /* two would add 120 ms, which is not much of a second */
    assert_int_equal(step_pace_image_rows(&pace, 512), 1);
    note(&pace, 2, 4, 0, 1090000);
    assert_int_equal(step_pace_image_rows(&pace, 512), 2);
}

static void test_patches_whose_time_is_known_leave_the_rest_to_rows(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    struct step_cost cost = {
        .decode_rows = 4, .patch_work = 1000, .patch_us = 5000, .time_us = 15000};
    step_pace_note(&pace, &cost);
    assert_int_equal(step_pace_patch_work(&pace, true), 800); /* 4 of 10 ms, at 5 us */
    cost = (struct step_cost){.prompt_rows = 100, .patch_us = 5000, .time_us = 15000};
    step_pace_note(&pace, &cost); /* pixels were taken in, no patches encoded */
    assert_int_equal(step_pace_prefill_only_rows(&pace, 10000), 5000);
    assert_int_equal(step_pace_patch_work(&pace, true), 800);
    for (int i = 0; i < 40; i++)
        step_pace_note(&pace, &(struct step_cost){.decode_rows = 4, .patch_us = 9, .time_us = 3});
    assert_in_range(step_pace_patch_work(&pace, true), 0,
                    1); /* clocks that contradict each other */
}

static void test_an_interrupted_step_has_little_weight(void **state)
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
        cmocka_unit_test(test_few_rows_are_not_measured),
        cmocka_unit_test(test_odd_times_stay_in_range),
        cmocka_unit_test(test_patches_are_measured_separately),
        cmocka_unit_test(test_rows_of_images_add_no_more_than_their_share),
        cmocka_unit_test(test_rows_of_images_follow_a_change),
        cmocka_unit_test(test_image_rows_beside_long_steps_match_text),
        cmocka_unit_test(test_patches_whose_time_is_known_leave_the_rest_to_rows),
        cmocka_unit_test(test_an_interrupted_step_has_little_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
