/*
 * Linear searches: the plans of tests have a few dozen ops.
 */
#include "tests/support/plan_lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct plan_op plan_lookup_op(const struct plan *plan, enum op_stem stem)
{
    uint32_t i = 0;
    while (i < plan->op_count && plan->ops[i].stem != stem)
        i++;
    assert_true(i < plan->op_count);
    return plan->ops[i];
}

plan_tensor_id plan_lookup_tensor(const struct plan *plan, enum plan_rows rows, uint32_t columns)
{
    uint32_t i = 0;
    while (i < plan->tensor_count &&
           (plan->tensors[i].rows != rows || plan->tensors[i].columns != columns))
        i++;
    assert_true(i < plan->tensor_count);
    return (plan_tensor_id)i;
}
