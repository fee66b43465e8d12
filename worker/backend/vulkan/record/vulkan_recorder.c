/*
 * The walk.
 *
 * First it is decided, from the end backwards so to say, in which forms each op's output is wanted:
 * a linear op asks its producer for the form that its kernel reads at this number of rows;
 * everybody else reads f32. Then every op is dispatched, except those that a neighbour does on the
 * way.
 *
 * Hazards are tracked per tensor; the KV cache, the scratch memory and all recurrent states count
 * as three more. A barrier orders everything, so after it nothing is outstanding.
 */
#include "worker/backend/vulkan/record/vulkan_recorder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/record/vulkan_attention.h"
#include "worker/backend/vulkan/record/vulkan_linear.h"
#include "worker/backend/vulkan/record/vulkan_moe.h"
#include "worker/backend/vulkan/record/vulkan_recurrent.h"
#include "worker/backend/vulkan/record/vulkan_streams.h"
#include "worker/backend/vulkan/record/vulkan_towers.h"

#define EXTRA_TENSORS 4u /* KV cache, scratch, recurrent states, groups of experts */

/* What kernels over rows write. */
#define ROW_FORMS ((uint32_t)VULKAN_FORM_F32 | VULKAN_FORM_F16 | VULKAN_FORM_Q8 | VULKAN_FORM_TILED)

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

plan_tensor_id vulkan_recorder_kv(const struct vulkan_recorder *recorder)
{
    return (plan_tensor_id)recorder->program->plan->tensor_count;
}

plan_tensor_id vulkan_recorder_scratch(const struct vulkan_recorder *recorder)
{
    return (plan_tensor_id)(recorder->program->plan->tensor_count + 1);
}

plan_tensor_id vulkan_recorder_states(const struct vulkan_recorder *recorder)
{
    return (plan_tensor_id)(recorder->program->plan->tensor_count + 2);
}

plan_tensor_id vulkan_recorder_groups(const struct vulkan_recorder *recorder)
{
    return (plan_tensor_id)(recorder->program->plan->tensor_count + 3);
}

uint32_t vulkan_recorder_rows(const struct vulkan_recorder *recorder, plan_tensor_id tensor)
{
    const struct vulkan_shape *shape = &recorder->recording->shape;
    switch (recorder->program->tensors[tensor].rows) {
    case PLAN_ROWS_STEP: return shape->rows;
    case PLAN_ROWS_LOGITS: return shape->logit_rows;
    case PLAN_ROWS_PATCHES: return shape->patches;
    default: return shape->patch_features;
    }
}

struct vulkan_outputs_push vulkan_recorder_outputs(const struct vulkan_recorder *recorder,
                                                   plan_tensor_id id, uint32_t forms)
{
    const struct vulkan_tensor *tensor = &recorder->program->tensors[id];
    return (struct vulkan_outputs_push){
        .f32 = forms & VULKAN_FORM_F32 ? tensor->f32 : 0,
        .f16 = forms & (VULKAN_FORM_F16 | VULKAN_FORM_TILED) ? tensor->f16 : 0,
        .q8 = forms & VULKAN_FORM_Q8 ? tensor->q8 : 0,
        .q8_terms = forms & VULKAN_FORM_Q8 ? tensor->q8_terms : 0,
    };
}

struct vulkan_matrix_push vulkan_recorder_matrix(const struct vulkan_matrix *matrix)
{
    return (struct vulkan_matrix_push){matrix->codes.address, matrix->high.address,
                                       matrix->scales.address};
}

static bool conflicts(const struct vulkan_recorder *recorder, const struct vulkan_touch *touch)
{
    bool found = false;
    for (size_t i = 0; i < sizeof touch->reads / sizeof touch->reads[0]; i++)
        if (touch->reads[i] != PLAN_NONE)
            found |= recorder->was_written[touch->reads[i]];
    for (size_t i = 0; i < sizeof touch->writes / sizeof touch->writes[0]; i++)
        if (touch->writes[i] != PLAN_NONE)
            found |=
                recorder->was_written[touch->writes[i]] || recorder->was_read[touch->writes[i]];
    return found;
}

