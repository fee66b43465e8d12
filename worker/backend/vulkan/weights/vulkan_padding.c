/*
 * Which tensors may be wider on the device than in the plan.
 *
 * Rows that are made by one op and read by linear ops only can have any width that both know of.
 * An op in place between them (a bias, an activation) keeps it. Every other op takes its tensors'
 * columns for those of the plan, so a tensor that one of them touches stays as it is.
 *
 * Refuses text plans: their widths are multiples of 32, and theirs is the vault.
 */
#include "worker/backend/vulkan/weights/vulkan_padding.h"

static bool is_linear(const struct plan_op *op)
{
    return op->stem == OP_linear || op->stem == OP_linear_add;
}

/* Leaves zeros behind the plan's columns. */
static bool zeroes(const struct plan_op *op)
{
    return op->stem == OP_patch_rows || op->stem == OP_gate || op->stem == OP_activate;
}

/* Writes rows of any width, and whatever it likes behind the plan's columns. */
static bool leaves(const struct plan_op *op)
{
    return op->stem == OP_linear || op->stem == OP_bias_add;
}

static bool reads_otherwise(const struct plan_op *op, plan_tensor_id tensor)
{
    bool multiplies = is_linear(op), in_place = op->output == tensor && (zeroes(op) || leaves(op));
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == tensor && (i > 0 || !(multiplies || in_place)))
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
        if (reads_otherwise(op, tensor))
            return columns;
        if (is_linear(op) && op->inputs[0] == tensor) {
            if (!zeroed)
                return columns;
            multiplied = true;
        }
        if (op->output != tensor)
            continue;
        if (!zeroes(op) && !leaves(op))
            return columns;
        zeroed = zeroes(op);
    }
    uint32_t padded =
        (columns + VULKAN_FORM_COLUMNS - 1) / VULKAN_FORM_COLUMNS * VULKAN_FORM_COLUMNS;
    return multiplied ? padded : columns;
}
