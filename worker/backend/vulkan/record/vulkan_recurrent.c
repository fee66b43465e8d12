/*
 * Each step begins with a barrier, so steps take effect in order. Within a step the ops that touch
 * states are ordered like any other hazard; all states count as one tensor. Places of deferred rows
 * need no order within a step, because no place is both read and written in one.
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"

#define DELTA_SUBGROUPS 4u /* of a workgroup: each has one column of a matrix */

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
    };
    uint32_t form = op->params.short_conv.form == SHORT_CONV_GATED ? VULKAN_SHORT_CONV_GATED : 0;
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

void vulkan_record_gated_delta(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct gated_delta_params *p = &op->params.gated_delta;
    const struct vulkan_batch *batch = recorder->recording->batch;
    uint32_t lanes = program->device->facts.subgroup_size;
    uint32_t subgroups = DELTA_SUBGROUPS;
    while (subgroups > 1 && subgroups * lanes > program->device->facts.max_invocations)
        subgroups /= 2;
    const struct vulkan_gated_delta_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->inputs[1]].f32,
        .rates = program->weights.vector_address[op->weights[0]],
        .state = layer_states(program, p->layer),
        .sequences = batch->sequences_address,
        .moves = batch->moves_address,
        .deferred = layer_places(program, p->layer),
        .out_f32 = program->tensors[op->output].f32,
        .slot_floats = (uint32_t)state_layout_layer_floats(&program->plan->state),
        .slot_offset = program->plan->state.conv_floats,
        .place_floats = place_floats(program),
        .place_offset = program->plan->state.conv_row_floats,
    };
    const struct vulkan_specialization specialization = {
        .count = VULKAN_GATED_DELTA_CONSTANTS,
        .values = {[VULKAN_GATED_DELTA_INVOCATIONS] = subgroups * lanes,
                   [VULKAN_GATED_DELTA_KEY_DIM] = p->key_dim,
                   [VULKAN_GATED_DELTA_VALUE_DIM] = p->value_dim,
                   [VULKAN_GATED_DELTA_KEY_HEADS] = p->key_heads,
                   [VULKAN_GATED_DELTA_VALUE_HEADS] = p->value_heads,
                   [VULKAN_GATED_DELTA_OWN] =
                       (p->heads_alternate ? VULKAN_GATED_DELTA_TAKE_TURNS : 0u) |
                       (p->rate_is_log ? VULKAN_GATED_DELTA_LOG_RATE : 0u),
                   [VULKAN_GATED_DELTA_LANES] = lanes}};
    uint32_t columns = p->value_heads * p->value_dim;
    const struct vulkan_grid grid = {(columns + subgroups - 1) / subgroups,
                                     recorder->recording->shape.sequences, 1};
    plan_tensor_id states = vulkan_recorder_states(recorder);
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], states},
                                       .writes = {op->output, states}};
    vulkan_recorder_dispatch(recorder, "gated_delta", &specialization, &push, sizeof push, grid,
                             &touch);
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
