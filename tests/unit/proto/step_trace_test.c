/*
 * The trace keeps the newest 256 steps in their order, holds large numbers at the largest it has, and believes no size of a worker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/step_trace.h"

static void the_newest_steps_are_read_in_order(void **state)
{
    static struct step_trace trace;
    (void)state;
    for (uint32_t step = 0; step < 700; step++) {
        struct step_trace_copy copy;
        step_trace_read(&trace, &copy);
        assert_int_equal(copy.step_count, step);
        assert_int_equal(copy.known, step < 256 ? step : 256);
        for (uint32_t i = 0; i < copy.known; i++) {
            uint32_t number = step - copy.known + i;
            assert_int_equal(copy.steps[i].decode_rows, number);
            assert_int_equal(copy.steps[i].prompt_rows, 2 * number);
            assert_int_equal(copy.steps[i].patch_rows, 3 * number + 1);
            assert_int_equal(copy.steps[i].time_us, 20 * number);
        }
        step_trace_add(&trace, &(struct traced_step){.decode_rows = step,
                                                     .prompt_rows = 2 * step,
                                                     .patch_rows = 3 * step + 1,
                                                     .time_us = 20 * step + 19});
    }
}

static void large_numbers_stay_in_their_field(void **state)
{
    static struct step_trace trace;
    struct step_trace_copy copy;
    (void)state;
    step_trace_add(&trace, &(struct traced_step){65535, 65536, UINT32_MAX, UINT64_MAX});
    step_trace_add(&trace, &(struct traced_step){0, 65534, 0, 65534 * 20});
    step_trace_read(&trace, &copy);
    assert_int_equal(copy.steps[0].decode_rows, 65535);
    assert_int_equal(copy.steps[0].prompt_rows, 65535);
    assert_int_equal(copy.steps[0].patch_rows, 65535);
    assert_int_equal(copy.steps[0].time_us, 65535 * 20);
    assert_int_equal(copy.steps[1].decode_rows, 0);
    assert_int_equal(copy.steps[1].prompt_rows, 65534);
    assert_int_equal(copy.steps[1].patch_rows, 0);
    assert_int_equal(copy.steps[1].time_us, 65534 * 20);
}

/* A part that is not empty is never shown as empty, and only whole ones as whole. */
static void cells_round_up(void **state)
{
    (void)state;
    assert_int_equal(step_trace_cell(1, 0, 0), 0);
    assert_int_equal(step_trace_cell(1, 1, 0), 0x0f);
    assert_int_equal(step_trace_cell(1, 0, 1), 0xf0);
    assert_int_equal(step_trace_cell(1000, 1, 999), 0xf1);
    assert_int_equal(step_trace_cell(30, 15, 15), 0x88);
    assert_int_equal(step_trace_cell(15, 7, 3), 0x37);
    assert_int_equal(step_trace_cell(UINT32_MAX, UINT32_MAX, 0), 0x0f);
    assert_int_equal(step_trace_cell(UINT32_MAX, 0, 1), 0x10);
}

static void a_worker_cannot_make_the_reader_read_beyond(void **state)
{
    static struct step_trace trace;
    struct step_trace_copy copy;
    (void)state;
    const uint32_t counts[] = {0, 1, STEP_TRACE_CELLS, STEP_TRACE_CELLS + 1, UINT32_MAX};
    for (uint32_t i = 0; i < STEP_TRACE_CELLS; i++)
        trace.cells[i] = (uint8_t)(i + 1);
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        trace.cell_count = counts[i];
        step_trace_read(&trace, &copy);
        uint32_t most = counts[i] < STEP_TRACE_CELLS ? counts[i] : STEP_TRACE_CELLS;
        assert_int_equal(copy.cell_count, most);
        for (uint32_t cell = 0; cell < STEP_TRACE_CELLS; cell++)
            assert_int_equal(copy.cells[cell], cell < most ? (uint8_t)(cell + 1) : 0);
    }
    trace.step_count = UINT64_MAX;
    step_trace_read(&trace, &copy);
    assert_int_equal(copy.known, STEP_TRACE_STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_steps_are_read_in_order),
        cmocka_unit_test(large_numbers_stay_in_their_field),
        cmocka_unit_test(cells_round_up),
        cmocka_unit_test(a_worker_cannot_make_the_reader_read_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
