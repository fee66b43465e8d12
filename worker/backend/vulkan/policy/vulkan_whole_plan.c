/*
 * A gathered tensor is replaced by its source if the source is not used again, so changing it in
 * place affects no other op.
 */
#include "worker/backend/vulkan/policy/vulkan_whole_plan.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

static bool uses(const struct plan_op *op, plan_tensor_id tensor)
{
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == tensor)
            return true;
    return op->output == tensor;
}

static bool is_used_after(const struct plan *plan, uint32_t index, plan_tensor_id tensor)
{
    for (uint32_t i = index + 1; i < plan->op_count; i++)
        if (uses(&plan->ops[i], tensor))
            return true;
    return false;
}

static void replace(struct plan_op *op, plan_tensor_id from, plan_tensor_id to)
{
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == from)
            op->inputs[i] = to;
    if (op->output == from)
        op->output = to;
}

void vulkan_whole_plan_init(const struct plan *plan, struct plan *whole)
{
    *whole = *plan;
    struct plan_op *ops = must_alloc(plan->op_count, sizeof *ops);
    memcpy(ops, plan->ops, plan->op_count * sizeof *ops);
    whole->ops = ops;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        plan_tensor_id from = ops[i].inputs[0], to = ops[i].output;
        if (ops[i].stem != OP_gather_rows || to == plan->logits || is_used_after(whole, i, from))
            continue;
        ops[i].inputs[0] = PLAN_NONE;
        ops[i].output = PLAN_NONE;
        for (uint32_t j = i + 1; j < plan->op_count; j++)
            replace(&ops[j], to, from);
        if (plan->keeps_hidden && whole->hidden_out == to)
            whole->hidden_out = from;
    }
}
