/*
 * The part of attention_rows.comp and attention_codes.comp outside their loops over positions: the
 * workgroup's tile of queries and part of the context, its queries in shared memory, and the merge of
 * the sums that its subgroups leave there.
 *
 * Before including, the includer has the specialization constants that are named here, and
 *     const uint QUERIES      of the workgroup: HEAD_TILE heads of TILE_ROWS rows
 *     const uint HEAD_TILES   of a KV head
 *     const uint QUADS        vec4 that a head takes in shared memory, padded
 *     const uint SHARED_HEADS at least QUERIES, twice as many if MULTIPLIED, and SUBGROUPS * QUERIES
 *     const bool QUERIES_ALIGNED
 * and the names of score_cap.glsl and row_forms.glsl.
 */
const float MASKED = -1e38; /* a score */
const float LOG2_E = 1.4426950408889634;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t qkv;         /* f32 [rows, STRIDE] */
    uint64_t keys;        /* the layer's regions */
    uint64_t values;
    uint64_t items;       /* TILES: StepTile []; FUSE_AXES: StepSight [rows] */
    uint64_t sequences;   /* StepSequence [] */
    uint64_t tables;
    uint64_t partials;    /* attention_parts.glsl */
    uint64_t counters;    /* u32 per work item, KV head and head tile; 0 between dispatches */
    RowOutputs outputs;   /* [rows, query heads * HEAD_DIM] */
    /* Each of these three has one of two meanings; a specialization uses one of them at most. */
    uint64_t frequencies_or_tables; /* FUSED: f32 and u32 [ROPE_DIMS / 2]; ROTATED: KvTables */
    uint64_t query_norm_or_sights;  /* FUSE_NORM: f32 [HEAD_DIM]; SPANS: StepSight [rows] */
    uint64_t key_norm_or_sinks;     /* FUSE_NORM: f32 [HEAD_DIM]; SINKS: f32 [query heads] */
    float epsilon;
    float weight_offset;
} push;

/* Before the loop the queries [QUERIES, QUADS], followed by data of the includer; after it the sums of
 * every subgroup [SUBGROUPS, QUERIES, QUADS]. */
shared vec4 shared_heads[SHARED_HEADS * QUADS];
shared vec2 shared_softmax[SUBGROUPS * QUERIES]; /* {maximum, sum} */
shared float shared_levels[KV_LEVELS];      /* kv_level() */

/* The workgroup's tile and part of the context. */
uint kv_heads, kv_head, first_head; /* first_head: query head */
uint first_row, row_count, first_position;
uint table;
uint split, splits, begin, end; /* positions [begin, end) */


/* exp(sink - top) of query q's head, where heads have sinks; `top` in powers of two. */
float sink_weight(uint q, float top)
{
    uint heads = gl_NumWorkGroups.x / HEAD_TILES * GROUP_HEADS;
    uint head = min(first_head + q % HEAD_TILE, heads - 1);
    return SINKS ? exp2(Floats(push.key_norm_or_sinks).at[head] * LOG2_E - top) : 0.0;
}

uint parts_item()
{
    return gl_WorkGroupID.z;
}

#define PARTS_QUERIES QUERIES
#define PARTS_QUADS QUADS
#ifndef PARTS_AHEAD
#define PARTS_AHEAD (SPLITS < 16 ? SPLITS : 16)
#endif
#include "attention_parts.glsl"

