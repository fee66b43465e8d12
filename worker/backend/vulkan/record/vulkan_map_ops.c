/*
 * Ops of towers that look at the rows around a row: convolutions over maps, attention to near rows, norms of a line by those
 * before it; and norms of parts of a row, which maps have. embed_over, of texts whose towers have these.
 */
#include "worker/backend/vulkan/device/vulkan_vision_push.h"
#include "worker/backend/vulkan/record/vulkan_ops.h"

#define NEAR_INVOCATIONS 64u
#define COLUMNS_EACH     4u /* of an invocation in kernels over one row */

static void record_convolution(struct vulkan_recorder *recorder,
                               const struct conv_2d_params *params)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct model_vision *vision = &program->plan->vision;
    const struct vulkan_map_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out = program->tensors[op->output].f32,
        .kernel = program->weights.vector_address[op->weights[0]],
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .x_columns = program->tensors[op->inputs[0]].columns,
        .out_columns = program->tensors[op->output].columns,
        .in = params->in,
        .out_cells = params->out,
        .taps_y = params->taps_y,
        .taps_x = params->taps_x,
        .before_y = params->before_y,
        .before_x = params->before_x,
        .unit = vision->mels > 0 ? model_vision_sound_step(vision) : 0,
        .side = vision->mels > 0 ? 1 : vision->merge_side,
    };
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_row_task task = {op->stem, vulkan_recorder_rows(recorder, op->output),
                                         push.out_columns, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_conv_2d(struct vulkan_recorder *recorder)
{
    record_convolution(recorder, &recorder->program->plan->ops[recorder->op].params.conv_2d);
}

void vulkan_record_conv_depthwise(struct vulkan_recorder *recorder)
{
    record_convolution(recorder,
                       &recorder->program->plan->ops[recorder->op].params.conv_depthwise.shape);
}

void vulkan_record_part_norm(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct part_norm_params *params = &op->params.part_norm;
    const struct vulkan_part_norm_push push = {
        .x = program->tensors[op->output].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .columns = program->tensors[op->output].columns,
        .parts = params->parts,
        .part_columns = program->plan->tensors[op->output].columns / params->parts,
        .epsilon = params->epsilon,
    };
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_row_task task = {OP_part_norm, vulkan_recorder_rows(recorder, op->output),
                                         COLUMNS_EACH * params->parts, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_near_attention(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct near_attention_params *p = &op->params.near_attention;
    uint32_t most = program->device->facts.max_invocations;
    const struct vulkan_near_attention_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out = program->tensors[op->output].f32,
        .distances = program->weights.vector_address[op->weights[0]],
        .places = recorder->recording->patches->whole.sights_address,
        .x_columns = program->tensors[op->inputs[0]].columns,
        .queries = p->queries.offset,
        .keys = p->keys,
        .values = p->values,
        .scale = p->scale,
        .soft_cap = p->soft_cap,
    };
    const struct vulkan_specialization specialization = {
        .count = VULKAN_NEAR_ATTENTION_CONSTANTS,
        .values = {[VULKAN_NEAR_ATTENTION_INVOCATIONS] =
                       most < NEAR_INVOCATIONS ? most : NEAR_INVOCATIONS,
                   [VULKAN_NEAR_ATTENTION_HEAD_DIM] = p->queries.head_dim,
                   [VULKAN_NEAR_ATTENTION_HEADS] = p->queries.heads,
                   [VULKAN_NEAR_ATTENTION_BEFORE] = p->before}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output), p->queries.heads,
                                     1};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_dispatch(recorder, "near_attention", &specialization, &push, sizeof push, grid,
                             &touch);
}

void vulkan_record_line_moments(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct row_cells *cells = &op->params.line_moments.cells;
    const struct vulkan_line_moments_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out = program->tensors[op->output].f32,
        .columns = program->tensors[op->inputs[0]].columns,
        .out_columns = program->tensors[op->output].columns,
        .lines = cells->lines,
        .values = cells->columns * cells->channels,
    };
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_row_task task = {OP_line_moments,
                                         vulkan_recorder_rows(recorder, op->output),
                                         COLUMNS_EACH * cells->lines, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_past_norm(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct past_norm_params *params = &op->params.past_norm;
    const struct vulkan_past_norm_push push = {
        .x = program->tensors[op->output].f32,
        .moments = program->tensors[op->inputs[1]].f32,
        .weights = program->weights.vector_address[op->weights[0]],
        .places = recorder->recording->patches->whole.sights_address,
        .columns = program->tensors[op->output].columns,
        .moment_columns = program->tensors[op->inputs[1]].columns,
        .lines = params->cells.lines,
        .values = params->cells.columns * params->cells.channels,
        .channels = params->cells.channels,
        .epsilon = params->epsilon,
    };
    const struct vulkan_touch touch = {.reads = {op->inputs[0], op->inputs[1], PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_row_task task = {OP_past_norm, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_embed_over(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_recording *recording = recorder->recording;
    const struct plan_op *op = &program->plan->ops[recorder->op];
    const struct plan_weight *weight = &program->plan->weights[op->weights[0]];
    const struct vulkan_embed_over_push push = {
        .rows = recording->batch->rows_address,
        .sampled = recording->drawn_before,
        .sights = recording->shape.features ? recording->batch->sights_address : 0,
        .table = program->weights.vector_address[op->weights[0]],
        .out = program->tensors[op->output].f32,
        .columns = program->tensors[op->output].columns,
        .table_rows = weight->rows,
        .first = op->params.embed_over.first,
    };
    const struct vulkan_touch touch = {.reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .writes = {op->output, PLAN_NONE}};
    const struct vulkan_row_task task = {OP_embed_over, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}
