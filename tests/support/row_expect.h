/*
 * One row of numbers held against what it should be.
 */
#ifndef SHOAL_TESTS_SUPPORT_ROW_EXPECT_H
#define SHOAL_TESTS_SUPPORT_ROW_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Fails the test naming `what` unless |actual - expected| <= tolerance * (largest |expected|) at
 * every one of `count` places.
 */
void row_expect_close(const char *what, const float *actual, const double *expected, uint32_t count,
                      double tolerance);

/* Whether a row is as close as that; a row's largest magnitude is taken for `least` where it is
 * smaller. */
bool row_expect_is_close(const float *actual, const double *expected, uint32_t count,
                         double tolerance, double least);

#endif
