/*
 * tile_attention: patches attend to their tile or window, with scores for relative positions (SAM); or features to those of
 * their tile.
 *
 * A piece is one head of one window, or of a share of a whole tile's rows. A thread lays out the window's keys and values in
 * its own scratch, in the order of the KV cache, and then attends with the part's rows that lie in the window, some queries at
 * a time, by the kernel of the text model. The scores of relative positions are a sum of one number for the key's line and
 * one for its column; they are computed once for each query, and the kernel gets the sums for all positions.
 *
 * Positions of a window that lie beyond its tile have the keys and values of a row of zeros, which are the biases.
 */
#include <math.h>
#include <string.h>

#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/ops/cpu_ops.h"

enum { LINES, COLUMNS, PAD }; /* of the op's weights */

struct tile_job {
    const struct cpu_step *step;
    const struct plan_op *op;
    const struct tile_attention_params *params;
    bool features;
    uint32_t index;
    uint32_t head_dim;
    uint32_t most; /* positions, whole blocks */
    /* scratch */
    float *kernel;
    float *queries; /* [ATTENTION_QUERIES, head_dim] */
    float *sums;    /* likewise */
    float *biases;  /* [ATTENTION_QUERIES, most] */
    float *ends;    /* [2 * most] scores of lines, then of columns */
    float *cache;   /* [most / KV_BLOCK_TOKENS][keys, values] */
    uint32_t *table;
};

/* Rows that attend to each other, and the head. */
struct tile_window {
    const struct patch_tile *tile;
    uint32_t first_row; /* of features; else */
    uint32_t top;       /* the window's corner */
    uint32_t left;
    uint32_t high;
    uint32_t wide;
    uint32_t head;
};