static void order(struct vulkan_recorder *recorder, const struct vulkan_touch *touch)
{
    size_t count = recorder->program->plan->tensor_count + EXTRA_TENSORS;
    if (!touch->side_by_side && conflicts(recorder, touch)) {
        if (recorder->recording->commands)
            vulkan_commands_barrier(recorder->recording->commands);
        memset(recorder->was_read, 0, count * sizeof *recorder->was_read);
        memset(recorder->was_written, 0, count * sizeof *recorder->was_written);
    }
    for (size_t i = 0; i < sizeof touch->reads / sizeof touch->reads[0]; i++)
        if (touch->reads[i] != PLAN_NONE)
            recorder->was_read[touch->reads[i]] = true;
    for (size_t i = 0; i < sizeof touch->writes / sizeof touch->writes[0]; i++)
        if (touch->writes[i] != PLAN_NONE)
            recorder->was_written[touch->writes[i]] = true;
}

/* Of each tensor once, as f32. */
static uint64_t activation_bytes(const struct vulkan_recorder *recorder,
                                 const plan_tensor_id *tensors, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (tensors[i] < recorder->program->plan->tensor_count)
            bytes += (uint64_t)vulkan_recorder_rows(recorder, tensors[i]) *
                     recorder->program->tensors[tensors[i]].columns * sizeof(float);
    return bytes;
}

static uint64_t other_bytes(const struct vulkan_recorder *recorder,
                            const struct vulkan_touch *touch)
{
    return touch->cache_bytes +
           activation_bytes(recorder, touch->reads, sizeof touch->reads / sizeof *touch->reads) +
           activation_bytes(recorder, touch->writes, sizeof touch->writes / sizeof *touch->writes);
}

void vulkan_recorder_dispatch(struct vulkan_recorder *recorder, const char *shader,
                              const struct vulkan_specialization *specialization, const void *push,
                              uint32_t push_bytes, struct vulkan_grid grid,
                              const struct vulkan_touch *touch)
{
    const struct vulkan_kernel *kernel = NULL;
    if (recorder->result != RESULT_OK)
        return;
    recorder->result = vulkan_kernels_get(recorder->program->kernels, shader, specialization,
                                          &kernel, recorder->error);
    if (recorder->result != RESULT_OK)
        return;
    if (!recorder->recording->commands)
        return;
    order(recorder, touch);
    vulkan_commands_dispatch(recorder->recording->commands, kernel, push, push_bytes, grid);
    if (recorder->recording->profile)
        vulkan_profile_mark(recorder->recording->profile, recorder->recording->commands,
                            touch->name ? touch->name : shader, touch->weight_bytes,
                            other_bytes(recorder, touch));
}

void vulkan_recorder_copy(struct vulkan_recorder *recorder, plan_tensor_id from, plan_tensor_id to)
{
    const struct vulkan_tensor *source = &recorder->program->tensors[from];
    const struct vulkan_tensor *target = &recorder->program->tensors[to];
    const struct vulkan_touch touch = {.reads = {from, PLAN_NONE, PLAN_NONE},
                                       .writes = {to, PLAN_NONE}};
    must(source->columns == target->columns);
    order(recorder, &touch);
    if (recorder->result == RESULT_OK && recorder->recording->commands)
        vulkan_commands_copy(recorder->recording->commands, source->whole.buffer,
                             source->whole.offset, target->whole.buffer, target->whole.offset,
                             (uint64_t)vulkan_recorder_rows(recorder, to) * target->columns *
                                 sizeof(float));
}

void vulkan_recorder_row_kernel(struct vulkan_recorder *recorder,
                                const struct vulkan_row_task *task, const void *push,
                                uint32_t push_bytes, const struct vulkan_touch *touch)
{
    struct vulkan_row_choice choice =
        vulkan_row_policy_choose(&recorder->program->device->facts, task);
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, push, push_bytes,
                             choice.grid, touch);
}

