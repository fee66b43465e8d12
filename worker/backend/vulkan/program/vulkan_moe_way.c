/*
 * Only the device knows which experts a step needs, and commands are recorded for a number of rows,
 * so grids have room for the worst case: as many tiles as the pairs could need. A tile is a number
 * of pairs of one expert; vulkan_moe_policy.h chooses it and the kernel.
 *
 * A gate that only reads a moe_linear, and the sum of a row's pairs, are computed by the moe_linear
 * where its kernel can. Mixtures with biases in either have separate dispatches for both.
 */
#include "worker/backend/vulkan/program/vulkan_moe_way.h"

#define GROUPS_HEAD_BYTES  16u
#define TILE_BYTES         16u
#define GATHERED_ALIGNMENT 128u

uint32_t vulkan_moe_chosen(const struct vulkan_program *program, plan_tensor_id route)
{
    return program->tensors[route].columns / 2;
}

uint32_t vulkan_moe_tile_bound(uint32_t pairs, uint32_t experts, uint32_t tile_rows)
{
    uint32_t used = pairs < experts ? pairs : experts;
    return used + (pairs - used) / tile_rows;
}

/* Pairs follow the tiles, of which there are at most as many. */
uint64_t vulkan_moe_pairs_offset(uint32_t pairs)
{
    return GROUPS_HEAD_BYTES + (uint64_t)pairs * TILE_BYTES;
}

uint64_t vulkan_moe_gathered_offset(uint32_t pairs)
{
    uint64_t end = vulkan_moe_pairs_offset(pairs) + pairs * sizeof(uint32_t);
    return (end + GATHERED_ALIGNMENT - 1) / GATHERED_ALIGNMENT * GATHERED_ALIGNMENT;
}

uint64_t vulkan_moe_memory_bytes(const struct vulkan_program *program)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        const struct plan_op *op = &program->plan->ops[i];
        if (op->stem != OP_moe_linear)
            continue;
        uint32_t rows = vulkan_program_rows(program, program->tensors[op->output].rows);
        uint32_t pairs = rows * vulkan_moe_chosen(program, op->inputs[1]);
        uint64_t bytes = vulkan_moe_gathered_offset(pairs);
        if (program->device->facts.tier >= VULKAN_PTX) {
            const struct plan_weight *weight = &program->plan->weights[op->weights[0]];
            bytes += (uint64_t)vulkan_moe_gathered_rows(pairs, weight->experts) * weight->columns *
                     sizeof(uint16_t);
        }
        max = bytes > max ? bytes : max;
    }
    return max;
}

const struct vulkan_matrix *vulkan_moe_stack(const struct vulkan_program *program, uint32_t index,
                                             uint32_t slot)
{
    return &program->weights.matrices[program->weights.by_op[index].index[slot]];
}

uint32_t vulkan_moe_stack_count(const struct plan_op *op)
{
    uint32_t count = 0;
    while (count < OP_WEIGHTS_MAX && op->weights[count] != PLAN_NONE)
        count++;
    return count;
}

struct vulkan_moe_request vulkan_moe_request_of(const struct vulkan_program *program,
                                                uint32_t index, uint32_t rows, uint32_t slot)
{
    const struct plan_op *op = &program->plan->ops[index];
    const struct plan_weight *weight = &program->plan->weights[op->weights[slot]];
    return (struct vulkan_moe_request){.kind = vulkan_moe_stack(program, index, slot)->kind,
                                       .rows = rows,
                                       .chosen = vulkan_moe_chosen(program, op->inputs[1]),
                                       .experts = weight->experts,
                                       .n = weight->rows,
                                       .k = weight->columns,
                                       .output = VULKAN_FORM_F32};
}

/* A gate without biases and limits, over one stack or over two of one kind. */
static bool is_gateable(const struct vulkan_program *program, uint32_t index)
{
    uint32_t gate = program->notes[index].gate;
    const struct plan_op *op = &program->plan->ops[index];
    if (gate == VULKAN_NO_OP)
        return false;
    const struct plan_op *next = &program->plan->ops[gate];
    uint32_t count = vulkan_moe_stack_count(op);
    return next->weights[0] == PLAN_NONE && next->params.moe_gate.limit <= 0.0f && count <= 2 &&
           vulkan_moe_stack(program, index, 0)->kind ==
               vulkan_moe_stack(program, index, count - 1)->kind;
}

struct vulkan_moe_way vulkan_moe_way(const struct vulkan_program *program, uint32_t index,
                                     uint32_t rows)
{
    const struct vulkan_facts *facts = &program->device->facts;
    const struct plan_op *op = &program->plan->ops[index];
    uint32_t combine = program->notes[index].combine;
    struct vulkan_moe_way way = {.route = true, .gate = true, .combine = true};
    if (rows == 0)
        return (struct vulkan_moe_way){0};
    for (uint32_t slot = 0; slot < vulkan_moe_stack_count(op); slot++) {
        const struct vulkan_moe_request request = vulkan_moe_request_of(program, index, rows, slot);
        struct vulkan_moe_choice choice;
        vulkan_moe_choose(facts, &request, &choice);
        way.input |= choice.input;
        way.gate &= choice.kernel != VULKAN_MOE_PLAIN;
        way.combine &= vulkan_moe_combines(choice.kernel, rows);
        way.route &= vulkan_moe_routes(choice.kernel, rows, request.experts);
        way.outputs = choice.kernel == VULKAN_MOE_DOT ? VULKAN_FORM_Q8 : VULKAN_FORM_F16;
    }
    way.gate = way.gate && is_gateable(program, index);
    uint32_t route = program->notes[index].route;
    way.route = way.gate && way.route && route != VULKAN_NO_OP &&
                program->plan->ops[route].weights[0] == PLAN_NONE &&
                !program->plan->ops[route].params.moe_route.weighed;
    way.combine = way.combine && combine != VULKAN_NO_OP &&
                  program->plan->ops[combine].weights[0] == PLAN_NONE &&
                  vulkan_moe_stack_count(op) == 1;
    return way;
}

uint32_t vulkan_moe_gate_forms(const struct vulkan_program *program, uint32_t gate, uint32_t rows,
                               uint32_t wanted)
{
    uint32_t linear = program->notes[gate].partner;
    if (linear == VULKAN_NO_OP)
        return VULKAN_FORM_F32;
    struct vulkan_moe_way way = vulkan_moe_way(program, linear, rows);
    return way.gate && wanted == (uint32_t)way.outputs ? wanted : VULKAN_FORM_F32;
}
