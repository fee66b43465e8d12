/*
 * Each step begins with a barrier, so steps take effect in order. Within a step the ops that touch
 * states are ordered like any other hazard; all states count as one tensor. Places of deferred rows
 * need no order within a step, because no place is both read and written in one.
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

#define DELTA_SUBGROUPS   4u   /* of a workgroup: each has one column of a matrix */
#define GROUP_INVOCATIONS 256u /* of a workgroup: it has one group of columns of a row */

static uint64_t layer_states(const struct vulkan_program *program, uint32_t layer)
{
    uint32_t index = program->plan->state.layer_index[layer];
    must(index < program->plan->state.layers);
    return program->states[index].address;
}

/* Places of deferred rows of the layer; 0 if the program has none. */
static uint64_t layer_places(const struct vulkan_program *program, uint32_t layer)
{
    const struct state_layout *layout = &program->plan->state;
    uint64_t floats = (uint64_t)layout->conv_row_floats + layout->delta_row_floats;
    if (program->deferred_places == 0)
        return 0;
    return program->deferred.address +
           layout->layer_index[layer] * program->deferred_places * floats * sizeof(float);
}

static uint32_t place_floats(const struct vulkan_program *program)
{
    return program->plan->state.conv_row_floats + program->plan->state.delta_row_floats;
}

void vulkan_record_short_conv(struct vulkan_recorder *recorder)
{
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct vulkan_shape *shape = &recorder->recording->shape;
    plan_tensor_id states = vulkan_recorder_states(recorder);
    const struct vulkan_short_conv_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .state = layer_states(program, op->params.short_conv.layer),
        .rows = batch->rows_address,
        .sequences = batch->sequences_address,
        .moves = batch->moves_address,
        .deferred = layer_places(program, op->params.short_conv.layer),
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .stride = program->tensors[op->inputs[0]].columns,
        .columns = program->tensors[op->output].columns,
        .taps = program->plan->weights[op->weights[0]].columns,
        .slot_floats = (uint32_t)state_layout_layer_floats(&program->plan->state),
        .place_floats = place_floats(program),
        .offset = op->params.short_conv.offset,
    };
    uint32_t form =
        (op->params.short_conv.form == SHORT_CONV_GATED ? VULKAN_SHORT_CONV_GATED : 0u) |
        (op->weights[1] != PLAN_NONE ? VULKAN_SHORT_CONV_BIASED : 0u);
    bool at_once = shape->rows == shape->sequences && !program->device->facts.batch_invariant;
    struct vulkan_row_task task = {OP_short_conv, shape->rows, push.columns, forms,
                                   form | VULKAN_SHORT_CONV_ROWS |
                                       (at_once ? VULKAN_SHORT_CONV_MOVE : 0)};
    const struct vulkan_touch rows = {.reads = {op->inputs[0], states, PLAN_NONE},
                                      .writes = {op->output, at_once ? states : PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &rows);
    if (at_once)
        return;
    task.rows = shape->sequences;
    task.forms = VULKAN_FORM_F32;
    task.own = form | VULKAN_SHORT_CONV_MOVE;
    const struct vulkan_touch move = {.reads = {op->inputs[0], states, PLAN_NONE},
                                      .writes = {states, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &move);
}

/* Subgroups of a workgroup of a kernel whose subgroups have one column of a matrix each. */
static uint32_t matrix_subgroups(const struct vulkan_recorder *recorder)
{
    const struct vulkan_facts *facts = &recorder->program->device->facts;
    uint32_t subgroups = DELTA_SUBGROUPS;
    while (subgroups > 1 && subgroups * facts->subgroup_size > facts->max_invocations)
        subgroups /= 2;
    return subgroups;
}

static struct vulkan_state_matrix_push matrix_push(const struct vulkan_recorder *recorder,
                                                   uint32_t layer)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct vulkan_batch *batch = recorder->recording->batch;
    return (struct vulkan_state_matrix_push){
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->inputs[1]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .state = layer_states(program, layer),
        .sequences = batch->sequences_address,
        .moves = batch->moves_address,
        .deferred = layer_places(program, layer),
        .out_f32 = program->tensors[op->output].f32,
        .slot_floats = (uint32_t)state_layout_layer_floats(&program->plan->state),
        .slot_offset = program->plan->state.conv_floats,
        .place_floats = place_floats(program),
        .place_offset = program->plan->state.conv_row_floats,
    };
}

/* A subgroup for each of the matrices' columns and each sequence. */
static void dispatch_matrices(struct vulkan_recorder *recorder, const char *kernel,
                              const struct vulkan_specialization *specialization, const void *push,
                              uint32_t push_bytes)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    uint32_t subgroups = matrix_subgroups(recorder);
    const struct vulkan_grid grid = {(program->tensors[op->output].columns + subgroups - 1) /
                                         subgroups,
                                     recorder->recording->shape.sequences, 1};
    plan_tensor_id states = vulkan_recorder_states(recorder);
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], states},
                                       .writes = {op->output, states}};
    vulkan_recorder_dispatch(recorder, kernel, specialization, push, push_bytes, grid, &touch);
}

