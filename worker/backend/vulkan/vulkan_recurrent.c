/*
 * Recurrent layers.
 *
 * Each layer has a region of its own, f32 [slots][floats of a layer], so that no allocation needs
 * to hold all layers. What a region holds at first does not matter: a sequence that begins reads
 * zeros in its place.
 *
 * Steps take effect in order because each begins with a barrier; within a step, the ops of a layer
 * that touch its states are ordered as any other hazard is, all states counting as one tensor.
 */
#include "worker/backend/vulkan/vulkan_recurrent.h"

#include "proto/must.h"
#include "worker/backend/vulkan/vulkan_row_policy.h"

enum result vulkan_recurrent_place(struct vulkan_program *program, uint32_t slots,
                                   struct error_text *error)
{
    const struct state_layout *layout = &program->plan->state;
    uint64_t bytes = slots * state_layout_layer_floats(layout) * sizeof(float);
    uint64_t padded = (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    program->states = must_alloc(layout->layers + 1u, sizeof *program->states);
    program->state_memory = vulkan_arena_create(program->device, layout->layers * padded, false);
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        struct vulkan_piece piece;
        enum result result =
            vulkan_arena_take(program->state_memory, bytes, "recurrent state", &piece, error);
        if (result != RESULT_OK)
            return result;
        program->states[layer] = piece.address;
    }
    return RESULT_OK;
}

static uint64_t layer_states(const struct vulkan_program *program, uint32_t layer)
{
    uint32_t index = program->plan->state.layer_index[layer];
    must(index < program->plan->state.layers);
    return program->states[index];
}

void vulkan_recurrent_record_short_conv(struct vulkan_recorder *recorder, uint32_t forms)
{
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
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .stride = program->tensors[op->inputs[0]].columns,
        .columns = program->tensors[op->output].columns,
        .taps = program->plan->weights[op->weights[0]].columns,
        .slot_floats = (uint32_t)state_layout_layer_floats(&program->plan->state),
    };
    uint32_t form = op->params.short_conv.form == SHORT_CONV_GATED ? VULKAN_SHORT_CONV_GATED : 0;
    bool at_once = shape->rows == shape->sequences;
    struct vulkan_row_task task = {VULKAN_ROW_SHORT_CONV, shape->rows, push.columns, forms,
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
