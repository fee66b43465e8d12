/*
 * The functions that all users of a program need.
 */
#include "worker/backend/vulkan/program/vulkan_program.h"

uint32_t vulkan_program_rows(const struct vulkan_program *program, enum plan_rows rows)
{
    uint32_t merged = model_vision_square(&program->plan->vision);
    switch (rows) {
    case PLAN_ROWS_STEP: return program->max_step_rows;
    case PLAN_ROWS_LOGITS: return program->max_logit_rows;
    case PLAN_ROWS_PATCHES: return program->max_patch_rows;
    default: return program->max_patch_rows / merged;
    }
}

struct vulkan_program vulkan_program_whole(const struct vulkan_program *program)
{
    struct vulkan_program whole = *program;
    whole.plan = &program->whole_plan;
    whole.notes = program->whole_notes;
    return whole;
}

struct vulkan_program vulkan_program_adapted(const struct vulkan_program *program, bool whole)
{
    struct vulkan_program view = whole ? vulkan_program_whole(program) : *program;
    view.notes = program->adapted_notes[whole];
    return view;
}