void vulkan_record_gated_delta(struct vulkan_recorder *recorder)
{
    const struct gated_delta_params *p =
        &recorder->program->plan->ops[recorder->op].params.gated_delta;
    const struct vulkan_state_matrix_push push = matrix_push(recorder, p->layer);
    uint32_t lanes = recorder->program->device->facts.subgroup_size;
    const struct vulkan_specialization specialization = {
        .count = VULKAN_GATED_DELTA_CONSTANTS,
        .values = {[VULKAN_GATED_DELTA_INVOCATIONS] = matrix_subgroups(recorder) * lanes,
                   [VULKAN_GATED_DELTA_KEY_DIM] = p->key_dim,
                   [VULKAN_GATED_DELTA_VALUE_DIM] = p->value_dim,
                   [VULKAN_GATED_DELTA_KEY_HEADS] = p->key_heads,
                   [VULKAN_GATED_DELTA_VALUE_HEADS] = p->value_heads,
                   [VULKAN_GATED_DELTA_OWN] =
                       (p->heads_alternate ? VULKAN_GATED_DELTA_TAKE_TURNS : 0u) |
                       (p->rate_is_log ? VULKAN_GATED_DELTA_LOG_RATE : 0u),
                   [VULKAN_GATED_DELTA_LANES] = lanes}};
    dispatch_matrices(recorder, "gated_delta", &specialization, &push, sizeof push);
}

void vulkan_record_ssm_scan(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct ssm_scan_params *p = &op->params.ssm_scan;
    const struct vulkan_ssm_scan_push push = {
        .matrix = matrix_push(recorder, p->layer),
        .y_stride = program->tensors[op->inputs[1]].columns,
        .y_offset = p->steps_offset,
        .least_step = p->least_step,
        .most_step = p->most_step,
    };
    uint32_t lanes = program->device->facts.subgroup_size;
    const struct vulkan_specialization specialization = {
        .count = VULKAN_SSM_SCAN_CONSTANTS,
        .values = {[VULKAN_SSM_SCAN_INVOCATIONS] = matrix_subgroups(recorder) * lanes,
                   [VULKAN_SSM_SCAN_HEAD_DIM] = p->head_dim,
                   [VULKAN_SSM_SCAN_STATE] = p->state,
                   [VULKAN_SSM_SCAN_HEADS] = p->heads,
                   [VULKAN_SSM_SCAN_GROUPS] = p->groups,
                   [VULKAN_SSM_SCAN_OWN] = p->rate_is_log ? 1u : 0u,
                   [VULKAN_SSM_SCAN_LANES] = lanes}};
    dispatch_matrices(recorder, "ssm_scan", &specialization, &push, sizeof push);
}

void vulkan_record_group_norm_gate(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct group_norm_gate_params *p = &op->params.group_norm_gate;
    bool norms = op->weights[0] != PLAN_NONE;
    uint32_t invocations = program->device->facts.max_invocations;
    const struct vulkan_group_norm_gate_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .gates = program->tensors[op->inputs[1]].f32,
        .weights = norms ? program->weights.vector_address[op->weights[0]] : 0,
        .out_f32 = program->tensors[op->output].f32,
        .columns = program->tensors[op->output].columns,
        .gate_stride = program->tensors[op->inputs[1]].columns,
        .gate_offset = p->gates.offset,
        .wide = p->gates.head_dim,
        .epsilon = p->epsilon,
    };
    const struct vulkan_specialization specialization = {
        .count = VULKAN_GROUP_NORM_GATE_CONSTANTS,
        .values = {[VULKAN_GROUP_NORM_GATE_INVOCATIONS] =
                       invocations < GROUP_INVOCATIONS ? invocations : GROUP_INVOCATIONS,
                   [VULKAN_GROUP_NORM_GATE_OWN] =
                       (norms ? VULKAN_GROUP_NORM_GATE_NORMS : 0u) |
                       (p->norm_first ? VULKAN_GROUP_NORM_GATE_NORM_FIRST : 0u)}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output), p->gates.heads, 1};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_dispatch(recorder, "group_norm_gate", &specialization, &push, sizeof push, grid,
                             &touch);
}

static_assert(VULKAN_SCALE_PARTS == SCALE_PARTS_MAX, "one table");

void vulkan_record_scale_parts(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct scale_parts_params *p = &op->params.scale_parts;
    struct vulkan_scale_parts_push push = {.x = program->tensors[op->output].f32,
                                           .columns = program->tensors[op->output].columns,
                                           .count = p->count};
    uint32_t end = 0;
    for (uint32_t part = 0; part < p->count; part++) {
        push.ends[part] = end += p->columns[part];
        push.scales[part] = p->scales[part];
    }
    const struct vulkan_row_task task = {OP_scale_parts, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* A kernel over one row of the op's output, with all its inputs. */
static void record_rows(struct vulkan_recorder *recorder, enum op_stem stem, uint32_t forms,
                        const void *push, uint32_t push_bytes)
{
    const struct plan_op *op = &recorder->program->plan->ops[recorder->op];
    const struct vulkan_row_task task = {stem, vulkan_recorder_rows(recorder, op->output),
                                         recorder->program->tensors[op->output].columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, push, push_bytes, &touch);
}

void vulkan_record_head_norm_gate(struct vulkan_recorder *recorder)
{
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct head_norm_gate_params *params = &op->params.head_norm_gate;
    const struct vulkan_head_norm_gate_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .gates = program->tensors[op->inputs[1]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .gate_stride = program->tensors[op->inputs[1]].columns,
        .gate_offset = params->gates.offset,
        .head_dim = params->gates.head_dim,
        .epsilon = params->epsilon,
    };
    record_rows(recorder, OP_head_norm_gate, forms, &push, sizeof push);
}

void vulkan_record_take_queries(struct vulkan_recorder *recorder)
{
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct take_queries_params *params = &op->params.take_queries;
    const struct vulkan_take_queries_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .queries = params->heads * params->head_dim,
        .head_dim = params->head_dim,
    };
    record_rows(recorder, OP_take_queries, forms, &push, sizeof push);
}

void vulkan_record_gate_heads(struct vulkan_recorder *recorder)
{
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct vulkan_gate_heads_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->inputs[1]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .stride = program->tensors[op->inputs[0]].columns,
        .head_dim = op->params.gate_heads.head_dim,
    };
    record_rows(recorder, OP_gate_heads, forms, &push, sizeof push);
}
