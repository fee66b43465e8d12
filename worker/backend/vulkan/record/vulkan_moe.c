/*
 * Mixtures of experts, for any number of rows (vulkan_moe_way.h).
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/program/vulkan_moe_way.h"

#define INVOCATIONS       256u /* of all kernels except moe_linear's */
#define GROUP_INVOCATIONS 1024u
#define MANY_PAIRS        1024u
#define GRID_MAX          65535u
#define COLUMNS_EACH      4u   /* of an invocation of moe_combine */
#define GATHERED_COLUMNS  128u /* of a workgroup of moe_gather */

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

static uint32_t invocations(const struct vulkan_program *program, uint32_t wanted)
{
    uint32_t max = program->device->facts.max_invocations;
    return wanted < max ? wanted : max;
}

/* Address of an op's weight of floats, or 0 when it has none. */
static uint64_t vectors_of(const struct vulkan_program *program, const struct plan_op *op)
{
    return op->weights[0] == PLAN_NONE ? 0 : program->weights.vector_address[op->weights[0]];
}

/* A softmax over all experts that is normalized afterwards equals one over the chosen. */
static bool is_softmax_of_all(const struct moe_route_params *params)
{
    return !params->softmax_chosen && !params->normalized;
}

/* Whether the adjacent moe_linear computes the recorder's present op. */
static bool is_fused(const struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t linear = program->notes[recorder->op].partner;
    enum op_stem stem = op_of(recorder)->stem;
    if (linear == VULKAN_NO_OP)
        return false;
    struct vulkan_moe_way way =
        vulkan_moe_way(program, linear, vulkan_recorder_rows(recorder, op_of(recorder)->output));
    return stem == OP_moe_route ? way.route : stem == OP_moe_gate ? way.gate : way.combine;
}

void vulkan_record_moe_route(struct vulkan_recorder *recorder)
{
    recorder->grouped = PLAN_NONE;
    if (is_fused(recorder))
        return;
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct moe_route_params *params = &op->params.moe_route;
    const struct vulkan_batch *batch = recorder->recording->batch;
    bool of_some = params->rows != EXPERTS_OF_ALL;
    bool of_logits = program->tensors[op->output].rows == PLAN_ROWS_LOGITS;
    const struct vulkan_moe_route_push push = {
        .rows = batch->rows_address,
        .sights = of_some && program->sees ? batch->sights_address : 0,
        .drawn = recorder->recording->drawn_before,
        .logit_rows = of_some && of_logits ? batch->logit_rows_address : 0,
        .edges = {params->edges[0], params->edges[1]},
        .of_rows = params->rows,
        .x = program->tensors[op->inputs[0]].f32,
        .scales = vectors_of(program, op),
        .route = program->tensors[op->output].f32,
        .experts = program->tensors[op->inputs[0]].columns,
        .chosen = params->chosen,
        .scale = params->scale,
        .epsilon = params->epsilon,
        .groups = params->groups,
        .groups_chosen = params->groups_chosen,
        .group_best = params->group_best,
        .normalized = params->normalized,
    };
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_ROUTE_CONSTANTS,
        .values = {[VULKAN_MOE_ROUTE_INVOCATIONS] = invocations(program, INVOCATIONS),
                   [VULKAN_MOE_ROUTE_SOFTMAX_ALL] = is_softmax_of_all(params),
                   [VULKAN_MOE_ROUTE_FORM] = !params->weighed  ? VULKAN_MOE_ROUTE_SCORES
                                             : params->sigmoid ? VULKAN_MOE_ROUTE_SIGMOID
                                                               : VULKAN_MOE_ROUTE_SOFTMAX}};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output), 1, 1};
    vulkan_recorder_dispatch(recorder, "moe_route", &constants, &push, sizeof push, grid, &touch);
}

