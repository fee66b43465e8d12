/*
 * A kernel missing in a step delays its streams by up to a fifth of a second, also after a restart,
 * when the prompts of all streams come at once.
 *
 * Steps are recorded without commands. Kernels of linear ops and of ops over rows depend on how
 * many rows an op has, which are either the step's or those that are drawn from, and never on both;
 * so each number of rows with its own kernels is visited once as either. Kernels of attention
 * depend on the numbers of sequences and tiles too: vulkan_attention.c requests all of them itself.
 */
#include "worker/backend/vulkan/step/vulkan_warm.h"

#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Whether rows may be written in two forms. */
static bool has_start(const struct vulkan_program *program)
{
    return program->plan->kv.quantization.start_tokens > 0;
}

/* Decodes only: all rows drawn from, or only some (a row of a prompt that is not its last). */
static enum result request_decodes(const struct vulkan_program *program, bool adapted,
                                   uint32_t min_rows, uint32_t rows, struct error_text *error)
{
    const struct vulkan_program whole =
        adapted ? vulkan_program_adapted(program, true) : vulkan_program_whole(program);
    const struct vulkan_program part = adapted ? vulkan_program_adapted(program, false) : *program;
    const struct vulkan_batch batch = {0};
    struct vulkan_recording recording = {
        .program = &whole,
        .batch = &batch,
        .shape = {.rows = rows,
                  .sequences = rows,
                  .logit_rows = rows,
                  .decodes = rows,
                  .whole = true,
                  .adapted = adapted,
                  .openings = has_start(program)},
        .min_rows = min_rows,
    };
    enum result result = vulkan_plan_walk_run(&recording, error);
    recording.program = &part;
    recording.shape.whole = false;
    recording.shape.logit_rows = rows - 1;
    return result == RESULT_OK ? vulkan_plan_walk_run(&recording, error) : result;
}

/* Prompts, with or without decodes. */
static enum result ask_prompts(const struct vulkan_program *program, bool adapted, uint32_t rows,
                               struct error_text *error)
{
    const struct vulkan_program part = adapted ? vulkan_program_adapted(program, false) : *program;
    const struct vulkan_batch batch = {0};
    const struct vulkan_recording recording = {
        .program = &part,
        .batch = &batch,
        .shape = {.rows = rows,
                  .sequences = 1,
                  .adapted = adapted,
                  .logit_rows = min(rows, program->max_logit_rows),
                  .tiles = 1,
                  .features = program->sees,
                  .openings = has_start(program)},
        .min_rows = rows,
    };
    return vulkan_plan_walk_run(&recording, error);
}

static enum result ask_steps(const struct vulkan_program *program, bool adapted,
                             struct error_text *error)
{
    uint32_t most_decodes = min(program->max_step_rows, program->max_logit_rows);
    enum result result = RESULT_OK;
    for (uint32_t rows = 1, before = 0; rows <= most_decodes && result == RESULT_OK;
         before = rows, rows = vulkan_linear_next_rows(rows, most_decodes))
        result = request_decodes(program, adapted, before + 1, rows, error);
    for (uint32_t rows = 2; rows <= program->max_step_rows && result == RESULT_OK;
         rows = vulkan_linear_next_rows(rows, program->max_step_rows))
        result = ask_prompts(program, adapted, rows, error);
    return result;
}

enum result vulkan_warm_ask(const struct vulkan_program *program, struct error_text *error)
{
    enum result result = ask_steps(program, false, error);
    return result == RESULT_OK && program->adapters ? ask_steps(program, true, error) : result;
}
