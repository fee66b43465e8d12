/*
 * The cases on which every backend's ops are tried: odd shapes, every weight type, from one row to
 * more than a hundred, all in a few steps of one plan.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_CASE_LIST_H
#define SHOAL_TESTS_SUPPORT_OP_CASE_LIST_H

#include "tests/support/op_trial.h"

typedef void op_case_visit_fn(const struct op_case *c, void *context);

/* Every case of one op, in a fixed order; at least one for each row of OP_LIST. */
void op_case_list_visit(enum op_stem stem, op_case_visit_fn *visit, void *context);

#endif
