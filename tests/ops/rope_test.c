/*
 * rope against a double-precision rotation, every tier: both pairings, partly rotated heads,
 * large positions; columns outside the slice are unchanged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void rope_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        enum rope_pairing pairing;
        struct column_slice slice;
        uint32_t dims;
        uint32_t first_position;
        bool divided;
    } ropes[] = {
        {ROPE_PAIRS_ADJACENT, {0, 4, 64}, 64, 0, false},
        {ROPE_PAIRS_ADJACENT, {7, 3, 20}, 14, 1000, false},
        {ROPE_PAIRS_HALVES, {0, 1, 256}, 256, 130000, false},
        {ROPE_PAIRS_HALVES, {3, 5, 18}, 6, 77, false},
        {ROPE_PAIRS_HALVES, {2, 4, 64}, 64, 500, true},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(ropes); i++) {
        struct op_case c = op_case_begin(OP_rope, 300, 300);
        op_case_add_long_step(&c);
        c.in_place = true;
        c.rope = (struct rope_config){
            .pairing = ropes[i].pairing, .dims = ropes[i].dims, .magnitude = 1.25f};
        c.rope.divided = ropes[i].divided; /* all positions of a row of text are equal */
        for (uint32_t d = 0; d < ropes[i].dims / 2 && ropes[i].divided; d++) {
            c.rope.axis[d] = d % 4;
            c.rope.second_axis[d] = (d + 1) % 4;
        }
        for (uint32_t d = 0; d < ropes[i].dims / 2; d++)
            c.rope.inverse_frequency[d] = powf(10000.0f, -2.0f * (float)d / (float)ropes[i].dims);
        c.params.rope = (struct rope_params){ropes[i].slice, 0};
        c.first_positions[0] = ropes[i].first_position;
        c.first_positions[1] = 5;
        op_case_visit(visitor, &c);
    }
}

static void rotate(const struct rope_config *rope, uint32_t position, double *head)
{
    bool halves = rope->pairing == ROPE_PAIRS_HALVES;
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        double *a = head + (halves ? i : 2 * i);
        double *b = head + (halves ? i + rope->dims / 2 : 2 * i + 1);
        /* the contract's angle is the f32 product */
        double angle = (double)((float)position * rope->inverse_frequency[i]);
        double cosine = cos(angle) * (double)rope->magnitude;
        double sine = sin(angle) * (double)rope->magnitude;
        double rotated = *a * cosine - *b * sine;
        *b = *a * sine + *b * cosine;
        *a = rotated;
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct column_slice *slice = &c->params.rope.slice;
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[i];
    for (uint32_t h = 0; h < slice->heads; h++)
        rotate(&c->rope, op_trial_row(trial, output).position,
               expected + slice->offset + h * slice->head_dim);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(rope_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
