/*
 * What ops ask of the step that is running: rows, positions, shares of work.
 */
#include "worker/backend/cpu/program/cpu_step.h"

#define PIECES_PER_BEAT 64u /* of one op; a piece takes well below a millisecond */

uint32_t cpu_step_rows(const struct cpu_step *step, enum plan_rows rows)
{
    uint32_t patches = step->part.end - step->part.first;
    switch (rows) {
    case PLAN_ROWS_STEP: return step->batch->row_count;
    case PLAN_ROWS_LOGITS: return step->batch->logit_row_count;
    case PLAN_ROWS_PATCHES: return patches;
    default: return patches / image_patches_square(step->patches);
    }
}

uint32_t cpu_step_first_row(const struct cpu_step *step, enum plan_rows rows)
{
    switch (rows) {
    case PLAN_ROWS_PATCHES: return step->part.first;
    case PLAN_ROWS_FEATURES: return step->part.first / image_patches_square(step->patches);
    default: return 0;
    }
}

struct row_share cpu_step_share(const struct cpu_step *step, enum plan_rows rows, uint32_t thread)
{
    uint64_t count = cpu_step_rows(step, rows);
    uint32_t first = cpu_step_first_row(step, rows);
    /* rounded up, so that a single row goes to lane 0: the calling thread is running already */
    uint64_t begin = (count * thread + step->threads - 1) / step->threads;
    uint64_t end = (count * (thread + 1) + step->threads - 1) / step->threads;
    return (struct row_share){first + (uint32_t)begin, first + (uint32_t)end};
}

uint32_t cpu_step_claim(const struct cpu_step *step, uint32_t index, uint32_t count)
{
    uint32_t first = atomic_fetch_add_explicit(&step->claims[index], count, memory_order_relaxed);
    /* On the first piece of each op and every 64th piece: one per piece would cost memory traffic.
     */
    if (step->heartbeat && first % PIECES_PER_BEAT < count)
        atomic_fetch_add_explicit(step->heartbeat, 1, memory_order_relaxed);
    return first;
}

uint32_t cpu_step_adapter_claims(const struct cpu_step *step, uint32_t index)
{
    return step->program->plan->op_count + 1 + 2 * index;
}

uint32_t cpu_step_position(const struct cpu_step *step, uint32_t row)
{
    const struct step_sequence *sequence = &step->batch->sequences[step->row_sequence[row]];
    return sequence->first_position + (row - sequence->first_row);
}

struct rope_position cpu_step_rope_position(const struct cpu_step *step, uint32_t row)
{
    if (step->patches) {
        const struct patch_place *place = &step->patches->places[row];
        return (struct rope_position){0, place->y, place->x};
    }
    if (step->batch->rope_positions)
        return step->batch->rope_positions[row];
    uint32_t position = cpu_step_position(step, row);
    return (struct rope_position){position, position, position};
}

float *cpu_step_row(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row)
{
    const struct cpu_tensor *t = &step->program->tensors[tensor];
    return t->values + (size_t)row * t->columns;
}

struct quantized_block *cpu_step_quantized_row(const struct cpu_step *step, plan_tensor_id tensor,
                                               uint32_t row)
{
    const struct cpu_tensor *t = &step->program->tensors[tensor];
    return t->quantized + (size_t)row * (t->columns / 32);
}

struct linear_scratch *cpu_step_linear_scratch(const struct cpu_step *step, uint32_t thread)
{
    step->linear_scratch[thread].x = NULL;
    return &step->linear_scratch[thread];
}

void cpu_step_quantize(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row,
                       uint32_t first, uint32_t count)
{
    const struct cpu_program *program = step->program;
    program->kernels->quantize(cpu_step_row(step, tensor, row) + first, count, program->outlier,
                               cpu_step_quantized_row(step, tensor, row) + first / 32);
}