bool find_work()
{
    kv_heads = gl_NumWorkGroups.x / HEAD_TILES;
    kv_head = gl_WorkGroupID.x / HEAD_TILES;
    first_head = kv_head * GROUP_HEADS + gl_WorkGroupID.x % HEAD_TILES * HEAD_TILE;
    uint sequence_index = gl_WorkGroupID.z;
    StepTile tile = StepTile(0, 0, 0, 0);
    if (TILES) {
        tile = StepTiles(push.items).at[gl_WorkGroupID.z];
        sequence_index = tile.sequence;
    }
    StepSequence sequence = StepSequences(push.sequences).at[sequence_index];
    table = sequence.table[KV_GROUP];
    first_row = TILES ? tile.first_row : sequence.first_row;
    row_count = TILES ? tile.row_count : sequence.row_count;
    first_position = TILES ? tile.first_position : sequence.first_position;
    if (row_count == 0 || row_count > TILE_ROWS)
        return false;
    uint last = first_position + row_count;
    uint first = WINDOW > 0 && first_position + 1 > WINDOW ? first_position + 1 - WINDOW : 0;
    if (SPANS) { /* ends never decrease from row to row, and all rows of a tile have the same begin */
        last = StepSights(push.query_norm_or_sights).at[first_row + row_count - 1].end;
        first = max(first, StepSights(push.query_norm_or_sights).at[first_row].begin);
    }
    uint aligned = first - first % KV_BLOCK_TOKENS;
    uint share = (last - aligned + SPLITS - 1) / SPLITS;
    share = max(SPLIT_TOKENS, (share + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
    splits = (last - aligned + share - 1) / share;
    split = gl_WorkGroupID.y;
    begin = max(first, aligned + split * share);
    end = min(last, aligned + (split + 1) * share);
    return split < splits;
}

/* --- queries --- */

/* Heads of this tile; the last one of a KV head may have fewer. */
uint tile_heads()
{
    return min(HEAD_TILE, GROUP_HEADS - gl_WorkGroupID.x % HEAD_TILES * HEAD_TILE);
}

/* The result of a query that sees no position must not be NaN. */
void clear_heads()
{
    for (uint i = gl_LocalInvocationIndex; i < SHARED_HEADS * QUADS; i += INVOCATIONS)
        shared_heads[i] = vec4(0.0);
    barrier();
}

void put_element(uint head, uint d, float x)
{
    shared_heads[head * QUADS + d / 4][d % 4] = x;
}

const uint TENSOR_QUADS = (HEAD_DIM + 3) / 4;
const uint QUERY_LOADS = (QUERIES * TENSOR_QUADS + INVOCATIONS - 1) / INVOCATIONS;

void load_queries(out vec4 quads[QUERY_LOADS])
{
    [[unroll]] for (uint j = 0; j < QUERY_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * INVOCATIONS;
        uint quad = i % TENSOR_QUADS, q = i / TENSOR_QUADS;
        uint h = q % HEAD_TILE, r = q / HEAD_TILE;
        quads[j] = vec4(0.0);
        if (q >= QUERIES || h >= tile_heads() || r >= row_count)
            continue;
        uint column = QUERY_OFFSET + (first_head + h) * HEAD_DIM + 4 * quad;
        uint64_t at = push.qkv + 4 * row_index(first_row + r, column, STRIDE);
        if (QUERIES_ALIGNED)
            quads[j] = RowFloats(at).value;
        else
            for (uint d = 0; d < min(4, HEAD_DIM - 4 * quad); d++)
                quads[j][d] = Floats(at).at[d];
    }
}

void put_queries(vec4 quads[QUERY_LOADS])
{
    [[unroll]] for (uint j = 0; j < QUERY_LOADS; j++) {
        uint i = gl_LocalInvocationIndex + j * INVOCATIONS;
        uint quad = i % TENSOR_QUADS, q = i / TENSOR_QUADS;
        if (q < QUERIES)
            shared_heads[q * QUADS + quad] = quads[j] * (SCALE * LOG2_E);
    }
}

void transform_heads(uint which)
{
    KvTables tables = KvTables(push.frequencies_or_tables);
    const uint elements = QUERIES * HEAD_DIM;
    for (uint i = gl_LocalInvocationIndex; which == 0 && i < elements; i += INVOCATIONS)
        shared_heads[i / 4][i % 4] *= tables.rotations[i % HEAD_DIM];
    for (uint half_size = 1; half_size < HEAD_DIM; half_size *= 2) {
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < elements / 2; i += INVOCATIONS) {
            uint at = i / half_size * 2 * half_size + i % half_size, other = at + half_size;
            float a = shared_heads[at / 4][at % 4], b = shared_heads[other / 4][other % 4];
            shared_heads[at / 4][at % 4] = a + b;
            shared_heads[other / 4][other % 4] = a - b;
        }
    }
    barrier();
    const float scale = inversesqrt(float(HEAD_DIM));
    for (uint i = gl_LocalInvocationIndex; i < elements; i += INVOCATIONS) {
        float factor = which == 0 ? scale : scale * tables.rotations[HEAD_DIM + i % HEAD_DIM];
        shared_heads[i / 4][i % 4] *= factor;
    }
    barrier();
}

/* Uses the heads after them as scratch memory. */
void multiply_heads(uint turn)
{
    KvTables tables = KvTables(push.frequencies_or_tables);
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * HEAD_DIM; i += INVOCATIONS) {
        uint to = i % HEAD_DIM, first = i - to, out_at = QUERIES * HEAD_DIM + i;
        float sum = 0.0;
        for (uint d = 0; d < HEAD_DIM; d++)
            sum += shared_heads[(first + d) / 4][d % 4] * kv_turn_factor(tables, turn, d, to);
        shared_heads[out_at / 4][i % 4] = sum;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * QUADS; i += INVOCATIONS)
        shared_heads[i] = shared_heads[QUERIES * QUADS + i];
    barrier();
}

