/*
 * linear and linear_add: matrix products with up to three weights whose outputs are adjacent.
 *
 * A piece is a block of rows by a run of sixteen-output groups. The activations of a block fit a
 * core's second-level cache while the weights of the groups stream through; a run has enough groups
 * that the claim costs little. A kernel call computes one group for all rows of the block. The
 * division has no influence on results: every output is one chain over the columns.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

#define GROUPS_MOST       32u
#define PIECES_PER_THREAD 6u
#define EDGE_ROWS         16u

struct linear_job {
    const struct cpu_step *step;
    const struct plan_op *op;
    bool add;
    struct linear_scratch *scratch;
    uint32_t first_row;
    uint32_t rows;
    uint32_t block_rows;
    uint32_t groups; /* of all weights */
    uint32_t run;    /* groups per piece */
    uint32_t runs;   /* pieces per block of rows */
};

static struct linear_job begin_job(const struct cpu_step *step, uint32_t index, bool add,
                                   uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t columns = step->program->tensors[op->inputs[0]].columns;
    struct linear_job job = {
        .step = step, .op = op, .add = add, .scratch = cpu_step_linear_scratch(step, thread)};
    job.first_row = cpu_step_first_row(step, out->rows);
    job.rows = cpu_step_rows(step, out->rows);
    job.block_rows = linear_block_rows(step->program->kernels, columns);
    for (uint32_t slot = 0; slot < OP_WEIGHTS_MAX; slot++)
        if (op->weights[slot] != PLAN_NONE)
            job.groups += step->program->packed[op->weights[slot]].groups;
    uint32_t blocks = (job.rows + job.block_rows - 1) / job.block_rows;
    uint64_t wanted = (uint64_t)step->threads * PIECES_PER_THREAD;
    uint32_t run = (uint32_t)((uint64_t)job.groups * blocks / wanted);
    job.run = run < 1 ? 1 : run < GROUPS_MOST ? run : GROUPS_MOST;
    job.runs = (job.groups + job.run - 1) / job.run;
    return job;
}

/* The last group of a weight whose rows are not a multiple of sixteen: computed into a buffer, from
 * which the outputs that exist are copied. */
static void run_edge_group(const struct linear_job *job, const struct packed_weight *weight,
                           struct linear_tile tile, uint32_t outputs)
{
    float aside[EDGE_ROWS * PACKED_ROWS];
    const float *add = tile.add;
    float *out = tile.out;
    size_t out_stride = tile.out_stride;
    uint32_t rows = tile.rows;
    tile.add = NULL;
    tile.out = aside;
    tile.out_stride = PACKED_ROWS;
    for (uint32_t first = 0; first < rows; first += EDGE_ROWS) {
        tile.rows = rows - first < EDGE_ROWS ? rows - first : EDGE_ROWS;
        job->step->program->kernels->linear[weight->kind](&tile);
        tile.x = (const char *)tile.x + EDGE_ROWS * tile.x_stride_bytes;
        for (uint32_t r = 0; r < tile.rows; r++) {
            for (uint32_t c = 0; c < outputs; c++) {
                size_t at = (first + r) * out_stride + c;
                float value = aside[r * PACKED_ROWS + c];
                out[at] = add ? add[at] + value : value;
            }
        }
    }
}

static void run_group(const struct linear_job *job, const struct packed_weight *weight,
                      uint32_t group, uint32_t column, uint32_t first_row, uint32_t rows)
{
    const struct cpu_step *step = job->step;
    const struct plan_op *op = job->op;
    uint32_t x_columns = weight->columns;
    struct linear_tile tile = {
        .group = weight->data + group * weight->group_bytes,
        .columns = x_columns,
        .rows = rows,
        .out = cpu_step_row(step, op->output, first_row) + column,
        .out_stride = step->program->tensors[op->output].columns,
        .scratch = job->scratch,
    };
    if (weight->quantized) {
        tile.x = cpu_step_quantized_row(step, op->inputs[0], first_row);
        tile.x_stride_bytes = x_columns / 32 * sizeof(struct quantized_block);
    } else {
        tile.x = cpu_step_row(step, op->inputs[0], first_row);
        tile.x_stride_bytes = x_columns * sizeof(float);
    }
    if (job->add)
        tile.add = cpu_step_row(step, op->inputs[1], first_row) + column;
    uint32_t left = weight->rows - group * PACKED_ROWS;
    if (left < PACKED_ROWS)
        run_edge_group(job, weight, tile, left);
    else
        step->program->kernels->linear[weight->kind](&tile);
}

/* Groups [first, end), counted through all weights of the op. */
static void run_piece(const struct linear_job *job, uint32_t first, uint32_t end,
                      uint32_t first_row, uint32_t rows)
{
    uint32_t base = 0;
    uint32_t column = 0;
    for (uint32_t slot = 0; slot < OP_WEIGHTS_MAX && job->op->weights[slot] != PLAN_NONE; slot++) {
        const struct packed_weight *weight = &job->step->program->packed[job->op->weights[slot]];
        for (; first < end && first < base + weight->groups; first++)
            run_group(job, weight, first - base, column + (first - base) * PACKED_ROWS, first_row,
                      rows);
        base += weight->groups;
        column += weight->rows;
    }
}

static void run_job(const struct cpu_step *step, uint32_t index, bool add, uint32_t thread)
{
    struct linear_job job = begin_job(step, index, add, thread);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        uint32_t done = piece / job.runs * job.block_rows;
        if (done >= job.rows)
            return;
        uint32_t first = piece % job.runs * job.run;
        uint32_t end = first + job.run < job.groups ? first + job.run : job.groups;
        uint32_t left = job.rows - done;
        run_piece(&job, first, end, job.first_row + done,
                  left < job.block_rows ? left : job.block_rows);
    }
}

void cpu_linear(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    run_job(step, index, false, thread);
}

void cpu_linear_add(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    run_job(step, index, true, thread);
}
