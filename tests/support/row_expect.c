/*
 * Closeness is judged by the row, not by the element: a small number beside large ones carries
 * their rounding. A NaN is close to nothing.
 */
#include "tests/support/row_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

void row_expect_close(const char *what, const float *actual, const double *expected, uint32_t count,
                      double tolerance)
{
    double largest = 1e-30; /* below this nothing is told from 0 */
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (uint32_t i = 0; i < count; i++)
        if (!(fabs(actual[i] - expected[i]) <= tolerance * largest))
            fail_msg("%s: [%u] is %.9g, expected %.9g within %.3g of %.9g", what, i,
                     (double)actual[i], expected[i], tolerance, largest);
}
