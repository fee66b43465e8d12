/*
 * The loops over op_case_list.h: the CPU backend against a formula in double precision, and any
 * other backend against the CPU backend, which is the specification.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_CHECK_H
#define SHOAL_TESTS_SUPPORT_OP_CHECK_H

#include "tests/support/op_trial.h"

/* What the op says for one output row: expected [output_columns], zeroed. */
typedef void op_formula_fn(const struct op_trial *trial, uint32_t output, double *expected);

/* Relative to the largest expected magnitude of a row. */
typedef double op_tolerance_fn(const struct op_case *c);
/* The op's row of OP_LIST. */
double op_check_tolerance(const struct op_case *c);

/* Every case of the op, on every tier that this CPU has. Fails the test at the first row that is
 * further off than its tolerance. */
void op_check_formula(enum op_stem stem, op_formula_fn *formula, op_tolerance_fn *tolerance);

/* Leaves out steps of a copy of the op's case `number`, where a backend takes long to prepare for
 * each number of rows. Without any step left the case is not tried. */
typedef void op_thin_fn(void *context, uint32_t number, struct op_case *c);

/* A backend to judge. */
struct op_check_backend {
    const char *name;
    /* One that is not loaded yet; op_check destroys it. */
    struct backend *(*create)(void *context);
    op_thin_fn *thin; /* or NULL: every step of every case */
    void *context;
    struct backend_options options; /* as in op_trial_run() */
};

/*
 * Every case of the op on the backend and on the CPU (best tier, one thread), within op_check's
 * tolerance of the op, of a row's largest output or, of linear ops, of what its products come to if
 * they do not cancel. false: the backend said of some case that it cannot do it; *error says of
 * which and why, and the cases after it were not tried.
 */
bool op_check_against_cpu(enum op_stem stem, const struct op_check_backend *judged,
                          struct error_text *error);
/* The same for one case. */
bool op_check_case_against_cpu(const struct op_case *c, const struct op_check_backend *judged,
                               struct error_text *error);

#endif