void vulkan_record_head_route(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_tensor *out = &recorder->program->tensors[op->output];
    const struct vulkan_head_route_push push = {.out = out->f32, .columns = out->columns};
    const struct vulkan_row_task task = {op->stem, vulkan_recorder_rows(recorder, op->output),
                                         out->columns, VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    recorder->grouped = PLAN_NONE;
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* Sorts the pairs of `route` into tiles, unless they are sorted already: false. */
static bool group_pairs(struct vulkan_recorder *recorder, plan_tensor_id route, uint32_t experts,
                        uint32_t tile_rows)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t chosen = vulkan_moe_chosen(program, route);
    uint32_t pairs = vulkan_recorder_rows(recorder, route) * chosen;
    if (recorder->grouped == route && recorder->grouped_tile_rows == tile_rows)
        return false;
    const struct vulkan_moe_group_push push = {
        .route = program->tensors[route].f32,
        .groups = program->moe_memory.address,
        .pairs = program->moe_memory.address + vulkan_moe_pairs_offset(pairs),
        .pair_count = pairs,
        .chosen = chosen,
        .experts = experts,
    };
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_GROUP_CONSTANTS,
        .values = {[VULKAN_MOE_GROUP_INVOCATIONS] =
                       invocations(program, pairs < MANY_PAIRS ? INVOCATIONS : GROUP_INVOCATIONS),
                   [VULKAN_MOE_GROUP_TILE_ROWS] = tile_rows}};
    const struct vulkan_touch touch = {.reads = {route, PLAN_NONE, PLAN_NONE},
                                       .writes = {vulkan_recorder_groups(recorder), PLAN_NONE}};
    recorder->grouped = route;
    recorder->grouped_tile_rows = tile_rows;
    vulkan_recorder_dispatch(recorder, "moe_group", &constants, &push, sizeof push,
                             (struct vulkan_grid){1, 1, 1}, &touch);
    return true;
}

/* Lays the rows of x out by tiles. */
static void gather_rows(struct vulkan_recorder *recorder, const struct plan_op *op, uint32_t pairs,
                        const struct vulkan_moe_request *request, uint32_t tiles)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[op->inputs[0]];
    const struct vulkan_moe_gather_push push = {
        .x = x->f16,
        .gathered = program->moe_memory.address + vulkan_moe_gathered_offset(pairs),
        .groups = program->moe_memory.address,
        .k = request->k,
        .pairs_per_x = x->columns == request->k ? request->chosen : 1,
        .pairs_offset = (uint32_t)vulkan_moe_pairs_offset(pairs),
        .x_rows = vulkan_moe_gathered_rows(pairs, request->experts),
    };
    const struct vulkan_specialization constants = {.count = 1,
                                                    .values = {invocations(program, INVOCATIONS)}};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], vulkan_recorder_groups(recorder), PLAN_NONE},
        .writes = {vulkan_recorder_groups(recorder), PLAN_NONE}};
    const struct vulkan_grid grid = {request->k / GATHERED_COLUMNS, tiles, 1};
    vulkan_recorder_dispatch(recorder, "moe_gather", &constants, &push, sizeof push, grid, &touch);
}

/* --- moe_linear --- */

/* One dispatch of a moe_linear: its outputs, and what it writes. */
struct moe_task {
    struct vulkan_moe_request request;
    struct vulkan_moe_choice choice;
    const struct plan_op *op;
    const struct vulkan_matrix *matrix, *up;
    const struct plan_op *route; /* NULL: the route is known */
    plan_tensor_id out;
    uint32_t column; /* of the output's part of a pair, where this one's begin */
    uint32_t part;   /* columns of that part */
    uint32_t expert_rows, up_row, row_stride;
};

static void dispatch_dot(struct vulkan_recorder *recorder, const struct moe_task *task,
                         uint32_t pairs, struct vulkan_grid grid, const struct vulkan_touch *touch)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[task->op->inputs[0]];
    const struct vulkan_tensor *out = &program->tensors[task->out];
    bool q8 = task->choice.input == VULKAN_FORM_Q8;
    uint64_t at = out->f32 + task->column * sizeof(float);
    if (task->request.output == VULKAN_FORM_Q8)
        at = out->q8;
    else if (task->request.output == VULKAN_FORM_F16)
        at = out->f16;
    struct vulkan_moe_dot_push push = {
        .weights = vulkan_recorder_matrix(task->matrix),
        .up = vulkan_recorder_matrix(task->up),
        .x = q8 ? x->q8 : x->f32,
        .x_terms = q8 ? x->q8_terms : 0,
        .out = at,
        .out_terms = task->request.output == VULKAN_FORM_Q8 ? out->q8_terms : 0,
        .n = task->request.n,
        .k = task->request.k,
        .expert_rows = task->expert_rows,
        .up_row = task->up_row,
        .row_stride = task->row_stride,
        .out_stride = task->part,
        .chosen = task->request.chosen,
        .pairs_per_x = x->columns == task->request.k ? task->request.chosen : 1,
    };
    if (task->choice.mode == VULKAN_MOE_GROUPS)
        push.groups = program->moe_memory.address;
    else
        push.route = program->tensors[task->op->inputs[1]].f32;
    if (task->route)
        push.scores = program->tensors[task->route->inputs[0]].f32;
    else
        push.pairs = program->moe_memory.address + vulkan_moe_pairs_offset(pairs);
    vulkan_recorder_dispatch(recorder, task->choice.shader, &task->choice.constants, &push,
                             sizeof push, grid, touch);
}

