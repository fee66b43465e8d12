/*
 * Rows of a step sorted by adapter, against drawn steps: every row with an adapter stands in exactly
 * one tile of it, in ascending order, tiles are full but the last one of an adapter, and their number
 * stays below the bound that grids have room for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "tests/support/test_random.h"
#include "worker/backend/host/adapter_rows.h"

#define SEQUENCES 40u
#define ROWS_MOST 12u
#define ROWS      (SEQUENCES * ROWS_MOST)

struct drawn_step {
    struct step_sequence sequences[SEQUENCES];
    uint32_t logit_rows[ROWS];
    uint32_t adapter_of[2][ROWS]; /* of rows, of logit rows */
    struct step_batch batch;
};

static void draw_step(struct test_random *random, struct drawn_step *step, uint32_t adapters)
{
    memset(step, 0, sizeof *step);
    step->batch.sequences = step->sequences;
    step->batch.sequence_count = 1 + test_random_below(random, SEQUENCES);
    step->batch.logit_rows = step->logit_rows;
    for (uint32_t s = 0; s < step->batch.sequence_count; s++) {
        struct step_sequence *sequence = &step->sequences[s];
        sequence->first_row = step->batch.row_count;
        sequence->row_count = 1 + test_random_below(random, ROWS_MOST);
        sequence->adapter = test_random_below(random, adapters + 1);
        for (uint32_t r = 0; r < sequence->row_count; r++) {
            step->adapter_of[0][step->batch.row_count] = sequence->adapter;
            if (test_random_below(random, 3) > 0) {
                step->adapter_of[1][step->batch.logit_row_count] = sequence->adapter;
                step->logit_rows[step->batch.logit_row_count++] = step->batch.row_count;
            }
            step->batch.row_count++;
        }
    }
}

static void check(const struct adapter_rows *rows, const uint32_t *adapter_of, uint32_t count)
{
    bool found[ROWS] = {false};
    uint32_t next = 0, wanted = 0;
    for (uint32_t r = 0; r < count; r++)
        wanted += adapter_of[r] > 0;
    for (uint32_t t = 0; t < rows->tile_count; t++) {
        const struct adapter_tile *tile = &rows->tiles[t];
        bool last = t + 1 == rows->tile_count || rows->tiles[t + 1].adapter != tile->adapter;
        assert_int_equal(tile->first, next);
        assert_true(tile->count >= 1 && tile->count <= rows->tile_rows);
        assert_true(last || tile->count == rows->tile_rows);
        assert_true(last || tile->adapter == rows->tiles[t + 1].adapter);
        assert_true(t == 0 || tile->adapter >= rows->tiles[t - 1].adapter);
        for (uint32_t i = 0; i < tile->count; i++) {
            uint32_t row = rows->order[next + i];
            assert_true(row < count && !found[row]);
            assert_int_equal(adapter_of[row], tile->adapter + 1);
            assert_true(i == 0 || row > rows->order[next + i - 1]);
            found[row] = true;
        }
        next += tile->count;
    }
    assert_int_equal(next, wanted);
    assert_true(rows->tile_count <= adapter_rows_tiles_most(count, rows->tile_rows));
}

static void test_drawn_steps(void **state)
{
    (void)state;
    struct test_random random = {.state = 4};
    static struct drawn_step step;
    for (uint32_t trial = 0; trial < 300; trial++) {
        struct adapter_rows rows;
        static const uint32_t adapters[] = {0, 1, 5, LIMIT_ADAPTERS};
        draw_step(&random, &step, adapters[trial % 4]);
        adapter_rows_init(&rows, ROWS, 1 + test_random_below(&random, 16));
        adapter_rows_sort(&rows, &step.batch, false);
        check(&rows, step.adapter_of[0], step.batch.row_count);
        adapter_rows_sort(&rows, &step.batch, true);
        check(&rows, step.adapter_of[1], step.batch.logit_row_count);
        adapter_rows_fini(&rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
