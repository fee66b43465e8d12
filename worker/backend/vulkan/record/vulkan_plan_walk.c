/*
 * Pass 1 chooses in which forms each op's output is written: a linear op asks its producer for the
 * form that its kernel reads at this number of rows; all other ops read f32. Pass 2 dispatches
 * every op, except those that a neighbour computes on the way.
 */
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"

#include "worker/backend/vulkan/program/vulkan_attention_shape.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_moe_way.h"
#include "worker/backend/vulkan/record/vulkan_attention.h"
#include "worker/backend/vulkan/record/vulkan_heads.h"
#include "worker/backend/vulkan/record/vulkan_linear.h"
#include "worker/backend/vulkan/record/vulkan_moe.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"
#include "worker/backend/vulkan/record/vulkan_recurrent.h"
#include "worker/backend/vulkan/record/vulkan_row_ops.h"
#include "worker/backend/vulkan/record/vulkan_streams.h"
#include "worker/backend/vulkan/record/vulkan_towers.h"

/* What kernels over rows write. */
#define ROW_FORMS ((uint32_t)VULKAN_FORM_F32 | VULKAN_FORM_F16 | VULKAN_FORM_Q8 | VULKAN_FORM_TILED)

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
    case OP_patch_attention: return vulkan_attention_shape_forms(recorder->program, index);
    case OP_moe_gate:
        return vulkan_moe_gate_forms(
            recorder->program, index,
            vulkan_recorder_rows(recorder, recorder->program->plan->ops[index].output),
            recorder->forms[index]);
    default: return VULKAN_FORM_F32;
    }
}

static void record_linear(struct vulkan_recorder *recorder)
{
    uint32_t gate = recorder->program->notes[recorder->op].gate;
    vulkan_linear_record(recorder, recorder->op, gate == VULKAN_NO_OP ? 0 : recorder->forms[gate]);
    vulkan_attention_record_ahead(recorder, recorder->op);
}

static void record_heads(struct vulkan_recorder *recorder)
{
    vulkan_heads_record(recorder, recorder->op);
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
    [OP_embed_rows] = vulkan_row_ops_record_embed_rows,
    [OP_rms_norm] = vulkan_row_ops_record_rms_norm,
    [OP_layer_norm] = vulkan_row_ops_record_layer_norm,
    [OP_rms_norm_add] = vulkan_row_ops_record_rms_norm_add,
    [OP_head_norm] = record_heads,
    [OP_rope] = record_heads,
    [OP_linear] = record_linear,
    [OP_linear_add] = record_linear,
    [OP_kv_write] = record_heads,
    [OP_attention] = record_attention,
    [OP_gate] = vulkan_row_ops_record_gate,
    [OP_gather_rows] = vulkan_row_ops_record_gather_rows,
    [OP_bias_add] = vulkan_linear_record_bias_add,
    [OP_short_conv] = record_short_conv,
    [OP_gated_delta] = vulkan_recurrent_record_gated_delta,
    [OP_head_norm_gate] = record_head_norm_gate,
    [OP_take_queries] = record_take_queries,
    [OP_gate_heads] = record_gate_heads,
    [OP_position_scale] = vulkan_row_ops_record_position_scale,
    [OP_soft_cap] = vulkan_row_ops_record_soft_cap,
    [OP_gate_with] = vulkan_row_ops_record_gate_with,
    [OP_add_rows] = vulkan_row_ops_record_add_rows,
    [OP_scale_columns] = vulkan_row_ops_record_scale_columns,
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

enum result vulkan_plan_walk_run(const struct vulkan_recording *recording, struct error_text *error)
{
    const struct plan *plan = recording->program->plan;
    struct vulkan_recorder recorder;
    vulkan_recorder_init(&recorder, recording, error);
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
        vulkan_row_ops_record_missing_forms(&recorder);
    }
    if (recording->commands)
        vulkan_commands_barrier(recording->commands);
    vulkan_recorder_fini(&recorder);
    return recorder.result;
}
