/*
 * Hazards are tracked per tensor; the KV cache, the scratch memory, all recurrent states and the
 * groups of experts and products with adapters count as five more. A barrier orders everything, so after it nothing is
 * outstanding.
 */
#include "worker/backend/vulkan/record/vulkan_recorder.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

/* KV cache, scratch, recurrent states, groups of experts, products with adapters */
#define EXTRA_TENSORS 5u

void vulkan_recorder_init(struct vulkan_recorder *recorder,
                          const struct vulkan_recording *recording, struct error_text *error)
{
    const struct plan *plan = recording->program->plan;
    *recorder = (struct vulkan_recorder){
        .recording = recording,
        .program = recording->program,
        .forms = must_alloc(plan->op_count, sizeof *recorder->forms),
        .missing_forms = must_alloc(plan->op_count, sizeof *recorder->missing_forms),
        .was_read = must_alloc(plan->tensor_count + EXTRA_TENSORS, sizeof(bool)),
        .was_written = must_alloc(plan->tensor_count + EXTRA_TENSORS, sizeof(bool)),
        .grouped = PLAN_NONE,
        .error = error,
    };
}

void vulkan_recorder_fini(struct vulkan_recorder *recorder)
{
    free(recorder->forms);
    free(recorder->missing_forms);
    free(recorder->was_read);
    free(recorder->was_written);
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

plan_tensor_id vulkan_recorder_low(const struct vulkan_recorder *recorder)
{
    return (plan_tensor_id)(recorder->program->plan->tensor_count + 4);
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
        .f16 = forms & VULKAN_HALF_FORMS ? tensor->f16 : 0,
        .q8 = forms & VULKAN_FORM_Q8 ? tensor->q8 : 0,
        .q8_terms = forms & VULKAN_FORM_Q8 ? tensor->q8_terms : 0,
    };
}

struct vulkan_matrix_push vulkan_recorder_matrix(const struct vulkan_matrix *matrix)
{
    return (struct vulkan_matrix_push){
        matrix->codes.address,
        vulkan_weight_format_high(matrix->kind, matrix->columns, matrix->high.address),
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

/* Counts each tensor once, as f32. */
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

static bool is_written(const struct vulkan_recorder *recorder, uint32_t producer, uint32_t form)
{
    return producer != VULKAN_NO_OP &&
           ((recorder->forms[producer] | recorder->missing_forms[producer]) & form) != 0;
}

bool vulkan_recorder_tiled(const struct vulkan_recorder *recorder, uint32_t producer)
{
    return is_written(recorder, producer, VULKAN_FORM_TILED);
}

bool vulkan_recorder_staged(const struct vulkan_recorder *recorder, uint32_t producer)
{
    return is_written(recorder, producer, VULKAN_FORM_STAGED);
}
