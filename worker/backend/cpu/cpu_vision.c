/*
 * A vision plan is a plan like any other (cpu_program.c), and is walked by the same steps, over
 * patches instead of tokens and a stage at a time. What a stage left in the tensors waits there for
 * the next one, whatever steps of the text model run in between: they have tensors of their own.
 *
 * Its weights are packed privately by every worker. Towers are a small part of a checkpoint.
 */
#include "worker/backend/cpu/cpu_vision.h"

#include "proto/must.h"

static enum result load_weights(struct cpu_vision *vision, const struct backend_options *options,
                                struct cpu_thread_pool *pool, backend_progress_fn *progress,
                                void *context, struct error_text *error)
{
    struct backend_options own = *options;
    own.has_vault = false;
    return cpu_weights_load(&vision->program.weights, pool, &own, progress, context, error);
}

enum result cpu_vision_init(struct cpu_vision *vision, const struct backend_options *options,
                            const struct cpu_kernels *kernels, struct cpu_thread_pool *pool,
                            backend_progress_fn *progress, void *context, struct error_text *error)
{
    const struct plan *plan = options->vision;
    const struct backend_options sizes = {.activation_bits = options->activation_bits,
                                          .max_patch_rows = options->max_patch_rows};
    must(sizes.max_patch_rows > 0 && sizes.max_patch_rows <= LIMIT_PATCH_ROWS);
    enum result result = cpu_program_init(&vision->program, plan, &sizes, kernels, error);
    if (result == RESULT_OK)
        result = cpu_step_init(&vision->step, &vision->program, pool, error);
    if (result == RESULT_OK)
        result = cpu_patches_init(&vision->patches, plan, sizes.max_patch_rows, error);
    if (result == RESULT_OK)
        result = cpu_features_init(&vision->features, options->feature_rows,
                                   model_vision_feature_columns(&plan->vision), error);
    if (result == RESULT_OK)
        result = load_weights(vision, options, pool, progress, context, error);
    vision->step.patches = &vision->patches;
    vision->step.features = &vision->features;
    vision->step.heartbeat = options->heartbeat;
    return result;
}

void cpu_vision_fini(struct cpu_vision *vision)
{
    if (!vision->program.plan)
        return;
    cpu_step_fini(&vision->step);
    cpu_program_fini(&vision->program);
    cpu_patches_fini(&vision->patches);
    cpu_features_fini(&vision->features);
}

static void run_stage(struct cpu_vision *vision)
{
    const struct plan *plan = vision->program.plan;
    uint32_t stage = vision->stages_done++;
    cpu_step_run_stage(&vision->step, stage > 0 ? plan->stage_ends[stage - 1] : 0,
                       plan->stage_ends[stage]);
}

static void check_room(const struct cpu_vision *vision)
{
    for (uint32_t f = 0; f < vision->patches.features; f++)
        must(vision->patches.feature_rows[f] < vision->features.rows);
}

void cpu_vision_begin(struct cpu_vision *vision, const struct encode_batch *batch)
{
    cpu_patches_arrange(&vision->patches, batch);
    check_room(vision);
    vision->stages_done = 0;
    run_stage(vision);
}

bool cpu_vision_run(struct cpu_vision *vision, uint32_t stages)
{
    uint32_t all = vision->program.plan->vision.stages + 1;
    must(vision->stages_done > 0 && stages <= all - vision->stages_done);
    for (uint32_t i = 0; i < stages; i++)
        run_stage(vision);
    bool done = vision->stages_done == all;
    if (done)
        vision->stages_done = 0;
    return done;
}
