/*
 * A tiny checkpoint with its matrices quantized (scripts/golden/quantized_forms.py): one way of
 * running each form against the logits in tests/golden/quantized.
 */
#ifndef SHOAL_TESTS_SUPPORT_QUANTIZED_FORMS_H
#define SHOAL_TESTS_SUPPORT_QUANTIZED_FORMS_H

#include "tests/support/checkpoint_forms.h"

/* Runs build/checkpoints/<family>-<form>; returns the largest difference of a logit as a part of
 * the largest golden one. Fails the running test when a file is not there. */
double quantized_forms_difference(const char *family, const char *form, const struct form_run *how);

#endif