/* Rotates the first QUERIES heads of shared memory as keys (0) are, or rotates them back as
 * values (1). Called by the whole workgroup, between barriers. */
void rotate_heads(uint which)
{
    if (MULTIPLIED)
        multiply_heads(which == 0 ? 0 : KV_TURN_BACK);
    else
        transform_heads(which);
}

void take_levels()
{
    for (uint i = gl_LocalInvocationIndex; i < KV_LEVELS; i += INVOCATIONS)
        shared_levels[i] = KvTables(push.frequencies_or_tables).levels[i / 16][i % 16];
}

/* --- merging --- */

/* A quad of query q over the workgroup's subgroups, and the query's {maximum, sum of weights}. */
vec4 merge_quad(uint q, uint quad, out vec2 softmax)
{
    vec2 one[SUBGROUPS];
    vec4 part[SUBGROUPS];
    [[unroll]] for (uint s = 0; s < SUBGROUPS; s++) {
        one[s] = shared_softmax[s * QUERIES + q];
        part[s] = shared_heads[(s * QUERIES + q) * QUADS + quad];
    }
    softmax = vec2(NOTHING, 0.0);
    [[unroll]] for (uint s = 0; s < SUBGROUPS; s++)
        softmax.x = max(softmax.x, one[s].x);
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint s = 0; s < SUBGROUPS; s++) {
        float factor = exp2(one[s].x - softmax.x);
        softmax.y += factor * one[s].y;
        sum += factor * part[s];
    }
    return sum;
}

void write_part()
{
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * QUADS; i += INVOCATIONS) {
        vec2 softmax;
        part_write_quad(i / QUADS, i % QUADS, merge_quad(i / QUADS, i % QUADS, softmax));
        if (i % QUADS == 0)
            part_write_softmax(i / QUADS, softmax);
    }
}

/* A quad of the result of query q, over all splits. */
vec4 attended_quad(uint q, uint quad)
{
    if (splits > 1)
        return parts_add_quad(q, quad);
    vec2 softmax;
    vec4 sum = merge_quad(q, quad, softmax);
    return sum / (softmax.y + sink_weight(q, softmax.x));
}

/* Writes the results of all queries to shared memory and rotates them back. Each quad is read and
 * overwritten by one invocation only. */
void rotate_back()
{
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * QUADS; i += INVOCATIONS)
        shared_heads[i] = attended_quad(i / QUADS, i % QUADS);
    barrier();
    rotate_heads(1);
}

/* The heads of a row lie side by side; with HEAD_DIM % 4 == 0 in whole quads. */
void write_outputs()
{
    uint columns = gl_NumWorkGroups.x / HEAD_TILES * GROUP_HEADS * HEAD_DIM;
    uint quads = (HEAD_DIM + 3) / 4;
    for (uint r = 0; r < row_count; r++) {
        for (uint first = 0; first < HEAD_TILE * quads; first += INVOCATIONS) {
            uint i = first + gl_LocalInvocationIndex, h = i / quads;
            bool there = h < tile_heads();
            vec4 x = vec4(0.0);
            if (there && ROTATED)
                x = shared_heads[(r * HEAD_TILE + h) * QUADS + i % quads];
            else if (there)
                x = attended_quad(r * HEAD_TILE + h, i % quads);
            uint column = (first_head + h) * HEAD_DIM + i % quads * 4;
            if (HEAD_DIM % 4 == 0)
                row_store(push.outputs, first_row + r, there ? column : columns, columns, x);
            else if (there)
                for (uint d = 0; d < min(4, HEAD_DIM - i % quads * 4); d++)
                    Floats(push.outputs.f32 + 4 * row_index(first_row + r, column + d, columns)).at[0] = x[d];
        }
    }
}
