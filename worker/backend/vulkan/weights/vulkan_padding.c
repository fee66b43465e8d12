/*
 * Decides which tensors may be wider on the device than in the plan.
 *
 * Rows that one op makes and only linear ops read can have any width that both know. An op in place
 * between them (a bias, an activation) keeps the width. Every other op takes its tensors' columns
 * from the plan, so a tensor that such an op touches keeps the plan's width.
 *
 * Text plans are not padded: their widths are multiples of 32, and their weights are in the vault.
 */
#include "worker/backend/vulkan/weights/vulkan_padding.h"

static bool is_product(const struct plan_op *op)
{
    return op_facts(op->stem)->weights == OP_WEIGHTS_PRODUCT;
}

static bool may_pad(const struct plan_op *op)
{
    return op_facts(op->stem)->pad != OP_PAD_NONE;
}

/* Whether the op reads the tensor in a way other than as x of a product or in place. */
static bool reads_plan_columns(const struct plan_op *op, plan_tensor_id tensor)
{
    bool in_place = op->output == tensor && may_pad(op);
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == tensor && (i > 0 || !(is_product(op) || in_place)))
            return true;
    return false;
}

uint32_t vulkan_padding_columns(const struct plan *plan, plan_tensor_id tensor)
{
    uint32_t columns = plan->tensors[tensor].columns;
    enum plan_rows rows = plan->tensors[tensor].rows;
    bool zeroed = false, multiplied = false;
    if (rows == PLAN_ROWS_STEP || rows == PLAN_ROWS_LOGITS)
        return columns;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (reads_plan_columns(op, tensor))
            return columns;
        if (is_product(op) && op->inputs[0] == tensor) {
            if (!zeroed)
                return columns;
            multiplied = true;
        }
        if (op->output != tensor)
            continue;
        if (!may_pad(op))
            return columns;
        zeroed = op_facts(op->stem)->pad == OP_PAD_ZEROS;
    }
    uint32_t padded =
        (columns + VULKAN_PADDED_COLUMNS - 1) / VULKAN_PADDED_COLUMNS * VULKAN_PADDED_COLUMNS;
    return multiplied ? padded : columns;
}
