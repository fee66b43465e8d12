/*
 * Reading fusions off a plan. A plan is a flat list in which tensors are written again and again
 * (one set for all layers), so an output lives until the next op that writes the whole tensor;
 * readers are searched only in that range.
 */
#include "worker/backend/vulkan/policy/vulkan_fusion.h"

/* Whether its first input may be in any form. */
static bool takes_forms(const struct plan_op *op)
{
    return op_facts(op->stem)->weights == OP_WEIGHTS_PRODUCT;
}

static bool reads(const struct plan_op *op, plan_tensor_id tensor)
{
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == tensor)
            return true;
    return op->output == tensor && plan_op_keeps_output(op);
}

static bool writes(const struct plan_op *op, plan_tensor_id tensor)
{
    return op->output != PLAN_NONE && op->output == tensor;
}

/* Counts the ops that read the output of op `index`, and those among them that do not read it as a
 * linear op's first input. */
struct readers {
    uint32_t count;
    uint32_t first;
    uint32_t others;
    bool is_passed; /* another plan reads it too */
};

static bool is_passed(const struct plan *plan, plan_tensor_id tensor)
{
    if (plan->keeps_hidden && plan->hidden_out == tensor)
        return true;
    for (uint32_t i = 0; i < plan->passed_count; i++)
        if (plan->passed[i] == tensor)
            return true;
    return false;
}

static struct readers find_readers(const struct plan *plan, uint32_t index)
{
    plan_tensor_id tensor = plan->ops[index].output;
    struct readers found = {0, VULKAN_NO_OP, 0, false};
    for (uint32_t i = index + 1; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (reads(op, tensor)) {
            if (found.count++ == 0)
                found.first = i;
            if (!takes_forms(op) || op->inputs[1] == tensor)
                found.others++;
        }
        if (writes(op, tensor) && !plan_op_keeps_output(op))
            return found;
    }
    found.is_passed = is_passed(plan, tensor);
    if (tensor == plan->logits || found.is_passed)
        found.others++;
    return found;
}

static uint32_t find_producer(const struct plan *plan, uint32_t index)
{
    for (uint32_t i = index; i-- > 0;)
        if (writes(&plan->ops[i], plan->ops[index].inputs[0]))
            return i;
    return VULKAN_NO_OP;
}

/* A run of head_norm and rope ops in place on one tensor that ends in the kv_write of it. */
static uint32_t count_heads(const struct plan *plan, uint32_t index)
{
    plan_tensor_id tensor = plan->ops[index].inputs[0];
    for (uint32_t i = index; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (op->inputs[0] != tensor)
            return 0;
        if (op->stem == OP_kv_write)
            return i - index + 1;
        if (op->stem != OP_head_norm && op->stem != OP_rope)
            return 0;
    }
    return 0;
}

/* `next` alone reads what the moe_linear op `index` wrote, by the same route. */
static void annotate_experts(const struct plan_op *next, uint32_t index,
                             struct vulkan_fusion_note *notes)
{
    if (next->stem == OP_moe_gate)
        notes[index].gate = index + 1;
    else if (next->stem == OP_moe_combine)
        notes[index].combine = index + 1;
    else
        return;
    notes[index + 1].partner = index;
}

/* A gate that kernels of products know. */
static bool is_product_gate(const struct plan_op *op)
{
    return op->stem == OP_gate && op->params.gate.activation != GATE_SIGMOID;
}

/* Op `index` and the bias_add after it, in place, and the gate after that. */
static void annotate_biases(const struct plan *plan, uint32_t index,
                            struct vulkan_fusion_note *notes)
{
    struct readers readers = find_readers(plan, index + 1);
    notes[index].bias = index + 1;
    notes[index + 1].partner = index;
    if (plan->ops[index].stem == OP_linear && readers.count == 1 && readers.first == index + 2 &&
        is_product_gate(&plan->ops[index + 2]) && plan->ops[index].output != plan->logits) {
        notes[index].gate = index + 2;
        notes[index + 2].partner = index;
    }
}

