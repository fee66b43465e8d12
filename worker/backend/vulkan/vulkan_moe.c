/*
 * Mixtures of experts, for any number of rows.
 *
 * Which experts a step needs is only known on the device, and commands are recorded for a number of
 * rows, so grids have room for the worst case: as many tiles as the pairs could need. A tile is up
 * to vulkan_moe_tile_rows() pairs of one expert; a row chooses an expert at most once, so up to
 * eight rows an expert is one tile, and its matrix is read once.
 *
 * Refuses to do: matrix units and packed dots. moe_linear computes in f32 for any number of rows.
 */
#include "worker/backend/vulkan/vulkan_moe.h"

#include "proto/must.h"

#define INVOCATIONS       256u /* of the kernels but moe_linear */
#define LINEAR_SUBGROUPS  4u
#define MANY_ROWS         128u
#define TILE_ROWS_MOST    8u
#define TILE_ROWS_OF_MANY 16u
#define GROUPS_HEAD_BYTES 16u
#define TILE_BYTES        16u
#define GRID_MOST         65535u
#define COLUMNS_EACH      4u /* of an invocation of moe_combine */

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

static uint32_t chosen_of(const struct vulkan_program *program, plan_tensor_id route)
{
    return program->tensors[route].columns / 2;
}

static uint32_t invocations(const struct vulkan_program *program, uint32_t wanted)
{
    uint32_t most = program->device->facts.max_invocations;
    return wanted < most ? wanted : most;
}

uint32_t vulkan_moe_tile_rows(uint32_t rows)
{
    uint32_t tile_rows = 1;
    if (rows >= MANY_ROWS)
        return TILE_ROWS_OF_MANY;
    while (tile_rows < rows && tile_rows < TILE_ROWS_MOST)
        tile_rows *= 2;
    return tile_rows;
}

uint32_t vulkan_moe_tile_bound(uint32_t rows, uint32_t chosen, uint32_t experts)
{
    uint32_t pairs = rows * chosen;
    uint32_t used = pairs < experts ? pairs : experts;
    return used + (pairs - used) / vulkan_moe_tile_rows(rows);
}

/* Pairs lie behind the tiles, of which there are no more than pairs. */
static uint64_t pairs_offset(uint32_t pairs)
{
    return GROUPS_HEAD_BYTES + (uint64_t)pairs * TILE_BYTES;
}

uint64_t vulkan_moe_memory_bytes(const struct vulkan_program *program)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        const struct plan_op *op = &program->plan->ops[i];
        if (op->stem != OP_moe_linear)
            continue;
        uint32_t rows = vulkan_program_rows(program, program->tensors[op->output].rows);
        uint32_t pairs = rows * chosen_of(program, op->inputs[1]);
        uint64_t bytes = pairs_offset(pairs) + pairs * sizeof(uint32_t);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Address of an op's weight of floats, or 0 when it has none. */
static uint64_t vectors_of(const struct vulkan_program *program, const struct plan_op *op)
{
    return op->weights[0] == PLAN_NONE ? 0 : program->weights.vector_address[op->weights[0]];
}

void vulkan_moe_record_route(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct moe_route_params *params = &op->params.moe_route;
    const struct vulkan_moe_route_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .scales = vectors_of(program, op),
        .route = program->tensors[op->output].f32,
        .experts = program->tensors[op->inputs[0]].columns,
        .chosen = params->chosen,
        .scale = params->scale,
    };
    /* A softmax over all that is normalized afterwards is one over the chosen. */
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_ROUTE_CONSTANTS,
        .values = {[VULKAN_MOE_ROUTE_INVOCATIONS] = invocations(program, INVOCATIONS),
                   [VULKAN_MOE_ROUTE_SOFTMAX_ALL] =
                       !params->softmax_chosen && !params->normalized}};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output), 1, 1};
    recorder->grouped = PLAN_NONE;
    vulkan_recorder_dispatch(recorder, "moe_route", &constants, &push, sizeof push, grid, &touch);
}

/* Sorts the pairs of `route`, unless that is done. */
static void group_pairs(struct vulkan_recorder *recorder, plan_tensor_id route, uint32_t experts)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t rows = vulkan_recorder_rows(recorder, route);
    uint32_t chosen = chosen_of(program, route);
    if (recorder->grouped == route)
        return;
    const struct vulkan_moe_group_push push = {
        .route = program->tensors[route].f32,
        .groups = program->moe_memory.address,
        .pairs = program->moe_memory.address + pairs_offset(rows * chosen),
        .pair_count = rows * chosen,
        .chosen = chosen,
        .experts = experts,
    };
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_GROUP_CONSTANTS,
        .values = {[VULKAN_MOE_GROUP_INVOCATIONS] = invocations(program, INVOCATIONS),
                   [VULKAN_MOE_GROUP_TILE_ROWS] = vulkan_moe_tile_rows(rows)}};
    const struct vulkan_touch touch = {.reads = {route, PLAN_NONE, PLAN_NONE},
                                       .writes = {vulkan_recorder_groups(recorder), PLAN_NONE}};
    recorder->grouped = route;
    vulkan_recorder_dispatch(recorder, "moe_group", &constants, &push, sizeof push,
                             (struct vulkan_grid){1, 1, 1}, &touch);
}