static struct vulkan_moe_matrix_push matrix_push(const struct vulkan_recorder *recorder,
                                                 const struct moe_task *task, uint32_t pairs)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[task->op->inputs[0]];
    const struct vulkan_tensor *out = &program->tensors[task->out];
    bool f32 = task->request.output == VULKAN_FORM_F32;
    return (struct vulkan_moe_matrix_push){
        .weights = vulkan_recorder_matrix(task->matrix),
        .up = vulkan_recorder_matrix(task->up),
        .x = x->f16,
        .out_f32 = f32 ? out->f32 + task->column * sizeof(float) : 0,
        .out_f16 = f32 ? 0 : out->f16,
        .groups = program->moe_memory.address,
        .n = task->request.n,
        .k = task->request.k,
        .expert_rows = task->expert_rows,
        .up_row = task->up_row,
        .row_stride = task->row_stride,
        .out_stride = task->part,
        .pairs_per_x = x->columns == task->request.k ? task->request.chosen : 1,
        .pairs_offset = (uint32_t)vulkan_moe_pairs_offset(pairs),
    };
}

/* moe_matrix and moe_register. */
static void dispatch_matrix(struct vulkan_recorder *recorder, const struct moe_task *task,
                            uint32_t pairs, struct vulkan_grid grid,
                            const struct vulkan_touch *touch)
{
    const struct vulkan_moe_matrix_push push = matrix_push(recorder, task, pairs);
    vulkan_recorder_dispatch(recorder, task->choice.shader, &task->choice.constants, &push,
                             sizeof push, grid, touch);
}

static void dispatch_ptx(struct vulkan_recorder *recorder, const struct moe_task *task,
                         uint32_t pairs, struct vulkan_grid grid, const struct vulkan_touch *touch)
{
    const struct vulkan_moe_request *request = &task->request;
    struct vulkan_moe_ptx_push push = {
        .matrix = matrix_push(recorder, task, pairs),
        .epilogue = vulkan_moe_epilogue(request),
        .forms = request->output,
        .x_rows = vulkan_moe_gathered_rows(pairs, request->experts),
    };
    push.matrix.x = recorder->program->moe_memory.address + vulkan_moe_gathered_offset(pairs);
    vulkan_recorder_dispatch(recorder, task->choice.shader, &task->choice.constants, &push,
                             sizeof push, grid, touch);
}

static void dispatch_plain(struct vulkan_recorder *recorder, const struct moe_task *task,
                           uint32_t pairs, struct vulkan_grid grid,
                           const struct vulkan_touch *touch)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[task->op->inputs[0]];
    const struct vulkan_moe_linear_push push = {
        .weights = vulkan_recorder_matrix(task->matrix),
        .x = x->f32,
        .out_f32 = program->tensors[task->out].f32 + task->column * sizeof(float),
        .groups = program->moe_memory.address,
        .pairs = program->moe_memory.address + vulkan_moe_pairs_offset(pairs),
        .n = task->request.n,
        .k = task->request.k,
        .out_stride = task->part,
        .pairs_per_x = x->columns == task->request.k ? task->request.chosen : 1,
    };
    vulkan_recorder_dispatch(recorder, task->choice.shader, &task->choice.constants, &push,
                             sizeof push, grid, touch);
}

/* `follows`: not the first dispatch of the op; the earlier ones wrote other columns. */
static void dispatch_task(struct vulkan_recorder *recorder, struct moe_task *task, bool follows)
{
    static void (*const dispatches[])(struct vulkan_recorder *, const struct moe_task *, uint32_t,
                                      struct vulkan_grid, const struct vulkan_touch *) = {
        [VULKAN_MOE_PLAIN] = dispatch_plain,     [VULKAN_MOE_DOT] = dispatch_dot,
        [VULKAN_MOE_REGISTER] = dispatch_matrix, [VULKAN_MOE_MATRIX] = dispatch_matrix,
        [VULKAN_MOE_PTX] = dispatch_ptx,
    };
    const struct vulkan_moe_request *request = &task->request;
    plan_tensor_id x = task->op->inputs[0], route = task->op->inputs[1];
    uint32_t pairs = request->rows * request->chosen;
    vulkan_moe_choose(&recorder->program->device->facts, request, &task->choice);
    bool sorted = task->choice.mode == VULKAN_MOE_GROUPS;
    if (sorted && group_pairs(recorder, route, request->experts, task->choice.tile_rows))
        follows = false;
    struct vulkan_grid grid = {task->choice.across, pairs, 1};
    if (sorted)
        grid.y = vulkan_moe_tile_bound(pairs, request->experts, task->choice.tile_rows);
    else if (task->choice.mode == VULKAN_MOE_ROWS)
        grid.y = request->rows;
    if (task->choice.kernel == VULKAN_MOE_PTX && !follows)
        gather_rows(recorder, task->op, pairs, request, grid.y);
    const struct vulkan_touch touch = {
        .reads = {x,
                  sorted        ? vulkan_recorder_groups(recorder)
                  : task->route ? task->route->inputs[0]
                                : route,
                  request->add ? task->out : (plan_tensor_id)PLAN_NONE},
        .writes = {task->out, task->route ? route : (plan_tensor_id)PLAN_NONE},
        .side_by_side = follows};
    must(grid.x <= GRID_MAX && grid.y <= GRID_MAX);
    dispatches[task->choice.kernel](recorder, task, pairs, grid, &touch);
}

