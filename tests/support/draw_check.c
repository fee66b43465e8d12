#include "tests/support/draw_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* By Wilson and Hilferty. */
static double chi_square_limit(uint32_t freedom, double deviations)
{
    double a = 2.0 / (9.0 * freedom);
    double root = 1.0 - a + deviations * sqrt(a);
    return freedom * root * root * root;
}

void draw_check(const struct draw_check *check, const double *p, const uint32_t *drawn)
{
    double chi_square = 0.0, rare_expected = 0.0, rare_drawn = 0.0;
    uint32_t cells = 0;
    for (uint32_t i = 0; i < check->count; i++) {
        double expected = check->draws * p[i];
        if (expected == 0.0)
            assert_int_equal(drawn[i], 0);
        if (expected < 5.0) {
            rare_expected += expected;
            rare_drawn += drawn[i];
            continue;
        }
        cells++;
        chi_square += pow(drawn[i] - expected, 2.0) / expected;
    }
    if (rare_expected >= 5.0) {
        cells++;
        chi_square += pow(rare_drawn - rare_expected, 2.0) / rare_expected;
    }
    double limit = cells > 1 ? chi_square_limit(cells - 1, check->deviations) : check->alone;
    if (!(chi_square < limit))
        print_error("%s: chi-square %g of %u cells, limit %g\n", check->name, chi_square, cells,
                    limit);
    assert_true(chi_square < limit);
}