/* The first table is the vocabulary's, and knows every token. */
static bool is_first_embedding(const struct vulkan_recorder *recorder)
{
    for (uint32_t i = 0; i < recorder->op; i++)
        if (recorder->program->plan->ops[i].stem == OP_embed_rows)
            return false;
    return true;
}

static void record_embed_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_recording *recording = recorder->recording;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_matrix *matrix =
        &program->weights.matrices[program->weights.by_op[recorder->op].index[0]];
    uint32_t forms = recorder->forms[recorder->op];
    bool features = op->params.embed_rows.features;
    const struct vulkan_embed_rows_push push = {
        .weights = vulkan_recorder_matrix(matrix),
        .rows = recording->batch->rows_address,
        .sampled = recording->drawn_before,
        .sequences = recording->batch->sequences_address,
        .tables = recording->batch->tables.address,
        .history = is_first_embedding(recorder) ? program->history.address : 0,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = matrix->columns,
        .vocab_tokens = matrix->rows,
        .scale = op->params.embed_rows.scale,
        .feature_columns =
            features ? program->feature_columns : op->params.embed_rows.picture_token,
        .sights = recording->shape.features ? recording->batch->sights_address : 0,
        .features = features ? program->features_address : 0,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_EMBED,
                                         vulkan_recorder_rows(recorder, op->output),
                                         matrix->columns, forms, matrix->kind};
    const struct vulkan_touch touch = {.reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_rms_norm(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t partner = program->notes[recorder->op].partner;
    uint32_t rows = vulkan_recorder_rows(recorder, op->output);
    if (partner != VULKAN_NO_OP && vulkan_linear_way(program, partner, rows).norm)
        return; /* the linear op does it */
    uint32_t columns = program->tensors[op->output].columns;
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_rms_norm_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = columns,
        .epsilon = op->params.rms_norm.epsilon,
        .weight_offset = op->params.rms_norm.weight_offset,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_NORM, rows, columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_layer_norm(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_layer_norm_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .epsilon = op->params.layer_norm.epsilon,
        .weight_offset = op->params.layer_norm.weight_offset,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_LAYER_NORM, vulkan_recorder_rows(recorder, op->output), push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_rms_norm_add(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t columns = program->tensors[op->output].columns;
    if (op->inputs[1] != op->output)
        vulkan_recorder_copy(recorder, op->inputs[1], op->output); /* the kernel adds in place */
    const struct vulkan_rms_norm_add_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->output].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .columns = columns,
        .epsilon = op->params.rms_norm_add.epsilon,
        .weight_offset = op->params.rms_norm_add.weight_offset,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_NORM_ADD,
                                         vulkan_recorder_rows(recorder, op->output), columns,
                                         VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->output, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_gate(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t partner = program->notes[recorder->op].partner;
    uint32_t rows = vulkan_recorder_rows(recorder, op->output);
    if (partner != VULKAN_NO_OP && vulkan_linear_way(program, partner, rows).gate)
        return; /* the linear op does it */
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_gate_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .out_columns = program->tensors[op->output].columns,
        .columns = program->plan->tensors[op->output].columns,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_GATE, rows, push.out_columns, forms,
                                         op->params.gate.activation};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* `lay`: the biases alone, whatever x is. */
static void dispatch_bias(struct vulkan_recorder *recorder, uint32_t index, bool lay,
                          uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    const struct vulkan_bias_add_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .bias = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_BIAS_ADD, vulkan_recorder_rows(recorder, op->output), push.columns, forms, lay};
    const struct vulkan_touch touch = {
        .reads = {lay ? PLAN_NONE : op->inputs[0], PLAN_NONE, PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_recorder_lay_bias(struct vulkan_recorder *recorder, uint32_t index)
{
    dispatch_bias(recorder, index, true, VULKAN_FORM_F32);
}

static void record_bias_add(struct vulkan_recorder *recorder)
{
    if (recorder->program->notes[recorder->op].partner == VULKAN_NO_OP)
        dispatch_bias(recorder, recorder->op, false, recorder->forms[recorder->op]);
}

static void record_position_scale(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    const struct position_scale_params *params = &op->params.position_scale;
    const struct vulkan_tensor *x = &recorder->program->tensors[op->output];
    const struct vulkan_position_scale_push push = {
        .x = x->f32,
        .rows = recorder->recording->batch->rows_address,
        .stride = x->columns,
        .offset = params->slice.offset,
        .columns = params->slice.heads * params->slice.head_dim,
        .period_tokens = params->period_tokens,
        .beta = params->beta,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_POSITION_SCALE,
                                         vulkan_recorder_rows(recorder, op->output), push.columns,
                                         VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_gather_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    if (op->output == PLAN_NONE)
        return; /* the whole tensor is wanted, and used as it is */
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_gather_rows_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .logit_rows = recorder->recording->batch->logit_rows_address,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_GATHER, vulkan_recorder_rows(recorder, op->output), push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_soft_cap(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_soft_cap_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .scale = op->params.soft_cap.scale,
        .cap = op->params.soft_cap.cap,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_SOFT_CAP, vulkan_recorder_rows(recorder, op->output), push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_gate_with(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_gate_with_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->inputs[1]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .y_stride = program->tensors[op->inputs[1]].columns,
        .y_offset = op->params.gate_with.offset,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_GATE_WITH,
                                         vulkan_recorder_rows(recorder, op->output), push.columns,
                                         forms, op->params.gate_with.activation};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_add_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_add_rows_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .y = program->tensors[op->inputs[1]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .scale = op->params.add_rows.scale,
    };
    const struct vulkan_row_task task = {VULKAN_ROW_ADD, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_scale_columns(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_scale_columns_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
        .weight_columns = program->plan->weights[op->weights[0]].columns,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_SCALE, vulkan_recorder_rows(recorder, op->output), push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

bool vulkan_recorder_tiled(const struct vulkan_recorder *recorder, uint32_t producer)
{
    return producer != VULKAN_NO_OP &&
           ((recorder->forms[producer] | recorder->missing_forms[producer]) & VULKAN_FORM_TILED) !=
               0;
}

static uint32_t gate_forms(const struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t partner = program->notes[index].partner;
    uint32_t rows = vulkan_recorder_rows(recorder, program->plan->ops[index].output);
    bool fused = partner != VULKAN_NO_OP && vulkan_linear_way(program, partner, rows).gate;
    return fused && !vulkan_linear_gates_tiled(program, partner, rows)
               ? ROW_FORMS & ~(uint32_t)VULKAN_FORM_TILED
               : ROW_FORMS;
}

/* The forms that the op's own kernels write; the others are made of f32 behind them. */
static uint32_t own_forms(const struct vulkan_recorder *recorder, uint32_t index)
{
    switch (recorder->program->plan->ops[index].stem) {
    case OP_embed_rows:
    case OP_rms_norm:
    case OP_layer_norm:
    case OP_gather_rows:
    case OP_bias_add:
    case OP_short_conv:
    case OP_head_norm_gate:
    case OP_take_queries:
    case OP_gate_heads:
    case OP_soft_cap:
    case OP_gate_with:
    case OP_add_rows:
    case OP_scale_columns:
    case OP_patch_rows:
    case OP_activate:
    case OP_join_rows:
    case OP_pool_rows: return ROW_FORMS;
    case OP_gate: return gate_forms(recorder, index);
    case OP_attention:
    case OP_patch_attention: return vulkan_attention_forms(recorder->program, index);
    case OP_moe_gate:
        return vulkan_moe_gate_forms(
            recorder->program, index,
            vulkan_recorder_rows(recorder, recorder->program->plan->ops[index].output),
            recorder->forms[index]);
    default: return VULKAN_FORM_F32;
    }
}

/* soft_cap that neither scales nor caps: a copy, in the forms that are missing. */
static void record_missing_forms(struct vulkan_recorder *recorder)
{
    const struct plan_op *op = op_of(recorder);
    uint32_t missing = recorder->missing_forms[recorder->op];
    if (missing == 0)
        return;
    const struct vulkan_tensor *tensor = &recorder->program->tensors[op->output];
    const struct vulkan_soft_cap_push push = {
        .x = tensor->f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, missing),
        .columns = tensor->columns,
        .scale = 1.0f,
    };
    const struct vulkan_row_task task = {
        VULKAN_ROW_SOFT_CAP, vulkan_recorder_rows(recorder, op->output), push.columns, missing, 0};
    const struct vulkan_touch touch = {.reads = {op->output, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static void record_linear(struct vulkan_recorder *recorder)
{
    uint32_t gate = recorder->program->notes[recorder->op].gate;
    vulkan_linear_record(recorder, recorder->op, gate == VULKAN_NO_OP ? 0 : recorder->forms[gate]);
    vulkan_attention_record_ahead(recorder, recorder->op);
}

static void record_heads(struct vulkan_recorder *recorder)
{
    vulkan_attention_record_heads(recorder, recorder->op);
}

static void record_attention(struct vulkan_recorder *recorder)
{
    vulkan_attention_record(recorder, recorder->op, recorder->forms[recorder->op]);
}

static void record_short_conv(struct vulkan_recorder *recorder)
{
    vulkan_recurrent_record_short_conv(recorder, recorder->forms[recorder->op]);
}

static void record_head_norm_gate(struct vulkan_recorder *recorder)
{
    vulkan_recurrent_record_head_norm_gate(recorder, recorder->forms[recorder->op]);
}

static void record_take_queries(struct vulkan_recorder *recorder)
{
    vulkan_recurrent_record_take_queries(recorder, recorder->forms[recorder->op]);
}

static void record_gate_heads(struct vulkan_recorder *recorder)
{
    vulkan_recurrent_record_gate_heads(recorder, recorder->forms[recorder->op]);
}

static void (*const record_functions[OP_STEM_COUNT])(struct vulkan_recorder *) = {
    [OP_embed_rows] = record_embed_rows,
    [OP_rms_norm] = record_rms_norm,
    [OP_layer_norm] = record_layer_norm,
    [OP_rms_norm_add] = record_rms_norm_add,
    [OP_head_norm] = record_heads,
    [OP_rope] = record_heads,
    [OP_linear] = record_linear,
    [OP_linear_add] = record_linear,
    [OP_kv_write] = record_heads,
    [OP_attention] = record_attention,
    [OP_gate] = record_gate,
    [OP_gather_rows] = record_gather_rows,
    [OP_bias_add] = record_bias_add,
    [OP_short_conv] = record_short_conv,
    [OP_gated_delta] = vulkan_recurrent_record_gated_delta,
    [OP_head_norm_gate] = record_head_norm_gate,
    [OP_take_queries] = record_take_queries,
    [OP_gate_heads] = record_gate_heads,
    [OP_position_scale] = record_position_scale,
    [OP_soft_cap] = record_soft_cap,
    [OP_gate_with] = record_gate_with,
    [OP_add_rows] = record_add_rows,
    [OP_scale_columns] = record_scale_columns,
    [OP_stream_take] = vulkan_streams_record,
    [OP_stream_mix] = vulkan_streams_record,
    [OP_stream_correct] = vulkan_streams_record,
    [OP_stream_add] = vulkan_streams_record,
    [OP_stream_match] = vulkan_streams_record,
    [OP_stream_cut] = vulkan_streams_record,
    [OP_moe_route] = vulkan_moe_record_route,
    [OP_moe_linear] = vulkan_moe_record_linear,
    [OP_moe_gate] = vulkan_moe_record_gate,
    [OP_moe_combine] = vulkan_moe_record_combine,
    [OP_moe_shared] = vulkan_streams_record,
    [OP_patch_rows] = vulkan_towers_record_patch_rows,
    [OP_patch_positions] = vulkan_towers_record_patch_positions,
    [OP_patch_attention] = record_attention,
    [OP_activate] = vulkan_towers_record_activate,
    [OP_clip_columns] = vulkan_towers_record_clip_columns,
    [OP_join_rows] = vulkan_towers_record_join_rows,
    [OP_pool_rows] = vulkan_towers_record_pool_rows,
    [OP_feature_write] = vulkan_towers_record_feature_write,
    [OP_feature_add] = vulkan_towers_record_feature_add,
};

/* What each op's readers want of it at this shape. */
static void choose_forms(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan *plan = program->plan;
    for (uint32_t i = 0; i < plan->op_count; i++)
        recorder->forms[i] = program->notes[i].read_as_f32 ? VULKAN_FORM_F32 : 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t producer = program->notes[i].producer;
        if (producer == VULKAN_NO_OP)
            continue;
        uint32_t rows = vulkan_recorder_rows(recorder, plan->ops[i].inputs[0]);
        bool experts = plan->ops[i].stem == OP_moe_linear;
        recorder->forms[producer] |= (uint8_t)(experts ? vulkan_moe_way(program, i, rows).input
                                                       : vulkan_linear_way(program, i, rows).input);
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t own = own_forms(recorder, i);
        uint32_t wanted = recorder->forms[i];
        /* Who likes tiles best reads f16 too, for the sake of others or of the op. */
        if ((wanted & VULKAN_FORM_TILED) != 0 &&
            ((wanted & VULKAN_FORM_F16) != 0 ||
             (own & (VULKAN_FORM_F16 | VULKAN_FORM_TILED)) == VULKAN_FORM_F16))
            recorder->forms[i] =
                (uint8_t)((wanted & ~(uint32_t)VULKAN_FORM_TILED) | VULKAN_FORM_F16);
        uint32_t missing = recorder->forms[i] & ~own;
        if (missing == 0)
            continue;
        recorder->forms[i] = (uint8_t)((recorder->forms[i] & ~missing) | VULKAN_FORM_F32);
        recorder->missing_forms[i] = (uint8_t)missing;
    }
}

enum result vulkan_recorder_run(const struct vulkan_recording *recording, struct error_text *error)
{
    const struct plan *plan = recording->program->plan;
    struct vulkan_recorder recorder = {
        .recording = recording, .program = recording->program, .error = error};
    recorder.grouped = PLAN_NONE;
    recorder.forms = must_alloc(plan->op_count, sizeof *recorder.forms);
    recorder.missing_forms = must_alloc(plan->op_count, sizeof *recorder.missing_forms);
    recorder.was_read = must_alloc(plan->tensor_count + EXTRA_TENSORS, sizeof(bool));
    recorder.was_written = must_alloc(plan->tensor_count + EXTRA_TENSORS, sizeof(bool));
    choose_forms(&recorder);
    if (recording->commands)
        vulkan_commands_barrier(recording->commands); /* behind the step before */
    uint32_t end_op = recording->end_op > 0 ? recording->end_op : plan->op_count;
    for (recorder.op = recording->first_op; recorder.op < end_op && recorder.result == RESULT_OK;
         recorder.op++) {
        plan_tensor_id output = plan->ops[recorder.op].output;
        if (recording->shape.logit_rows == 0 && output != PLAN_NONE &&
            plan->tensors[output].rows == PLAN_ROWS_LOGITS)
            continue; /* nothing is to be drawn */
        record_functions[plan->ops[recorder.op].stem](&recorder);
        record_missing_forms(&recorder);
    }
    if (recording->commands)
        vulkan_commands_barrier(recording->commands);
    free(recorder.forms);
    free(recorder.missing_forms);
    free(recorder.was_read);
    free(recorder.was_written);
    return recorder.result;
}
