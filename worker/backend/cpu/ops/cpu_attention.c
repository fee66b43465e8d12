/*
 * attention: divides a step into tiles of queries.
 *
 * A tile is a few consecutive rows of one sequence and some of the query heads that share one KV
 * head, so that each key and value loaded serves all of them. Prompts have tiles of several rows.
 * With few rows, the heads of a KV head are divided further until every thread has a tile. Keys are
 * never divided: a query's softmax is one chain in one thread.
 *
 * Where keys are quantized from a position on (--quantized-kv-start), a row that sees only earlier
 * positions reads them in full precision, so a tile that crosses the start is computed in two
 * parts.
 */
#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/cpu/program/cpu_kv_cache.h"

struct attention_job {
    const struct cpu_step *step;
    uint32_t index;
    const struct attention_params *params;
    const uint32_t
        *ends; /* of the step's rows: the batch's visible_ends, if the op is not `causal` */
    struct kv_place place;
    struct kv_place first_place; /* of rows that see no more than `opening` positions */
    uint32_t opening;
    uint32_t tile_rows;
    uint32_t tile_heads;
    uint32_t head_tiles; /* tiles across all query heads */
    uint32_t shared;     /* query heads per KV head */
};

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static struct attention_job begin_job(const struct cpu_step *step, uint32_t index)
{
    const struct attention_params *params = &step->program->plan->ops[index].params.attention;
    struct attention_job job = {.step = step, .index = index, .params = params};
    job.ends = params->causal ? NULL : step->batch->visible_ends;
    job.place = cpu_kv_cache_place(step->program, params->layer);
    job.first_place = cpu_kv_cache_opening(step->program, params->layer, &job.opening);
    must(job.place.head_dim == params->queries.head_dim);
    job.shared = params->queries.heads / params->kv_heads;
    uint32_t parts = divide_up(job.shared, ATTENTION_QUERIES);
    while (parts < job.shared && params->kv_heads * parts * step->batch->row_count < step->threads)
        parts++;
    job.tile_heads = divide_up(job.shared, parts);
    job.tile_rows = ATTENTION_QUERIES / job.tile_heads;
    job.head_tiles = params->kv_heads * divide_up(job.shared, job.tile_heads);
    return job;
}

/* Where the positions end that the tile's rows see: those that the step says, without what lies
 * beyond the op's `near`. `ends`: [ATTENTION_QUERIES] for that. */
static const uint32_t *ends_of(const struct attention_job *job, uint32_t first_row, uint32_t rows,
                               uint32_t *ends)
{
    if (!job->ends || job->params->near == 0)
        return job->ends ? job->ends + first_row : NULL;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t near = cpu_step_position(job->step, first_row + r) + job->params->near + 1;
        ends[r] = job->ends[first_row + r] < near ? job->ends[first_row + r] : near;
    }
    return ends;
}

/* Rows first_row..first_row + rows - 1 of one sequence, head tile `head_tile`, over `place`. */
static void run_part(const struct attention_job *job, const struct kv_place *place, uint32_t thread,
                     uint32_t sequence_index, uint32_t first_row, uint32_t rows, uint32_t head_tile)
{
    const struct cpu_step *step = job->step;
    const struct plan_op *op = &step->program->plan->ops[job->index];
    const struct step_sequence *sequence = &step->batch->sequences[sequence_index];
    uint32_t per_kv_head = divide_up(job->shared, job->tile_heads);
    uint32_t kv_head = head_tile / per_kv_head;
    uint32_t head_in_group = head_tile % per_kv_head * job->tile_heads;
    uint32_t left = job->shared - head_in_group;
    uint32_t head = kv_head * job->shared + head_in_group;
    uint32_t head_dim = place->head_dim;
    uint32_t near_ends[ATTENTION_QUERIES];
    struct attention_tile tile = {
        .queries = cpu_step_row(step, op->inputs[0], first_row) + job->params->queries.offset +
                   (size_t)head * head_dim,
        .query_stride = step->program->tensors[op->inputs[0]].columns,
        .out = cpu_step_row(step, op->output, first_row) + (size_t)head * head_dim,
        .out_stride = step->program->tensors[op->output].columns,
        .rows = rows,
        .heads = left < job->tile_heads ? left : job->tile_heads,
        .head_dim = head_dim,
        .first_position = cpu_step_position(step, first_row),
        .ends = ends_of(job, first_row, rows, near_ends),
        .window = job->params->window,
        .scale = job->params->scale,
        .soft_cap = job->params->soft_cap,
        .sinks = op->weights[0] == PLAN_NONE ? NULL : step->program->vectors[op->weights[0]] + head,
        .cache_type = place->type,
        .codec = place->codec,
        .latent = place->latent,
        .cache = place->memory + kv_head * place->head_bytes,
        .block_bytes = place->block_bytes,
        .block_table = sequence->block_tables[place->group],
        .scratch = step->scratch[thread],
    };
    step->program->kernels->attention(&tile);
    if (!step->program->notes[job->index].quantize_output)
        return;
    for (uint32_t r = 0; r < rows; r++) /* head by head for any number of heads per tile */
        for (uint32_t h = head; h < head + tile.heads; h++)
            cpu_step_quantize(step, op->output, first_row + r, h * head_dim, head_dim);
}

/* How many of `rows` rows from first_row on see no more than the opening. The visible range of a
 * row never ends before that of the previous row. */
static uint32_t opening_rows(const struct attention_job *job, uint32_t first_row, uint32_t rows)
{
    uint32_t count = 0;
    while (count < rows) {
        uint32_t row = first_row + count;
        uint32_t end = job->ends ? job->ends[row] : cpu_step_position(job->step, row) + 1;
        if (end > job->opening)
            break;
        count++;
    }
    return count;
}

static void run_tile(const struct attention_job *job, uint32_t thread, uint32_t sequence_index,
                     uint32_t first_row, uint32_t rows, uint32_t head_tile)
{
    uint32_t first = opening_rows(job, first_row, rows);
    if (first > 0)
        run_part(job, &job->first_place, thread, sequence_index, first_row, first, head_tile);
    if (first < rows)
        run_part(job, &job->place, thread, sequence_index, first_row + first, rows - first,
                 head_tile);
}

void cpu_attention(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    struct attention_job job = begin_job(step, index);
    uint32_t base = 0; /* tiles of the sequences before `s` */
    uint32_t s = 0;
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1);
        uint32_t tiles = 0;
        for (; s < step->batch->sequence_count; s++) {
            tiles = divide_up(step->batch->sequences[s].row_count, job.tile_rows) * job.head_tiles;
            if (piece - base < tiles)
                break;
            base += tiles;
        }
        if (s == step->batch->sequence_count)
            return;
        const struct step_sequence *sequence = &step->batch->sequences[s];
        uint32_t skipped = (piece - base) / job.head_tiles * job.tile_rows;
        uint32_t left = sequence->row_count - skipped;
        run_tile(&job, thread, s, sequence->first_row + skipped,
                 left < job.tile_rows ? left : job.tile_rows, (piece - base) % job.head_tiles);
    }
}
