/*
 * Pixels to rows, rows to features, features into text rows: each op is one dispatch of a kernel
 * over one row.
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "worker/backend/vulkan/device/vulkan_vision_push.h"

#define CROSS_INVOCATIONS 256u
#define TILE_INVOCATIONS  128u
#define TILE_QUERIES      16u

static const struct plan_op *op_of(const struct vulkan_recorder *recorder)
{
    return &recorder->program->plan->ops[recorder->op];
}

/* One dispatch that reads `reads` and writes `writes`, over the rows and columns of `rows_of`. */
static void dispatch(struct vulkan_recorder *recorder, enum op_stem stem, uint32_t own,
                     plan_tensor_id rows_of, const void *push, uint32_t push_bytes,
                     const struct vulkan_touch *touch)
{
    const struct vulkan_row_task task = {stem, vulkan_recorder_rows(recorder, rows_of),
                                         recorder->program->tensors[rows_of].columns,
                                         recorder->forms[recorder->op], own};
    vulkan_recorder_row_kernel(recorder, &task, push, push_bytes, touch);
}

/* From the op's input, where it has one, to its output. */
static struct vulkan_touch touch_of(const struct plan_op *op)
{
    return (struct vulkan_touch){.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                 .writes = {op->output, PLAN_NONE}};
}

void vulkan_record_patch_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = op_of(recorder);
    const struct patch_rows_params *params = &op->params.patch_rows;
    const struct vulkan_patch_rows_push push = {
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .columns = program->tensors[op->output].columns,
        .side = program->plan->vision.patch_side,
        .frames = params->frames,
        .first_frame = params->first_frame,
        .gain = params->gain,
        .shift = params->shift,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_patch_rows, params->channels_last, op->output, &push, sizeof push,
             &touch);
}

void vulkan_record_patch_positions(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = op_of(recorder);
    const struct patch_positions_params *params = &op->params.patch_positions;
    bool features = program->plan->tensors[op->output].rows == PLAN_ROWS_FEATURES;
    const struct vulkan_patch_positions_push push = {
        .x = program->tensors[op->output].f32,
        .table = program->weights.vector_address[op->weights[0]],
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .columns = program->tensors[op->output].columns,
        .side = params->side,
        .merge = features ? program->plan->vision.merge_side : 1,
    };
    const struct vulkan_touch touch = touch_of(op);
    uint32_t lead =
        params->form == POSITIONS_EXACT ? VULKAN_POSITIONS_LEAD : VULKAN_POSITIONS_LEAD_RESIZED;
    dispatch(recorder, OP_patch_positions, params->lead ? lead : (uint32_t)params->form, op->output,
             &push, sizeof push, &touch);
}

void vulkan_record_sound_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_sound_rows_push push = {
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .columns = program->tensors[op->output].columns,
        .mels = program->plan->vision.mels,
        .tap = op->params.sound_rows.tap,
        .lines = op->params.sound_rows.lines,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_sound_rows, 0, op->output, &push, sizeof push, &touch);
}

void vulkan_record_sound_taps(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_sound_taps_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out = program->tensors[op->output].f32,
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .columns = program->tensors[op->inputs[0]].columns,
        .out_columns = program->tensors[op->output].columns,
        .tap = op->params.sound_taps.tap,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_sound_taps, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_activate(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_activate_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .row_columns = program->tensors[op->output].columns,
        .columns = program->plan->tensors[op->output].columns,
        .xielu = op->params.activate.xielu,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_activate, op->params.activate.activation, op->output, &push, sizeof push,
             &touch);
}

void vulkan_record_clip_columns(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct clip_columns_params *params = &op->params.clip_columns;
    const struct vulkan_clip_columns_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out = program->tensors[op->output].f32 + params->offset * sizeof(float),
        .columns = program->tensors[op->inputs[0]].columns,
        .out_columns = program->tensors[op->output].columns,
        .least = params->minimum,
        .most = params->maximum,
        .stride = params->stride > 0 ? params->stride : 1,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_clip_columns,
                                         vulkan_recorder_rows(recorder, op->output), push.columns,
                                         VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

/* Joined rows follow each other in memory already: a copy, in the required forms. */
void vulkan_record_join_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_soft_cap_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .columns = program->tensors[op->output].columns,
        .scale = 1.0f,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_soft_cap, 0, op->output, &push, sizeof push, &touch);
}

void vulkan_record_join_padded(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_join_padded_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .columns = program->tensors[op->output].columns,
        .side = op->params.join_padded.side,
        .join = op->params.join_padded.join,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_join_padded, 0, op->output, &push, sizeof push, &touch);
}

