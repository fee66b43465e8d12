/*
 * Pass 1 chooses in which forms each op's output is written: a linear op asks its producer for the
 * form that its kernel reads at this number of rows; all other ops read f32. Pass 2 dispatches
 * every op, except those that a neighbour computes on the way.
 */
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"

#include "worker/backend/vulkan/program/vulkan_attention_shape.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_moe_way.h"
#include "worker/backend/vulkan/record/vulkan_ops.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"
#include "worker/backend/vulkan/record/vulkan_row_ops.h"

/* Forms that kernels over one row write. */
#define ROW_FORMS ((uint32_t)VULKAN_FORM_F32 | VULKAN_FORM_Q8 | VULKAN_HALF_FORMS)
#define OWN_ORDERS                                                                                 \
    ((uint32_t)VULKAN_FORM_TILED | VULKAN_FORM_STAGED) /* only by kernels that read them */

static uint32_t forms_of_gate(const struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t partner = program->notes[index].partner;
    uint32_t rows = vulkan_recorder_rows(recorder, program->plan->ops[index].output);
    if (partner == VULKAN_NO_OP)
        return ROW_FORMS;
    struct vulkan_linear_way way = vulkan_linear_way(program, partner, rows);
    if (!way.gate)
        return ROW_FORMS;
    bool staged = vulkan_recorder_staged(recorder, program->notes[partner].producer);
    uint32_t order = way.input != VULKAN_FORM_STAGED || staged ? way.input & OWN_ORDERS : 0;
    return (ROW_FORMS & ~OWN_ORDERS) | order;
}

static uint32_t forms_of_attention(const struct vulkan_recorder *recorder, uint32_t index)
{
    return vulkan_attention_shape_forms(recorder->program, index);
}

static uint32_t forms_of_patch_attention(const struct vulkan_recorder *recorder, uint32_t index)
{
    return vulkan_attention_shape_forms(recorder->program, index);
}

static uint32_t forms_of_moe_gate(const struct vulkan_recorder *recorder, uint32_t index)
{
    plan_tensor_id output = recorder->program->plan->ops[index].output;
    return vulkan_moe_gate_forms(recorder->program, index, vulkan_recorder_rows(recorder, output),
                                 recorder->forms[index]);
}

static uint32_t forms_all(const struct vulkan_recorder *recorder, uint32_t index)
{
    (void)recorder, (void)index;
    return ROW_FORMS;
}

static uint32_t forms_f32(const struct vulkan_recorder *recorder, uint32_t index)
{
    (void)recorder, (void)index;
    return VULKAN_FORM_F32;
}

/* By the column `forms` of op_list.h. */
#define FORMS_F32(stem)    forms_f32
#define FORMS_ALL(stem)    forms_all
#define FORMS_CHOSEN(stem) forms_of_##stem

static const struct {
    void (*record)(struct vulkan_recorder *recorder);
    /* The forms that the op's own kernels write; the others are made from f32 after it. */
    uint32_t (*forms)(const struct vulkan_recorder *recorder, uint32_t index);
} op_functions[OP_STEM_COUNT] = {
#define OP_FUNCTIONS(stem, inputs, min, max, tolerance, weights, work, output, q8, forms, ...)     \
    [OP_##stem] = {vulkan_record_##stem, FORMS_##forms(stem)},
    EVERY_OP_LIST(OP_FUNCTIONS)
#undef OP_FUNCTIONS
};

/* Chooses the forms of each op's output by its readers at this shape. */
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
        uint32_t own = op_functions[plan->ops[i].stem].forms(recorder, i);
        uint32_t wanted = recorder->forms[i];
        /* Readers that prefer another order of halves also accept f16: if readers differ, or the op
         * can write f16 but no tiles, all read f16. */
        uint32_t halves = wanted & VULKAN_HALF_FORMS;
        bool differ = (halves & (halves - 1)) != 0;
        if (differ || (halves == VULKAN_FORM_TILED &&
                       (own & (VULKAN_FORM_F16 | VULKAN_FORM_TILED)) == VULKAN_FORM_F16))
            recorder->forms[i] =
                (uint8_t)((wanted & ~(uint32_t)VULKAN_HALF_FORMS) | VULKAN_FORM_F16);
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
        vulkan_commands_barrier(recording->commands); /* after the step before */
    uint32_t end_op = recording->end_op > 0 ? recording->end_op : plan->op_count;
    for (recorder.op = recording->first_op; recorder.op < end_op && recorder.result == RESULT_OK;
         recorder.op++) {
        plan_tensor_id output = plan->ops[recorder.op].output;
        if (recording->shape.logit_rows == 0 && output != PLAN_NONE &&
            plan->tensors[output].rows == PLAN_ROWS_LOGITS)
            continue; /* nothing is to be drawn */
        op_functions[plan->ops[recorder.op].stem].record(&recorder);
        vulkan_row_ops_record_missing_forms(&recorder);
    }
    if (recording->commands)
        vulkan_commands_barrier(recording->commands);
    vulkan_recorder_fini(&recorder);
    return recorder.result;
}
