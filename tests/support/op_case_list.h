/*
 * What the test of each op gives to tests of all ops: <stem>_cases(), the cases on which every
 * backend is tried. Shapes are small, so that hundreds of trials take seconds, and odd: widths that
 * fill no register, outputs that fill no group, heads in the middle of a row. Row counts stand on
 * both sides of the borders at which a backend may change its method.
 *
 *   tests/ops/<stem>_test.c     defines <stem>_cases() and uses it with op_check_formula()
 *   libshoal-op-cases.a         the same files without their main(), for tests of all ops
 *                               (tests/vulkan/vulkan_ops_test.c)
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_CASE_LIST_H
#define SHOAL_TESTS_SUPPORT_OP_CASE_LIST_H

#include "tests/support/op_trial.h"

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef void op_case_visit_fn(const struct op_case *c, void *context);

struct op_case_visitor {
    op_case_visit_fn *visit;
    void *context;
};

/* Visits every case of one op, in a fixed order; at least one. */
typedef void op_case_list_fn(const struct op_case_visitor *visitor);

#define OP_CASE_LIST(stem, ...) op_case_list_fn stem##_cases;
OP_LIST(OP_CASE_LIST)
#undef OP_CASE_LIST

void op_case_visit(const struct op_case_visitor *visitor, const struct op_case *c);

/* --- parts of cases --- */

/* A case of f32 inputs, without weights and params, in steps of 1, 3, 8, 9 and 33 rows, of one
 * sequence or two. */
struct op_case op_case_begin(enum op_stem stem, uint32_t input_columns, uint32_t output_columns);
/* Adds a step of 130 rows, for cases whose cost allows it in every build. */
void op_case_add_long_step(struct op_case *c);
/* Weight 0 is an F32 vector. */
void op_case_set_norm_weight(struct op_case *c, uint32_t columns);
/* Steps for kv_write and attention, one of them longer than a tile of any kernel. */
void op_case_set_kv_steps(struct op_case *c);
/* Steps for recurrent ops: both sequences shorter than the state, as long and longer, and steps
 * with one of them. */
void op_case_set_state_steps(struct op_case *c);

#endif