void vulkan_record_neighbour_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct plan_op *op = op_of(recorder);
    bool features = program->plan->tensors[op->output].rows == PLAN_ROWS_FEATURES;
    const struct vulkan_neighbour_rows_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .columns = program->tensors[op->output].columns,
        .merge = program->plan->vision.merge_side,
        .lead = program->plan->vision.lead_row ? 1 : 0,
        .square = features ? model_vision_square(&program->plan->vision) : 1,
        .step = op->params.neighbour_rows.step,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_neighbour_rows, 0, op->output, &push, sizeof push, &touch);
}

/* The rows of a square attend to one tile: together, if the device's shared memory is enough. */
static uint32_t tile_queries(const struct vulkan_program *program,
                             const struct tile_attention_params *params, bool features,
                             uint32_t invocations, uint32_t side)
{
    uint32_t square = model_vision_square(&program->plan->vision);
    uint32_t shared_bytes = program->device->facts.shared_bytes;
    uint32_t floats = 2 * params->queries.head_dim + invocations + 2 * side + 4;
    bool whole = params->window == 0 && !features;
    return whole && square <= TILE_QUERIES && square * floats * sizeof(float) <= shared_bytes
               ? square
               : 1;
}

static struct vulkan_tile_attention_push tile_push(const struct vulkan_recorder *recorder,
                                                   const struct plan_op *op)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_patch_batch *patches = recorder->recording->patches;
    const struct tile_attention_params *p = &op->params.tile_attention;
    struct vulkan_tile_attention_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out_f32 = program->tensors[op->output].f32,
        .places = patches->whole.sights_address,
        .images = patches->images_address,
        .x_columns = program->tensors[op->inputs[0]].columns,
        .out_columns = program->tensors[op->output].columns,
        .query_offset = p->queries.offset,
        .key_offset = p->keys,
        .value_offset = p->values,
        .window = p->window,
        .merge = program->plan->vision.merge_side,
        .lead = program->plan->vision.lead_row ? 1 : 0,
        .scale = p->scale,
    };
    if (op->weights[0] == PLAN_NONE)
        return push;
    push.tables =
        program->weights.vector_address[op->weights[0]]; /* with the other weights after it */
    push.line_rows = program->plan->weights[op->weights[0]].rows;
    push.column_rows = program->plan->weights[op->weights[1]].rows;
    return push;
}

void vulkan_record_tile_attention(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct tile_attention_params *p = &op->params.tile_attention;
    const struct model_vision *vision = &program->plan->vision;
    bool features = program->plan->tensors[op->output].rows == PLAN_ROWS_FEATURES;
    uint32_t most = program->device->facts.max_invocations;
    uint32_t invocations = most < TILE_INVOCATIONS ? most : TILE_INVOCATIONS;
    uint32_t side = vision->fixed_side > 0 ? vision->fixed_side : vision->max_side;
    side = features ? 1 : p->window > 0 ? p->window : side;
    uint32_t queries = tile_queries(program, p, features, invocations, side);
    const struct vulkan_tile_attention_push push = tile_push(recorder, op);
    const struct vulkan_specialization specialization = {
        .count = VULKAN_TILE_ATTENTION_CONSTANTS,
        .values = {[VULKAN_TILE_ATTENTION_INVOCATIONS] = invocations,
                   [VULKAN_TILE_ATTENTION_HEAD_DIM] = p->queries.head_dim,
                   [VULKAN_TILE_ATTENTION_QUERIES] = queries,
                   [VULKAN_TILE_ATTENTION_SIDE] = side,
                   [VULKAN_TILE_ATTENTION_FEATURES] = features ? 1 : 0}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output) / queries,
                                     p->queries.heads, 1};
    const struct vulkan_touch touch = touch_of(op);
    vulkan_recorder_dispatch(recorder, "tile_attention", &specialization, &push, sizeof push, grid,
                             &touch);
}

void vulkan_record_pool_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_pool_rows_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .outputs = vulkan_recorder_outputs(recorder, op->output, recorder->forms[recorder->op]),
        .columns = program->tensors[op->output].columns,
        .count = op->params.pool_rows.count,
        .scale = op->params.pool_rows.scale,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_pool_rows, 0, op->output, &push, sizeof push, &touch);
}

