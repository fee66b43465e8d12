/*
 * moe_linear: each row times the matrices of its experts.
 *
 * Rows are grouped by expert (cpu_moe.h): an expert without rows costs nothing, and an expert of
 * several rows is read once. A piece is a tile of up to MOE_TILE_ROWS rows of one expert by a run
 * of sixteen-output groups. Kernels need the tile's activations at equal distances, so they are
 * copied to consecutive rows first; a single row is used in place. Results are copied to each row's
 * place.
 *
 * A kernel computes a row independently of the others, so the tile has no influence on results.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_moe.h"
#include "worker/backend/cpu/ops/cpu_ops.h"

#define GROUPS_MOST       32u
#define PIECES_PER_THREAD 6u

struct moe_job {
    const struct cpu_step *step;
    const struct plan_op *op;
    struct cpu_moe_scratch *scratch;
    uint32_t thread;
    uint32_t chosen;
    uint32_t columns; /* of a weight */
    bool own;         /* x has a part for each chosen expert */
    uint32_t part;    /* columns of the output that one expert fills */
    uint32_t groups;  /* of one expert, all weights */
    uint32_t run;     /* groups per piece */
    uint32_t runs;    /* pieces per tile */
};

static const struct packed_weight *weight_of(const struct moe_job *job, uint32_t slot)
{
    plan_weight_id id = slot < OP_WEIGHTS_MAX ? job->op->weights[slot] : PLAN_NONE;
    return id == PLAN_NONE ? NULL : &job->step->program->packed[id];
}

static struct moe_job begin_job(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct cpu_program *program = step->program;
    struct moe_job job = {
        .step = step, .op = &program->plan->ops[index], .scratch = step->moe_scratch[thread]};
    job.thread = thread;
    const struct cpu_tensor *out = &program->tensors[job.op->output];
    job.chosen = program->tensors[job.op->inputs[1]].columns / 2;
    job.columns = weight_of(&job, 0)->columns;
    job.own = program->tensors[job.op->inputs[0]].columns != job.columns;
    job.part = out->columns / job.chosen;
    for (uint32_t slot = 0; weight_of(&job, slot); slot++)
        job.groups += weight_of(&job, slot)->groups;
    cpu_moe_group(step, job.op->inputs[1], cpu_step_rows(step, out->rows),
                  weight_of(&job, 0)->matrices, job.scratch);
    uint64_t wanted = (uint64_t)step->threads * PIECES_PER_THREAD;
    uint32_t run = (uint32_t)((uint64_t)job.groups * job.scratch->tile_count / wanted);
    job.run = run < 1 ? 1 : run < GROUPS_MOST ? run : GROUPS_MOST;
    job.runs = (job.groups + job.run - 1) / job.run;
    return job;
}

/* The activations of pair `pair` (row * chosen + j), as the weight's kernel reads them. */
static const uint8_t *pair_input(const struct moe_job *job, uint32_t pair, bool quantized)
{
    plan_tensor_id x = job->op->inputs[0];
    uint32_t row = pair / job->chosen;
    size_t first = job->own ? (size_t)(pair % job->chosen) * job->columns : 0;
    if (quantized)
        return (const uint8_t *)(cpu_step_quantized_row(job->step, x, row) + first / 32);
    return (const uint8_t *)(cpu_step_row(job->step, x, row) + first);
}

static float *pair_output(const struct moe_job *job, uint32_t pair)
{
    return cpu_step_row(job->step, job->op->output, pair / job->chosen) +
           (size_t)(pair % job->chosen) * job->part;
}

/* Groups [first, end) of one weight, whose outputs begin at `column`. */
static void run_groups(const struct moe_job *job, const struct packed_weight *weight,
                       const struct moe_tile *rows, uint32_t first, uint32_t end, uint32_t column)
{
    const uint32_t *pairs = job->scratch->pairs + rows->first;
    size_t row_bytes = weight->quantized ? job->columns / 32 * sizeof(struct quantized_block)
                                         : job->columns * sizeof(float);
    float aside[MOE_TILE_ROWS * PACKED_ROWS];
    struct linear_tile tile = {.columns = job->columns,
                               .rows = rows->count,
                               .x = pair_input(job, pairs[0], weight->quantized),
                               .x_stride_bytes = row_bytes,
                               .out = aside,
                               .out_stride = PACKED_ROWS,
                               .scratch = cpu_step_linear_scratch(job->step, job->thread)};
    for (uint32_t r = 0; r < rows->count && rows->count > 1; r++)
        memcpy(job->scratch->gathered + r * row_bytes, pair_input(job, pairs[r], weight->quantized),
               row_bytes);
    if (rows->count > 1)
        tile.x = job->scratch->gathered;
    const uint8_t *matrix =
        weight->data + (size_t)rows->expert * weight->groups * weight->group_bytes;
    for (uint32_t group = first; group < end; group++) {
        uint32_t left = weight->rows - group * PACKED_ROWS;
        uint32_t outputs = left < PACKED_ROWS ? left : PACKED_ROWS;
        tile.group = matrix + group * weight->group_bytes;
        job->step->program->kernels->linear[weight->kind](&tile);
        for (uint32_t r = 0; r < rows->count; r++)
            memcpy(pair_output(job, pairs[r]) + column + group * PACKED_ROWS,
                   aside + r * PACKED_ROWS, outputs * sizeof(float));
    }
}

/* Groups [first, end) of the op's weights laid side by side, for one tile. */
static void run_piece(const struct moe_job *job, const struct moe_tile *rows, uint32_t first,
                      uint32_t end)
{
    uint32_t base = 0, column = 0;
    for (uint32_t slot = 0; weight_of(job, slot); slot++) {
        const struct packed_weight *weight = weight_of(job, slot);
        uint32_t past = base + weight->groups;
        if (first < past && end > base)
            run_groups(job, weight, rows, first > base ? first - base : 0,
                       end < past ? end - base : weight->groups, column);
        base = past;
        column += weight->rows;
    }
}

void cpu_moe_linear(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    struct moe_job job = begin_job(step, index, thread);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        if (piece / job.runs >= job.scratch->tile_count)
            return;
        uint32_t first = piece % job.runs * job.run;
        uint32_t end = first + job.run < job.groups ? first + job.run : job.groups;
        run_piece(&job, &job.scratch->tiles[piece / job.runs], first, end);
    }
}