static bool reads_alone(const struct plan *plan, uint32_t index,
                        const struct vulkan_fusion_note *notes)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (i != index && notes[i].producer == notes[index].producer)
            return false;
    }
    return notes[index].producer != VULKAN_NO_OP;
}

void vulkan_fusion_annotate(const struct plan *plan, struct vulkan_fusion_note *notes)
{
    for (uint32_t i = 0; i < plan->op_count; i++)
        notes[i] = (struct vulkan_fusion_note){.norm = VULKAN_NO_OP,
                                               .gate = VULKAN_NO_OP,
                                               .route = VULKAN_NO_OP,
                                               .combine = VULKAN_NO_OP,
                                               .bias = VULKAN_NO_OP,
                                               .partner = VULKAN_NO_OP,
                                               .producer = VULKAN_NO_OP};
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        const struct plan_op *next = i + 1 < plan->op_count ? op + 1 : NULL;
        struct readers readers = find_readers(plan, i);
        notes[i].read_as_f32 = readers.others > 0;
        bool only_next = readers.count == 1 && readers.first == i + 1 && !readers.is_passed &&
                         op->output != plan->logits;
        if (op->stem == OP_rms_norm && only_next && next->stem == OP_linear &&
            op->inputs[0] != op->output) {
            notes[i].partner = i + 1;
            notes[i + 1].norm = i;
        }
        if (op->stem == OP_linear && only_next && is_product_gate(next)) {
            notes[i].gate = i + 1;
            notes[i + 1].partner = i;
        }
        if ((op->stem == OP_linear || op->stem == OP_linear_add) && next &&
            next->stem == OP_bias_add && next->inputs[0] == op->output &&
            next->output == op->output)
            annotate_biases(plan, i, notes);
        if (op->stem == OP_moe_route && op->params.moe_route.rows == EXPERTS_OF_ALL && next &&
            next->stem == OP_moe_linear && next->inputs[1] == op->output) {
            notes[i].partner = i + 1;
            notes[i + 1].route = i;
        }
        if (op->stem == OP_moe_linear && only_next && next->inputs[1] == op->inputs[1])
            annotate_experts(next, i, notes);
        if (takes_forms(op))
            notes[i].producer = find_producer(plan, i);
    }
    /* A bias_add that linear ops read writes the forms they need, so it stays a dispatch. */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t producer = notes[i].producer;
        if (producer == VULKAN_NO_OP || plan->ops[producer].stem != OP_bias_add ||
            notes[producer].partner == VULKAN_NO_OP)
            continue;
        notes[notes[producer].partner].bias = VULKAN_NO_OP;
        notes[producer].partner = VULKAN_NO_OP;
    }
    for (uint32_t i = 0; i < plan->op_count; i++)
        notes[i].reads_alone = reads_alone(plan, i, notes);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        enum op_stem stem = plan->ops[i].stem;
        if (stem != OP_head_norm && stem != OP_rope && stem != OP_kv_write)
            continue;
        notes[i].heads = count_heads(plan, i);
        for (uint32_t member = 0; member < notes[i].heads; member++)
            notes[i + member].in_heads = true;
        if (notes[i].heads > 0)
            i += notes[i].heads - 1;
    }
}

void vulkan_fusion_part(const struct plan *plan, struct vulkan_fusion_note *notes)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].stem != OP_linear && plan->ops[i].stem != OP_linear_add)
            continue;
        uint32_t *pairs[] = {&notes[i].norm, &notes[i].gate};
        for (uint32_t p = 0; p < 2; p++) {
            if (*pairs[p] != VULKAN_NO_OP)
                notes[*pairs[p]].partner = VULKAN_NO_OP;
            *pairs[p] = VULKAN_NO_OP;
        }
        if (notes[i].producer != VULKAN_NO_OP)
            notes[notes[i].producer].read_as_f32 = true;
    }
}
