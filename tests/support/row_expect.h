/*
 * One row of numbers held against what it should be.
 */
#ifndef SHOAL_TESTS_SUPPORT_ROW_EXPECT_H
#define SHOAL_TESTS_SUPPORT_ROW_EXPECT_H

#include <stdint.h>

/*
 * Fails the test naming `what` unless |actual - expected| <= tolerance * (largest |expected|) at
 * every one of `count` places.
 */
void row_expect_close(const char *what, const float *actual, const double *expected, uint32_t count,
                      double tolerance);

#endif