/* One weight of the op, whose outputs begin at `column` of each part. */
static void record_stack(struct vulkan_recorder *recorder, uint32_t slot, uint32_t column)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct plan_weight *weight = &program->plan->weights[op->weights[slot]];
    const struct vulkan_matrix *matrix =
        &program->weights.matrices[program->weights.by_op[recorder->op].index[slot]];
    const struct vulkan_tensor *x = &program->tensors[op->inputs[0]];
    const struct vulkan_tensor *out = &program->tensors[op->output];
    uint32_t rows = vulkan_recorder_rows(recorder, op->output);
    uint32_t chosen = chosen_of(program, op->inputs[1]);
    uint32_t outputs = rows == 1 ? 4 : 2;
    uint32_t lanes = program->device->facts.subgroup_size;
    uint32_t count = invocations(program, LINEAR_SUBGROUPS * lanes);
    uint32_t across = count / lanes * outputs;
    const struct vulkan_moe_linear_push push = {
        .weights = vulkan_recorder_matrix(matrix),
        .x = x->f32,
        .out_f32 = out->f32 + column * sizeof(float),
        .groups = program->moe_memory.address,
        .pairs = program->moe_memory.address + pairs_offset(rows * chosen),
        .n = weight->rows,
        .k = weight->columns,
        .out_stride = out->columns / chosen,
        .pairs_per_x = x->columns == weight->columns ? chosen : 1,
    };
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_LINEAR_CONSTANTS,
        .values = {[VULKAN_MOE_LINEAR_INVOCATIONS] = count,
                   [VULKAN_MOE_LINEAR_WEIGHT_KIND] = matrix->kind,
                   [VULKAN_MOE_LINEAR_TILE_ROWS] = vulkan_moe_tile_rows(rows),
                   [VULKAN_MOE_LINEAR_OUTPUTS] = outputs}};
    const struct vulkan_grid grid = {(push.n + across - 1) / across,
                                     vulkan_moe_tile_bound(rows, chosen, weight->experts), 1};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], vulkan_recorder_groups(recorder), PLAN_NONE},
        .writes = {op->output, PLAN_NONE},
        .side_by_side = slot > 0};
    must(grid.x <= GRID_MOST && grid.y <= GRID_MOST);
    vulkan_recorder_dispatch(recorder, "moe_linear", &constants, &push, sizeof push, grid, &touch);
}

void vulkan_moe_record_linear(struct vulkan_recorder *recorder)
{
    const struct plan *plan = recorder->program->plan;
    const struct plan_op *op = op_of(recorder);
    uint32_t column = 0;
    group_pairs(recorder, op->inputs[1], plan->weights[op->weights[0]].experts);
    for (uint32_t slot = 0; slot < OP_WEIGHTS_MAX && op->weights[slot] != PLAN_NONE; slot++) {
        record_stack(recorder, slot, column);
        column += plan->weights[op->weights[slot]].rows;
    }
}

void vulkan_moe_record_gate(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct moe_gate_params *params = &op->params.moe_gate;
    uint32_t chosen = chosen_of(program, op->inputs[1]);
    struct vulkan_moe_gate_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .route = program->tensors[op->inputs[1]].f32,
        .bias = vectors_of(program, op),
        .out_f32 = program->tensors[op->output].f32,
        .columns = program->tensors[op->output].columns / chosen,
        .chosen = chosen,
        .limit = params->limit,
        .alpha = params->alpha,
    };
    if (push.bias) { /* a second weight lies behind the first */
        const struct plan_weight *bias = &program->plan->weights[op->weights[0]];
        push.bias_columns = bias->columns;
        push.bias_up = push.bias + (uint64_t)bias->rows * bias->columns * sizeof(float);
    }
    uint32_t count = invocations(program, INVOCATIONS);
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_GATE_CONSTANTS,
        .values = {[VULKAN_MOE_GATE_INVOCATIONS] = count,
                   [VULKAN_MOE_GATE_ACTIVATION] = params->activation,
                   [VULKAN_MOE_GATE_INTERLEAVED] = params->interleaved,
                   [VULKAN_MOE_GATE_LIMITED] = params->limit > 0.0f}};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output) * chosen,
                                     (push.columns + count - 1) / count, 1};
    vulkan_recorder_dispatch(recorder, "moe_gate", &constants, &push, sizeof push, grid, &touch);
}

void vulkan_moe_record_combine(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    bool add = op->params.moe_combine.add;
    uint32_t forms = recorder->forms[recorder->op] | (add ? VULKAN_FORM_F32 : 0u);
    const struct vulkan_moe_combine_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .route = program->tensors[op->inputs[1]].f32,
        .bias = vectors_of(program, op),
        .held = program->tensors[op->output].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .chosen = chosen_of(program, op->inputs[1]),
    };
    uint32_t count = invocations(program, INVOCATIONS), tile = COLUMNS_EACH * count;
    const struct vulkan_specialization constants = {
        .count = VULKAN_ROW_CONSTANTS,
        .values = {
            [VULKAN_ROW_INVOCATIONS] = count, [VULKAN_ROW_FORMS] = forms, [VULKAN_ROW_OWN] = add}};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], op->inputs[1], add ? op->output : (plan_tensor_id)PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output),
                                     (push.columns + tile - 1) / tile, 1};
    vulkan_recorder_dispatch(recorder, "moe_combine", &constants, &push, sizeof push, grid, &touch);
}
