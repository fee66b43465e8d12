/*
 * Each op is one dispatch of a kernel over one row, except those that an adjacent linear op
 * computes.
 */
#include "worker/backend/vulkan/record/vulkan_row_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/record/vulkan_ops.h"

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

/* The first table is the vocabulary's, which has every token. */
static bool is_first_embedding(const struct vulkan_recorder *recorder)
{
    for (uint32_t i = 0; i < recorder->op; i++)
        if (recorder->program->plan->ops[i].stem == OP_embed_rows)
            return false;
    return true;
}

struct vulkan_embed_places_push {
    struct vulkan_matrix_push weights;  /*  0: [places, columns] */
    uint64_t rows;                      /* 24: struct vulkan_step_row */
    uint64_t sights;                    /* 32: struct vulkan_step_sight */
    struct vulkan_outputs_push outputs; /* 40 */
    uint32_t columns;                   /* 72 */
    uint32_t places;                    /* 76 */
    uint32_t offset;                    /* 80 */
    float scale;                        /* 84 */
};
static_assert(sizeof(struct vulkan_embed_places_push) == 88, "byte map");

/* An embed_rows op by position or segment. */
static void record_places(struct vulkan_recorder *recorder, const struct plan_op *op)
{
    const struct vulkan_program *program = recorder->program;
    const struct embed_rows_params *params = &op->params.embed_rows;
    const struct vulkan_matrix *matrix =
        &program->weights.matrices[program->weights.by_op[recorder->op].index[0]];
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_embed_places_push push = {
        .weights = vulkan_recorder_matrix(matrix),
        .rows = recorder->recording->batch->rows_address,
        .sights = recorder->recording->batch->sights_address,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = matrix->columns,
        .places = matrix->rows,
        .offset = params->offset,
        .scale = params->scale,
    };
    const struct vulkan_row_task task = {OP_embed_rows, vulkan_recorder_rows(recorder, op->output),
                                         matrix->columns, forms, matrix->kind};
    const struct vulkan_touch touch = {.reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    struct vulkan_row_choice choice = vulkan_row_policy_choose(&program->device->facts, &task);
    must(params->index != INDEX_SEGMENT || program->sees);
    choice.specialization.values[choice.specialization.count++] = params->index == INDEX_SEGMENT;
    vulkan_recorder_dispatch(recorder, "embed_places", &choice.specialization, &push, sizeof push,
                             choice.grid, &touch);
}

void vulkan_record_embed_rows(struct vulkan_recorder *recorder)
{
    if (op_of(recorder)->params.embed_rows.index != INDEX_TOKEN) {
        record_places(recorder, op_of(recorder));
        return;
    }
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_recording *recording = recorder->recording;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_matrix *matrix =
        &program->weights.matrices[program->weights.by_op[recorder->op].index[0]];
    uint32_t forms = recorder->forms[recorder->op];
    bool features = op->params.embed_rows.features;
    struct vulkan_embed_rows_push push = {
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
        .sights = recording->shape.features ? recording->batch->sights_address : 0,
    };
    if (features) {
        push.features = program->features_address;
        push.feature_columns = program->feature_columns;
    } else {
        push.image_token = op->params.embed_rows.image_token;
    }
    const struct vulkan_row_task task = {OP_embed_rows, vulkan_recorder_rows(recorder, op->output),
                                         matrix->columns, forms, matrix->kind};
    const struct vulkan_touch touch = {.reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_rms_norm(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_rms_norm, rows, columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_layer_norm(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_layer_norm, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_rms_norm_add(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {
        OP_rms_norm_add, vulkan_recorder_rows(recorder, op->output), columns, VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->output, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_gate(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_gate, rows, push.out_columns, forms,
                                         op->params.gate.activation};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* Only this op uses these, so they are not in vulkan_push.h. */
struct vulkan_position_scale_push {
    uint64_t x;             /*  0: f32 [rows, stride], in place */
    uint64_t rows;          /*  8: struct vulkan_step_row */
    uint32_t stride;        /* 16 */
    uint32_t offset;        /* 20: first column that is scaled */
    uint32_t columns;       /* 24: that are */
    uint32_t period_tokens; /* 28 */
    float beta;             /* 32 */
    uint32_t unused;        /* 36 */
};
static_assert(sizeof(struct vulkan_position_scale_push) == 40, "byte map");

void vulkan_record_position_scale(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_position_scale,
                                         vulkan_recorder_rows(recorder, op->output), push.columns,
                                         VULKAN_FORM_F32, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_gather_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    if (op->output == PLAN_NONE)
        return; /* the whole tensor is used instead */
    uint32_t forms = recorder->forms[recorder->op];
    const struct vulkan_gather_rows_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .logit_rows = recorder->recording->batch->logit_rows_address,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
    };
    const struct vulkan_row_task task = {OP_gather_rows, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_soft_cap(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_soft_cap, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_gate_with(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_gate_with, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, op->params.gate_with.activation};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_add_rows(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_add_rows, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_scale_columns(struct vulkan_recorder *recorder)
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
        OP_scale_columns, vulkan_recorder_rows(recorder, op->output), push.columns, forms, 0};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* soft_cap with scale 1 and no cap: a copy, in the missing forms. */
void vulkan_row_ops_record_missing_forms(struct vulkan_recorder *recorder)
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
    const struct vulkan_row_task task = {OP_soft_cap, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, missing, 0};
    const struct vulkan_touch touch = {.reads = {op->output, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}
