/*
 * Compares a row of numbers with the expected one.
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

/* True if a row is that close. The tolerance is relative to at least `least`, even if the largest
 * magnitude of the row is smaller. */
bool row_expect_is_close(const float *actual, const double *expected, uint32_t count,
                         double tolerance, double least);

#endif