void vulkan_record_feature_write(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t columns = program->tensors[op->inputs[0]].columns;
    uint64_t part_bytes = (uint64_t)op->params.feature_write.part * columns * sizeof(float);
    const struct vulkan_feature_write_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .feature_rows = recorder->recording->patches->feature_rows_address,
        .features = program->features_address + part_bytes,
        .columns = columns,
        .feature_columns = program->feature_columns,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_feature_write,
                                         vulkan_recorder_rows(recorder, op->inputs[0]), columns,
                                         VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_feature_place(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    uint32_t columns = program->tensors[op->inputs[0]].columns;
    const struct vulkan_feature_place_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .newline =
            op->weights[0] == PLAN_NONE ? 0 : program->weights.vector_address[op->weights[0]],
        .mixes = recorder->recording->patches->mixes_address,
        .features = program->features_address,
        .columns = columns,
        .feature_columns = program->feature_columns,
        .kind = op->params.feature_place.kind,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_feature_place, recorder->recording->shape.mixes,
                                         columns, VULKAN_FORM_F32, 0};
    if (task.rows == 0) /* sounds of which every feature is the tower's */
        return;
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_feature_add(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    if (!recorder->recording->shape.features)
        return;
    uint32_t columns = program->tensors[op->output].columns;
    const struct vulkan_feature_add_push push = {
        .x = program->tensors[op->output].f32,
        .sights = recorder->recording->batch->sights_address,
        .features = program->features_address +
                    (uint64_t)op->params.feature_add.part * columns * sizeof(float),
        .columns = columns,
        .feature_columns = program->feature_columns,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_feature_add, vulkan_recorder_rows(recorder, op->output),
                                         columns, VULKAN_FORM_F32, 0};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

void vulkan_record_cross_attention(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct cross_attention_params *p = &op->params.cross_attention;
    uint32_t most = program->device->facts.max_invocations;
    uint64_t wide = (uint64_t)p->kv_heads * p->queries.head_dim;
    const struct vulkan_cross_attention_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .out_f32 = program->tensors[op->output].f32,
        .sights = recorder->recording->batch->sights_address,
        .features = program->features_address + 2 * p->layer * wide * sizeof(float),
        .ranges = recorder->recording->batch->tables.address,
        .x_columns = program->tensors[op->inputs[0]].columns,
        .query_offset = p->queries.offset,
        .feature_columns = program->feature_columns,
        .scale = p->scale,
    };
    const struct vulkan_specialization specialization = {
        .count = VULKAN_CROSS_ATTENTION_CONSTANTS,
        .values = {[VULKAN_CROSS_ATTENTION_INVOCATIONS] =
                       most < CROSS_INVOCATIONS ? most : CROSS_INVOCATIONS,
                   [VULKAN_CROSS_ATTENTION_HEAD_DIM] = p->queries.head_dim,
                   [VULKAN_CROSS_ATTENTION_HEADS] = p->queries.heads,
                   [VULKAN_CROSS_ATTENTION_KV_HEADS] = p->kv_heads}};
    const struct vulkan_grid grid = {vulkan_recorder_rows(recorder, op->output), p->queries.heads,
                                     1};
    const struct vulkan_touch touch = touch_of(op);
    vulkan_recorder_dispatch(recorder, "cross_attention", &specialization, &push, sizeof push, grid,
                             &touch);
}

void vulkan_record_seeing_rows(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct vulkan_seeing_rows_push push = {
        .x = program->tensors[op->output].f32,
        .sights = recorder->recording->batch->sights_address,
        .columns = program->tensors[op->output].columns,
    };
    const struct vulkan_touch touch = touch_of(op);
    dispatch(recorder, OP_seeing_rows, 0, op->output, &push, sizeof push, &touch);
}

void vulkan_record_patch_table(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = op_of(recorder);
    const struct patch_table_params *params = &op->params.patch_table;
    const struct vulkan_matrix *matrix =
        &program->weights.matrices[program->weights.by_op[recorder->op].index[0]];
    const struct vulkan_patch_table_push push = {
        .weights = vulkan_recorder_matrix(matrix),
        .x = program->tensors[op->output].f32,
        .places = recorder->recording->patches->whole.sights_address,
        .columns = matrix->columns,
        .row_columns = program->tensors[op->output].columns,
        .tiles = params->tiles,
        .tile_places = params->places,
        .taking_part =
            (params->leads ? 1u : 0) | (params->patches ? 2u : 0) | (params->pads ? 4u : 0),
        .scale = params->scale,
    };
    const struct vulkan_touch touch = touch_of(op);
    const struct vulkan_row_task task = {OP_patch_table, vulkan_recorder_rows(recorder, op->output),
                                         matrix->columns, VULKAN_FORM_F32, matrix->kind};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}
