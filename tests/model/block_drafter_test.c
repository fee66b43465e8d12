/*
 * A DFlash drafter on the CPU proposes what mlx-vlm's does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/block_trial.h"

static void test_proposals(void **state)
{
    (void)state;
    block_trial_run(&(struct block_trial){.tolerance = 2e-5});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proposals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
