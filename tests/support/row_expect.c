/*
 * The tolerance is relative to the row, not to the element: a small number in a row of large ones has
 * their rounding error. A NaN always fails.
 */
#include "tests/support/row_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#define NOTHING 1e-30 /* smallest bound: smaller numbers count as 0 */

static double largest_of(const double *expected, uint32_t count, double least)
{
    double largest = fmax(least, NOTHING);
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    return largest;
}

/* Index of the first difference above `bound`; `count` if there is none. */
static uint32_t find_far(const float *actual, const double *expected, uint32_t count, double bound)
{
    uint32_t i = 0;
    while (i < count && fabs(actual[i] - expected[i]) <= bound)
        i++;
    return i;
}

void row_expect_close(const char *what, const float *actual, const double *expected, uint32_t count,
                      double tolerance)
{
    double largest = largest_of(expected, count, 0.0);
    uint32_t far = find_far(actual, expected, count, tolerance * largest);
    if (far < count)
        fail_msg("%s: [%u] is %.9g, expected %.9g within %.3g of %.9g", what, far,
                 (double)actual[far], expected[far], tolerance, largest);
}

bool row_expect_is_close(const float *actual, const double *expected, uint32_t count,
                         double tolerance, double least)
{
    double largest = largest_of(expected, count, least);
    return find_far(actual, expected, count, tolerance * largest) == count;
}
