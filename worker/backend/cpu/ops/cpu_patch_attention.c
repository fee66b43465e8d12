/*
 * patch_attention: a patch attends to all patches of its tile, or of its window.
 *
 * The kernel is that of the text model: keys and values of a span are written as f32 into blocks of
 * KV_BLOCK_TOKENS rows in the order of the KV cache, and a tile of queries sees its span from the
 * first row to the last. Memory grows linearly with the rows, and keys of other spans are not
 * scored.
 *
 * First all rows' blocks are written, part by part, then attention runs part by part
 * (cpu_image_encoder.c). The blocks belong to one op at a time.
 */
#include <string.h>

#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/ops/cpu_ops.h"

struct patch_job {
    const struct cpu_step *step;
    const struct plan_op *op;
    uint32_t index;
    const struct patch_attention_params *params;
    const struct patch_spans *spans;
    uint32_t heads;
    uint32_t head_dim;
    size_t head_floats;  /* of a head in a block: keys, then values */
    size_t block_floats; /* of a block */
};

static struct patch_job begin_job(const struct cpu_step *step, uint32_t index)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct patch_attention_params *params = &op->params.patch_attention;
    struct patch_job job = {.step = step, .op = op, .index = index, .params = params};
    job.spans = params->windowed ? &step->patches->windows : &step->patches->whole;
    job.heads = params->queries.heads;
    job.head_dim = params->queries.head_dim;
    job.head_floats = (size_t)2 * KV_BLOCK_TOKENS * job.head_dim;
    job.block_floats = job.heads * job.head_floats;
    return job;
}

/* Keys [head_dim][KV_BLOCK_TOKENS], then values [KV_BLOCK_TOKENS][head_dim]; slots without a row
 * are zeros, because masked values are still multiplied by 0. */
static void write_block(const struct patch_job *job, uint32_t number)
{
    const struct patch_block *block = &job->spans->blocks[number];
    float *out = job->step->patches->keys_values + number * job->block_floats;
    if (block->rows < KV_BLOCK_TOKENS)
        memset(out, 0, job->block_floats * sizeof(float));
    for (uint32_t slot = 0; slot < block->rows; slot++) {
        const float *row = cpu_step_row(job->step, job->op->inputs[0], block->first_row + slot);
        for (uint32_t h = 0; h < job->heads; h++) {
            const float *key = row + job->params->keys + (size_t)h * job->head_dim;
            const float *value = row + job->params->values + (size_t)h * job->head_dim;
            float *keys = out + h * job->head_floats;
            float *values = keys + (size_t)KV_BLOCK_TOKENS * job->head_dim;
            for (uint32_t d = 0; d < job->head_dim; d++)
                keys[(size_t)d * KV_BLOCK_TOKENS + slot] = key[d];
            memcpy(values + (size_t)slot * job->head_dim, value, job->head_dim * sizeof(float));
        }
    }
}

/* The first rows of `share` of a span, for one head. */
static void attend(const struct patch_job *job, uint32_t thread, const struct patch_span *span,
                   struct row_share share, uint32_t head)
{
    const struct cpu_step *step = job->step;
    uint32_t first = share.begin, left = share.end - first, ends[ATTENTION_QUERIES];
    uint32_t rows = left < ATTENTION_QUERIES ? left : ATTENTION_QUERIES;
    uint32_t column = head * job->head_dim, row = span->first_row + first;
    for (uint32_t r = 0; r < rows; r++)
        ends[r] = span->keys;
    struct attention_tile tile = {
        .queries =
            cpu_step_row(step, job->op->inputs[0], row) + job->params->queries.offset + column,
        .query_stride = step->program->tensors[job->op->inputs[0]].columns,
        .out = cpu_step_row(step, job->op->output, row) + column,
        .out_stride = step->program->tensors[job->op->output].columns,
        .rows = rows,
        .heads = 1,
        .head_dim = job->head_dim,
        .first_position = first,
        .ends = ends,
        .scale = job->params->scale,
        .cache_type = KV_CACHE_F32,
        .cache = (const uint8_t *)(step->patches->keys_values + head * job->head_floats),
        .block_bytes = job->block_floats * sizeof(float),
        .block_table = step->patches->block_table + span->first_block,
        .scratch = step->scratch[thread],
    };
    step->program->kernels->attention(&tile);
    for (uint32_t r = 0; step->program->notes[job->index].quantize_output && r < rows; r++)
        cpu_step_quantize(step, job->op->output, row + r, column, job->head_dim);
}

static void write_keys(const struct patch_job *job, uint32_t thread)
{
    const struct patch_part *part = &job->step->part;
    for (uint32_t b = thread; b < job->spans->block_count; b += job->step->threads) {
        uint32_t row = job->spans->blocks[b].first_row;
        if (row >= part->first && row < part->end)
            write_block(job, b);
    }
}

/* The rows [begin, end) of a span that belong to the part. */
static struct row_share part_of(const struct patch_part *part, const struct patch_span *span)
{
    uint32_t begin = part->first > span->first_row ? part->first - span->first_row : 0;
    uint32_t end = part->end > span->first_row ? part->end - span->first_row : 0;
    end = end < span->rows ? end : span->rows;
    return (struct row_share){begin < end ? begin : end, end};
}

void cpu_patch_attention(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    struct patch_job job = begin_job(step, index);
    if (step->part.keys_only) {
        write_keys(&job, thread);
        return;
    }
    uint32_t base = 0, s = 0; /* pieces of the spans before s */
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1), pieces = 0;
        struct row_share rows = {0, 0};
        for (; s < job.spans->count; s++, base += pieces) {
            rows = part_of(&step->part, &job.spans->spans[s]);
            pieces =
                (rows.end - rows.begin + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES * job.heads;
            if (piece - base < pieces)
                break;
        }
        if (s == job.spans->count)
            return;
        rows.begin += (piece - base) / job.heads * ATTENTION_QUERIES;
        attend(&job, thread, &job.spans->spans[s], rows, (piece - base) % job.heads);
    }
}