/* Positions of the largest tile or window. */
static uint32_t most_positions(const struct plan *plan, const struct plan_op *op)
{
    const struct model_vision *vision = &plan->vision;
    const struct tile_attention_params *params = &op->params.tile_attention;
    uint32_t side = vision->fixed_side > 0 ? vision->fixed_side : vision->max_side;
    uint64_t most = (uint64_t)side * side;
    if (most > LIMIT_PATCH_ROWS)
        most = LIMIT_PATCH_ROWS;
    if (params->window > 0)
        most = (uint64_t)params->window * params->window;
    return (uint32_t)((most + 1 + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
}

size_t cpu_tile_attention_floats(const struct plan *plan, const struct plan_op *op)
{
    size_t head_dim = op->params.tile_attention.queries.head_dim, most = most_positions(plan, op);
    return attention_scratch_floats((uint32_t)head_dim, false) +
           ATTENTION_QUERIES * (2 * head_dim + most) + 2 * most + 2 * most * head_dim + most;
}

static struct tile_job begin_job(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan *plan = step->program->plan;
    const struct plan_op *op = &plan->ops[index];
    struct tile_job job = {.step = step, .op = op, .params = &op->params.tile_attention};
    job.index = index;
    job.head_dim = job.params->queries.head_dim;
    job.features = plan->tensors[op->inputs[0]].rows == PLAN_ROWS_FEATURES;
    job.most = most_positions(plan, op);
    job.kernel = step->scratch[thread];
    job.queries = job.kernel + attention_scratch_floats(job.head_dim, false);
    job.sums = job.queries + (size_t)ATTENTION_QUERIES * job.head_dim;
    job.biases = job.sums + (size_t)ATTENTION_QUERIES * job.head_dim;
    job.ends = job.biases + (size_t)ATTENTION_QUERIES * job.most;
    job.cache = job.ends + (size_t)2 * job.most;
    job.table = (uint32_t *)(void *)(job.cache + (size_t)2 * job.most * job.head_dim);
    for (uint32_t b = 0; b < job.most / KV_BLOCK_TOKENS; b++)
        job.table[b] = b;
    return job;
}

/* The row of position `p`; returns false beyond the tile. */
static bool window_row(const struct tile_job *job, const struct tile_window *w, uint32_t p,
                       uint32_t *row)
{
    uint32_t y = w->top + p / w->wide, x = w->left + p % w->wide;
    *row = w->first_row + p;
    if (job->features)
        return true;
    if (y >= w->tile->height || x >= w->tile->width)
        return false;
    *row = image_patches_row(job->step->patches, w->tile, y, x);
    return true;
}

/* Keys and values of all positions of the window, and zeros up to the end of the last block. */
static void lay_window(const struct tile_job *job, const struct tile_window *w)
{
    const struct tile_attention_params *params = job->params;
    const uint32_t head_dim = job->head_dim, count = w->high * w->wide;
    const uint32_t end = (count + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    for (uint32_t p = 0; p < end; p++) {
        float *keys = job->cache + (size_t)(p / KV_BLOCK_TOKENS) * 2 * KV_BLOCK_TOKENS * head_dim,
              *values = keys + (size_t)(KV_BLOCK_TOKENS + p % KV_BLOCK_TOKENS) * head_dim;
        const float *from = NULL;
        uint32_t row;
        if (p < count && window_row(job, w, p, &row))
            from = cpu_step_row(job->step, job->op->inputs[0], row);
        else if (p < count)
            from = job->step->program->vectors[job->op->weights[PAD]];
        keys += p % KV_BLOCK_TOKENS;
        for (uint32_t d = 0; d < head_dim; d++) {
            uint32_t column = w->head * head_dim + d;
            keys[(size_t)d * KV_BLOCK_TOKENS] = from ? from[params->keys + column] : 0.0f;
            values[d] = from ? from[params->values + column] : 0.0f;
        }
    }
}

static float dot(const float *a, const float *b, uint32_t count)
{
    float parts[8] = {0};
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (uint32_t lane = 0; lane < 8; lane++)
            parts[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        parts[0] += a[i] * b[i];
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
           ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

/* out[k] = query . T[at - k + count - 1], T being the table of weight `which` with 2 * count - 1 rows. */
static void relative_scores(const struct tile_job *job, uint32_t which, const float *query,
                            uint32_t at, uint32_t count, float *out)
{
    const float *table = job->step->program->vectors[job->op->weights[which]];
    uint32_t rows = job->step->program->plan->weights[job->op->weights[which]].rows;
    float share = (float)rows / (float)(2 * count - 1);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t row = at + count - 1 - k;
        float where = fmaxf(((float)row + 0.5f) * share - 0.5f, 0.0f);
        uint32_t low = (uint32_t)where < rows ? (uint32_t)where : rows - 1;
        uint32_t high = low + 1 < rows ? low + 1 : low;
        float weight = where - (float)low;
        out[k] = dot(query, table + (size_t)low * job->head_dim, job->head_dim);
        if (weight > 0.0f)
            out[k] = (1.0f - weight) * out[k] +
                     weight * dot(query, table + (size_t)high * job->head_dim, job->head_dim);
    }
}

/* Scores of relative positions of the query at position `p` of the window, into line `number`. */
static void lay_biases(const struct tile_job *job, const struct tile_window *w, uint32_t p,
                       uint32_t number)
{
    const float *query = job->queries + (size_t)number * job->head_dim;
    float *lines = job->ends, *columns = job->ends + job->most;
    float *out = job->biases + (size_t)number * job->most;
    relative_scores(job, LINES, query, p / w->wide, w->high, lines);
    relative_scores(job, COLUMNS, query, p % w->wide, w->wide, columns);
    for (uint32_t y = 0; y < w->high; y++)
        for (uint32_t x = 0; x < w->wide; x++)
            *out++ = lines[y] + columns[x];
    for (uint32_t i = w->high * w->wide; i % KV_BLOCK_TOKENS != 0; i++)
        *out++ = 0.0f;
}

/* Attends with `count` queries that are laid, of these rows. */
static void attend(const struct tile_job *job, const struct tile_window *w, const uint32_t *rows,
                   uint32_t count)
{
    uint32_t ends[ATTENTION_QUERIES];
    for (uint32_t i = 0; i < count; i++)
        ends[i] = w->high * w->wide;
    const struct attention_tile tile = {
        .queries = job->queries,
        .query_stride = job->head_dim,
        .out = job->sums,
        .out_stride = job->head_dim,
        .rows = count,
        .heads = 1,
        .head_dim = job->head_dim,
        .ends = ends,
        .scale = job->params->scale,
        .biases = job->features ? NULL : job->biases,
        .bias_stride = job->most,
        .cache_type = KV_CACHE_F32,
        .cache = (const uint8_t *)job->cache,
        .block_bytes = (size_t)2 * KV_BLOCK_TOKENS * job->head_dim * sizeof(float),
        .block_table = job->table,
        .scratch = job->kernel,
    };
    job->step->program->kernels->attention(&tile);
    for (uint32_t i = 0; i < count; i++)
        memcpy(cpu_step_row(job->step, job->op->output, rows[i]) + (size_t)w->head * job->head_dim,
               job->sums + (size_t)i * job->head_dim, job->head_dim * sizeof(float));
}

/* The part's rows of the window whose positions are in share `share` of `shares`. */
static void attend_window(const struct tile_job *job, const struct tile_window *w, uint32_t share,
                          uint32_t shares)
{
    const struct cpu_step *step = job->step;
    uint32_t square = job->features ? image_patches_square(step->patches) : 1;
    uint32_t rows[ATTENTION_QUERIES], count = 0, positions = w->high * w->wide;
    uint32_t end = (uint32_t)((uint64_t)positions * (share + 1) / shares);
    bool laid = false;
    for (uint32_t p = (uint32_t)((uint64_t)positions * share / shares); p < end; p++) {
        uint32_t row;
        bool mine = window_row(job, w, p, &row) && row >= step->part.first / square &&
                    row < step->part.end / square;
        if (mine && !laid)
            lay_window(job, w);
        if (mine) {
            laid = true;
            memcpy(job->queries + (size_t)count * job->head_dim,
                   cpu_step_row(step, job->op->inputs[0], row) + job->params->queries.offset +
                       (size_t)w->head * job->head_dim,
                   job->head_dim * sizeof(float));
            if (!job->features)
                lay_biases(job, w, p, count);
            rows[count++] = row;
        }
        if (count == ATTENTION_QUERIES || (count > 0 && p + 1 == end)) {
            attend(job, w, rows, count);
            count = 0;
        }
    }
}

/* Rows of the part that are a tile's lead row. */
static void clear_leads(const struct tile_job *job, uint32_t thread)
{
    struct row_share rows = cpu_step_share(job->step, PLAN_ROWS_PATCHES, thread);
    size_t bytes = job->step->program->tensors[job->op->output].columns * sizeof(float);
    for (uint32_t row = rows.begin; row < rows.end; row++)
        if (job->step->patches->places[row].lead)
            memset(cpu_step_row(job->step, job->op->output, row), 0, bytes);
}

/* Windows along a side of `patches`. */
static uint32_t windows_along(const struct tile_job *job, uint32_t patches)
{
    uint32_t window = job->params->window;
    return window > 0 ? (patches + window - 1) / window : 1;
}

/* Piece `piece` of a tile: a head of a window, or of a share of all rows. */
static struct tile_window tile_piece(const struct tile_job *job, const struct patch_tile *tile,
                                     uint32_t piece)
{
    const struct model_vision *vision = job->step->patches->vision;
    uint32_t window = job->params->window, number = piece / job->params->queries.heads;
    struct tile_window w = {.tile = tile, .head = piece % job->params->queries.heads};
    w.high = window > 0 ? window : tile->height;
    w.wide = window > 0 ? window : tile->width;
    if (window > 0) {
        w.top = number / windows_along(job, tile->width) * window;
        w.left = number % windows_along(job, tile->width) * window;
    }
    if (job->features) {
        uint32_t square = model_vision_square(vision), lead = vision->lead_row ? 1 : 0;
        w.first_row = tile->first_row / square - lead;
        w.high = 1;
        w.wide = tile->height * tile->width / square + lead;
    }
    return w;
}

/* Pieces of a tile that has rows of the part; 0 of others. */
static uint32_t tile_pieces(const struct tile_job *job, const struct patch_tile *tile,
                            uint32_t shares)
{
    const struct image_patches *patches = job->step->patches;
    uint32_t lead = patches->vision->lead_row ? image_patches_square(patches) : 0;
    uint32_t begin = tile->first_row - lead, end = tile->first_row + tile->height * tile->width;
    if (begin >= job->step->part.end || end <= job->step->part.first)
        return 0;
    return windows_along(job, tile->height) * windows_along(job, tile->width) * shares *
           job->params->queries.heads;
}

void cpu_tile_attention(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct image_patches *patches = step->patches;
    struct tile_job job = begin_job(step, index, thread);
    uint32_t heads = job.params->queries.heads, base = 0, t = 0;
    uint32_t shares = job.params->window > 0 ? 1 : (step->threads + heads - 1) / heads;
    if (!job.features)
        clear_leads(&job, thread);
    for (;;) {
        uint32_t piece = cpu_step_claim(step, index, 1), pieces = 0;
        for (; t < patches->tile_count; t++, base += pieces) {
            pieces = tile_pieces(&job, &patches->tiles[t], shares);
            if (piece - base < pieces)
                break;
        }
        if (t == patches->tile_count)
            return;
        struct tile_window w = tile_piece(&job, &patches->tiles[t], piece - base);
        attend_window(&job, &w, (piece - base) / heads % shares, shares);
    }
}