/* Gate and up: in two stacks, or one after the other or interleaved in one stack. */
static void record_gated(struct vulkan_recorder *recorder, uint32_t rows, bool routes)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t index = recorder->op, gate = program->notes[index].gate;
    const struct plan_op *next = &program->plan->ops[gate];
    bool one = vulkan_moe_stack_count(op) == 1, interleaved = next->params.moe_gate.interleaved;
    struct moe_task task = {.request = vulkan_moe_request_of(program, index, rows, 0),
                            .op = op,
                            .matrix = vulkan_moe_stack(program, index, 0),
                            .up = vulkan_moe_stack(program, index, one ? 0 : 1),
                            .out = next->output,
                            .expert_rows = program->plan->weights[op->weights[0]].rows,
                            .row_stride = one && interleaved ? 2 : 1};
    task.request.n = one ? task.request.n / 2 : task.request.n;
    task.request.gated = true;
    task.request.activation = next->params.moe_gate.activation;
    task.request.output = recorder->forms[gate];
    task.part = task.request.n;
    if (routes) {
        task.route = &program->plan->ops[program->notes[index].route];
        const struct moe_route_params *params = &task.route->params.moe_route;
        task.request.routes = true;
        task.request.softmax_all = is_softmax_of_all(params);
        task.request.scale = params->scale;
    }
    if (one)
        task.up_row = interleaved ? 1 : task.request.n;
    dispatch_task(recorder, &task, false);
}

void vulkan_record_moe_linear(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t rows = vulkan_recorder_rows(recorder, op->output), column = 0;
    const struct vulkan_moe_way way = vulkan_moe_way(program, recorder->op, rows);
    if (way.gate) {
        record_gated(recorder, rows, way.route);
        return;
    }
    const struct plan_op *combine =
        way.combine ? &program->plan->ops[program->notes[recorder->op].combine] : NULL;
    for (uint32_t slot = 0; slot < vulkan_moe_stack_count(op); slot++) {
        struct moe_task task = {.request = vulkan_moe_request_of(program, recorder->op, rows, slot),
                                .op = op,
                                .matrix = vulkan_moe_stack(program, recorder->op, slot),
                                .up = vulkan_moe_stack(program, recorder->op, slot),
                                .out = combine ? combine->output : op->output,
                                .column = column,
                                .expert_rows = program->plan->weights[op->weights[slot]].rows,
                                .row_stride = 1};
        task.request.combined = combine != NULL;
        task.request.add = combine && combine->params.moe_combine.add;
        task.part = program->tensors[task.out].columns / (combine ? 1 : task.request.chosen);
        dispatch_task(recorder, &task, slot > 0);
        column += task.request.n;
    }
}

void vulkan_record_moe_gate(struct vulkan_recorder *recorder)
{
    if (is_fused(recorder))
        return;
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct moe_gate_params *params = &op->params.moe_gate;
    uint32_t chosen = vulkan_moe_chosen(program, op->inputs[1]);
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
    if (push.bias) { /* the second weight follows the first */
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

void vulkan_record_moe_combine(struct vulkan_recorder *recorder)
{
    if (is_fused(recorder))
        return;
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
    };
    uint32_t count = invocations(program, INVOCATIONS), tile = COLUMNS_EACH * count;
    const struct vulkan_specialization constants = {
        .count = VULKAN_MOE_COMBINE_CONSTANTS,
        .values = {[VULKAN_ROW_INVOCATIONS] = count,
                   [VULKAN_ROW_FORMS] = forms,
                   [VULKAN_ROW_OWN] = add,
                   [VULKAN_MOE_COMBINE_CHOSEN] = vulkan_moe_chosen(program, op->inputs[1])}};
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], op->inputs[1], add ? op->output : (plan_tensor_id)PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output),
                                     (push.columns + tile - 1) / tile, 1};
    vulkan_recorder_dispatch(recorder, "moe_combine", &constants, &push, sizeof push, grid, &touch);
}
