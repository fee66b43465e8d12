/*
 * Tries the cases of an op: the CPU backend against a formula in double precision, and any
 * other backend against the CPU backend, which is the specification.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_CHECK_H
#define SHOAL_TESTS_SUPPORT_OP_CHECK_H

#include "tests/support/op_case_list.h"

/* Computes one output row by the op's formula into `expected` [output_columns], which is zeroed. */
typedef void op_formula_fn(const struct op_trial *trial, uint32_t output, double *expected);

/* Tolerance relative to the largest expected magnitude of a row. */
typedef double op_tolerance_fn(const struct op_case *c);
/* The op's row of OP_LIST. */
double op_check_tolerance(const struct op_case *c);

/* Runs every case of the op on every tier that this CPU has. Fails the test at the first row outside
 * its tolerance. */
void op_check_formula(op_case_list_fn *cases, op_formula_fn *formula, op_tolerance_fn *tolerance);

/* Removes steps from a copy of the op's case `number`, for backends that take long to prepare for
 * each number of rows. A case without steps is not run. */
typedef void op_thin_fn(void *context, uint32_t number, struct op_case *c);

/* The backend under test. */
struct op_check_backend {
    const char *name;
    /* Creates a backend that is not loaded; op_check destroys it. */
    struct backend *(*create)(void *context);
    op_thin_fn *thin; /* or NULL: every step of every case */
    void *context;
    struct backend_options options; /* as in op_trial_run() */
};

/*
 * Compares every case of the op on the backend with the CPU (best tier, one thread). The tolerance
 * of the op is relative to the row's largest output, or for linear ops to the size of its sum without
 * cancellation. Returns false if the backend does not support a case; *error names the case and the
 * reason, and later cases are not run.
 */
bool op_check_against_cpu(op_case_list_fn *cases, const struct op_check_backend *judged,
                          struct error_text *error);
/* The same for one case. */
bool op_check_case_against_cpu(const struct op_case *c, const struct op_check_backend *judged,
                               struct error_text *error);

#endif
