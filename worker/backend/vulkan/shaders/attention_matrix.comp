#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * Attention of many rows (prompts) over the paged cache in the matrix units of a subgroup (KHR
 * cooperative matrix, f16 factors, f32 sums).
 *
 * A workgroup has TILE_ROWS consecutive rows of one sequence, each with HEAD_TILE query heads of one
 * KV head. Queries are numbered row by row, so a fragment of UNIT_ROWS queries is a few rows with all
 * their heads. Each subgroup owns FRAGMENTS such fragments and keeps their sums over the whole head in
 * matrix registers. Keys and values pass through shared memory, SPAN positions at a time; the next
 * ones are read from the cache while the products of these run.
 *
 * The lane of a matrix element is not known, so scores go through shared memory once: there lanes know
 * rows, compute maxima and exponentials, and leave the weights as f16 for the second product. A row's
 * maximum is only updated, and its sums rescaled, when it grows by more than RESCALE_SLACK; until then
 * weights are at most 2^RESCALE_SLACK, far inside f16.
 *
 * Contexts may be split over workgroups (SPLITS) as in attention_rows.comp; the last workgroup to
 * finish adds the parts in the order of their positions. The time of a workgroup grows with the
 * positions of a split, that of the merge with the number of splits; the total is smallest when both
 * are about equal.
 *
 * PACKED: keys and values are quantized (kv_codes.glsl). Codes are read ahead and converted to f16 when
 * they are written to shared memory, once for all rows of the tile. If rows are rotated, queries are
 * rotated before the loop and the means of values are rotated back after it; both are products with
 * the rotation's matrix, which passes through the same shared memory.
 *
 * HEAD_DIM is a multiple of the unit's sides. Positions that no query of the tile sees are not read;
 * positions that some queries see have weight 0 for the others.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define FORMS_CONSTANT 1
#include "kv_blocks.glsl"
#include "row_forms.glsl"
#include "score_cap.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const uint GROUP_HEADS = 4;
layout(constant_id = 4) const uint HEAD_TILE = 4;
layout(constant_id = 5) const uint TILE_ROWS = 16;
layout(constant_id = 6) const uint SPAN = 32; /* positions at a time: of 32, or a unit's side */
layout(constant_id = 7) const uint FRAGMENTS = 1;
layout(constant_id = 8) const uint SUBGROUPS = 4;
layout(constant_id = 9) const uint SPLITS = 1;
layout(constant_id = 10) const uint SPLIT_ROOT = 4; /* a split has so many roots of its context */
layout(constant_id = 11) const uint WINDOW = 0;
layout(constant_id = 12) const uint KV_GROUP = 0;
layout(constant_id = 13) const uint UNIT_ROWS = 16;
layout(constant_id = 14) const uint UNIT_COLUMNS = 16;
layout(constant_id = 15) const uint UNIT_K = 16;
layout(constant_id = 16) const bool QUERIES_F16 = false; /* qkv is f16 [rows, query heads * HEAD_DIM] */
layout(constant_id = 17) const uint STRIDE = 6144;
layout(constant_id = 18) const uint QUERY_OFFSET = 0;
layout(constant_id = 19) const uint SUBGROUP_SIZE = 32;
layout(constant_id = 20) const float SCALE = 0.08838834764831845;
layout(constant_id = 21) const float SOFT_CAP = 0.0; /* of scores; 0: none */
layout(constant_id = 22) const bool SINKS = false;
layout(constant_id = 23) const bool SPANS = false; /* rows see the positions of their sights */
layout(constant_id = 24) const uint KV_SCHEME = 0; /* kv_codes.glsl, as the next */
layout(constant_id = 25) const uint KEY_HALF_BITS = 16;
layout(constant_id = 26) const uint VALUE_HALF_BITS = 16;
layout(constant_id = 27) const uint GROUP_DIMS = 64;
#include "kv_codes.glsl"

const uint HEAD_TILES = (GROUP_HEADS + HEAD_TILE - 1) / HEAD_TILE;
const uint PART_QUERIES = FRAGMENTS * UNIT_ROWS; /* of a subgroup */
const uint TILE_QUERIES = SUBGROUPS * PART_QUERIES;
const uint HEAD_CHUNKS = HEAD_DIM / 8;
/* One chunk more than a row needs: the same chunk of eight rows lies in eight different banks. */
const uint ROW_CHUNKS = HEAD_CHUNKS + 1;
const uint SCORE_QUADS = SPAN / 4 + 1;
const uint WEIGHT_CHUNKS = SPAN / 8 + 1;
const uint LOADS = (SPAN * HEAD_CHUNKS + INVOCATIONS - 1) / INVOCATIONS;
const uint HEAD_KS = HEAD_DIM / UNIT_K, HEAD_COLUMNS = HEAD_DIM / UNIT_COLUMNS;
const uint SPAN_KS = SPAN / UNIT_K, SPAN_COLUMNS = SPAN / UNIT_COLUMNS;
const uint ROW_LANES = SUBGROUP_SIZE / UNIT_ROWS; /* of a row of scores */
const uint LANE_QUADS = SPAN / 4 / ROW_LANES;
const float MASKED = -1e38;
const float LOG2_E = 1.4426950408889634;
const float RESCALE_SLACK = 6.0;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Halves4 { f16vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };

/* The push constants of attention_rows.comp. */
layout(push_constant) uniform Push
{
    uint64_t qkv;
    uint64_t keys;
    uint64_t values;
    uint64_t items;
    uint64_t sequences;
    uint64_t tables;
    uint64_t partials;
    uint64_t counters;
    RowOutputs outputs;
    uint64_t kv_tables; /* ROTATED: KvTables */
    uint64_t sights;    /* SPANS: StepSight [rows] */
    uint64_t sinks;     /* SINKS: f32 [query heads] */
    float epsilon;
    float weight_offset;
} push;

shared uvec4 stage[2 * SPAN * ROW_CHUNKS]; /* keys, then values: halves [SPAN][HEAD_DIM] */
shared vec4 scores[SUBGROUPS * UNIT_ROWS * SCORE_QUADS];
shared uvec4 weights[TILE_QUERIES * WEIGHT_CHUNKS];
shared uint level_halves[KV_LEVELS]; /* ROTATED: kv_level() */

uint kv_heads, kv_head, first_head;
uint first_row, row_count, first_position;
uint table;
uint first_seen; /* by any row of the tile */
uint split, splits, begin, end;
uint score_base; /* the subgroup's quads in `scores` */

/* exp(sink - top) of query q's head, where heads have sinks; `top` in powers of two. */
float sink_weight(uint q, float top)
{
    uint heads = gl_NumWorkGroups.x / HEAD_TILES * GROUP_HEADS;
    uint head = min(first_head + q % HEAD_TILE, heads - 1);
    return SINKS ? exp2(Floats(push.sinks).at[head] * LOG2_E - top) : 0.0;
}

/* Tiles are in the order of their rows; the last ones see the most positions, so they begin first. */
uint parts_item()
{
    return gl_NumWorkGroups.z - 1 - gl_WorkGroupID.z;
}

#define PARTS_QUERIES TILE_QUERIES
#define PARTS_QUADS (HEAD_DIM / 4)
#define PARTS_AHEAD 4
#include "attention_parts.glsl"

uvec4 next_keys[LOADS], next_values[LOADS]; /* PACKED: codes, until unpack_span() */
uint next_blocks[LOADS];
coopmat<float16_t, gl_ScopeSubgroup, UNIT_ROWS, UNIT_K, gl_MatrixUseA> query[FRAGMENTS * HEAD_KS];
coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>
    sums[FRAGMENTS * HEAD_COLUMNS];
/* For the lane's row in each fragment; `total` sums the lane's own positions. */
float maximum[FRAGMENTS], total[FRAGMENTS];
uint row_end[FRAGMENTS]; /* SPANS: end of the positions that it sees */

bool find_work()
{
    kv_heads = gl_NumWorkGroups.x / HEAD_TILES;
    kv_head = gl_WorkGroupID.x / HEAD_TILES;
    first_head = kv_head * GROUP_HEADS + gl_WorkGroupID.x % HEAD_TILES * HEAD_TILE;
    StepTile tile = StepTiles(push.items).at[parts_item()];
    if (tile.row_count == 0 || tile.row_count > TILE_ROWS)
        return false;
    table = StepSequences(push.sequences).at[tile.sequence].table[KV_GROUP];
    first_row = tile.first_row;
    row_count = tile.row_count;
    first_position = tile.first_position;
    uint last = first_position + row_count;
    first_seen = WINDOW > 0 && first_position + 1 > WINDOW ? first_position + 1 - WINDOW : 0;
    if (SPANS) { /* ends never decrease from row to row, and all rows of a tile have the same begin */
        last = StepSights(push.sights).at[first_row + row_count - 1].end;
        first_seen = max(first_seen, StepSights(push.sights).at[first_row].begin);
    }
    /* In windows a position's place in its span does not depend on the tile. */
    uint aligned = first_seen - first_seen % (WINDOW > 0 ? SPAN : KV_BLOCK_TOKENS);
    uint least = max(2 * SPAN, uint(ceil(float(SPLIT_ROOT) * sqrt(float(last - aligned)))));
    uint share = max((last - aligned + SPLITS - 1) / SPLITS, least);
    share = (share + SPAN - 1) / SPAN * SPAN;
    splits = (last - aligned + share - 1) / share;
    split = gl_WorkGroupID.y;
    begin = aligned + split * share;
    end = min(last, begin + share);
    return split < splits;
}

/* A block of which no query of the tile sees a position may have been given back. */
bool is_read(uint position)
{
    return position >= first_seen && position < end;
}

uint tile_heads()
{
    return min(HEAD_TILE, GROUP_HEADS - gl_WorkGroupID.x % HEAD_TILES * HEAD_TILE);
}

/* --- keys and values into shared memory --- */

uint half_bits_of(uint which)
{
    return which == 0 ? KEY_HALF_BITS : VALUE_HALF_BITS;
}

/* Eight elements of a position's key (0) or value (1); codes where they are packed. */
uvec4 load_chunk(uint which, uint block, uint slot, uint chunk)
{
    uint64_t region = which == 0 ? push.keys : push.values;
    uint half_bits = half_bits_of(which);
    if (PACKED)
        return kv_load_codes(kv_side_address(region, half_bits, block, kv_heads, kv_head), half_bits,
                             slot, chunk);
    return KvPieces(kv_address(region, block, kv_heads, kv_head, slot, HEAD_DIM)).at[chunk];
}

/* The halves of a row's eight elements `chunk`. A position that was not read has scale and bias 0, and so
 * zeros. */
uvec4 unpack_chunk(uint which, uint chunk, uvec4 codes)
{
    if (!PACKED)
        return codes;
    uint half_bits = half_bits_of(which), bits = kv_piece_bits(half_bits, chunk);
    f16vec2 terms = unpackFloat2x16(codes.z); /* scale, bias */
    uvec4 halves;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint a = kv_code(codes, half_bits, chunk, 2 * i), b = kv_code(codes, half_bits, chunk, 2 * i + 1);
        f16vec2 x;
        if (ROTATED) {
            uint low = level_halves[kv_level(bits, a)], high = level_halves[kv_level(bits, b)];
            x = unpackFloat2x16(low | high << 16) * terms.x;
        } else { /* 0x6400 is 1024, whose last bits are units */
            x = unpackFloat2x16(a | b << 16 | 0x64006400) - f16vec2(1024.0);
            x = clamp(fma(x, terms.xx, terms.yy), f16vec2(-KV_LARGEST), f16vec2(KV_LARGEST));
        }
        halves[i] = packFloat2x16(x);
    }
    return halves;
}

void take_levels()
{
    for (uint i = gl_LocalInvocationIndex; i < KV_LEVELS; i += INVOCATIONS)
        level_halves[i] = packFloat2x16(
            f16vec2(KvTables(push.kv_tables).levels[i / 16][i % 16], 0.0));
}

void find_blocks(uint first)
{
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint position = first + (gl_LocalInvocationIndex + i * INVOCATIONS) / HEAD_CHUNKS;
        next_blocks[i] = 0;
        if (is_read(position))
            next_blocks[i] = StepWords(push.tables).at[table + position / KV_BLOCK_TOKENS];
    }
}

void load_span(uint first)
{
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uint position = first + item / HEAD_CHUNKS, chunk = item % HEAD_CHUNKS;
        bool read = is_read(position) && item < SPAN * HEAD_CHUNKS;
        uint slot = position % KV_BLOCK_TOKENS;
        next_keys[i] = read ? load_chunk(0, next_blocks[i], slot, chunk) : uvec4(0);
        next_values[i] = read ? load_chunk(1, next_blocks[i], slot, chunk) : uvec4(0);
    }
}

/* Converts the codes that were read to f16. Called before the barrier at which subgroups with unfinished
 * products are waited for: between the two barriers around put_span() no subgroup has products. */
void unpack_span()
{
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint chunk = (gl_LocalInvocationIndex + i * INVOCATIONS) % HEAD_CHUNKS;
        next_keys[i] = unpack_chunk(0, chunk, next_keys[i]);
        next_values[i] = unpack_chunk(1, chunk, next_values[i]);
    }
}

void put_span()
{
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uint at = item / HEAD_CHUNKS * ROW_CHUNKS + item % HEAD_CHUNKS;
        if (SPAN * HEAD_CHUNKS % INVOCATIONS == 0 || item < SPAN * HEAD_CHUNKS) {
            stage[at] = next_keys[i];
            stage[SPAN * ROW_CHUNKS + at] = next_values[i];
        }
    }
}

/* Barrier between lanes of a subgroup that share a part of shared memory. All subgroups of a workgroup
 * call it equally often, because Mesa's CPU driver counts it among the workgroup's barriers. */
void sync_subgroup()
{
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

/* The place of a lane among the scores of a fragment. */
uint lane_row()
{
    return gl_SubgroupInvocationID / ROW_LANES;
}

uint lane_quad()
{
    return gl_SubgroupInvocationID % ROW_LANES;
}

/* Copies SPAN columns of fragment f's sums to the subgroup's place for scores. */
void store_slice(uint f, uint slice)
{
    [[unroll]] for (uint n = 0; n < SPAN_COLUMNS; n++)
        if (slice + n * UNIT_COLUMNS < HEAD_DIM)
            coopMatStore(sums[f * HEAD_COLUMNS + slice / UNIT_COLUMNS + n], scores,
                         score_base + n * UNIT_COLUMNS / 4, SCORE_QUADS,
                         gl_CooperativeMatrixLayoutRowMajor);
}

/* --- queries --- */

/* Four columns of query q of the tile, scaled for exp2; 0 where there is none. */
f16vec4 load_query(uint q, uint column)
{
    uint r = q / HEAD_TILE, h = q % HEAD_TILE;
    if (r >= row_count || h >= tile_heads() || column >= HEAD_DIM)
        return f16vec4(0.0);
    uint at = (first_head + h) * HEAD_DIM + column;
    vec4 x;
    if (QUERIES_F16) {
        uint width = gl_NumWorkGroups.x / HEAD_TILES * GROUP_HEADS * HEAD_DIM;
        x = vec4(Halves4(push.qkv + 2 * row_index(first_row + r, at, width)).at[0]);
    } else {
        uint64_t address = push.qkv + 4 * row_index(first_row + r, QUERY_OFFSET + at, STRIDE);
        x = (STRIDE | QUERY_OFFSET) % 4 == 0 ? RowFloats(address).value
                                             : vec4(Floats(address).at[0], Floats(address).at[1],
                                                    Floats(address).at[2], Floats(address).at[3]);
    }
    return f16vec4(clamp(x * (SCALE * LOG2_E), -KV_LARGEST, KV_LARGEST));
}

/* SPAN columns of fragment f, which lie in the subgroup's place for weights. */
void load_slice(uint f, uint slice)
{
    uint base = (gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS) * WEIGHT_CHUNKS;
    [[unroll]] for (uint k = 0; k < SPAN_KS; k++)
        if (slice + k * UNIT_K < HEAD_DIM)
            coopMatLoad(query[f * HEAD_KS + slice / UNIT_K + k], weights, base + k * UNIT_K / 8,
                        WEIGHT_CHUNKS, gl_CooperativeMatrixLayoutRowMajor);
}

void take_queries()
{
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        uint first = gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS;
        uint base = first * WEIGHT_CHUNKS;
        [[unroll]] for (uint slice = 0; slice < HEAD_DIM; slice += SPAN) {
            for (uint i = gl_SubgroupInvocationID; i < UNIT_ROWS * SPAN / 8; i += gl_SubgroupSize) {
                uint r = i / (SPAN / 8), c = i % (SPAN / 8);
                f16vec4 low = load_query(first + r, slice + 8 * c);
                f16vec4 high = load_query(first + r, slice + 8 * c + 4);
                weights[base + r * WEIGHT_CHUNKS + c] =
                    uvec4(packFloat2x16(low.xy), packFloat2x16(low.zw), packFloat2x16(high.xy),
                          packFloat2x16(high.zw));
            }
            sync_subgroup();
            load_slice(f, slice);
            sync_subgroup();
        }
        maximum[f] = NOTHING;
        total[f] = 0.0;
        uint row = (first + lane_row()) / HEAD_TILE;
        if (SPANS)
            row_end[f] = StepSights(push.sights).at[first_row + min(row, row_count - 1)].end;
    }
}

void clear_sums()
{
    [[unroll]] for (uint i = 0; i < FRAGMENTS * HEAD_COLUMNS; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>(0.0);
}

/* --- the rotated space --- */

/* Eight elements of row k of the matrix that rotates queries as keys are (0), or turns values' means
 * back (1), times sqrt(HEAD_DIM). */
uvec4 rotation_chunk(uint which, uint k, uint chunk)
{
    KvTables tables = KvTables(push.kv_tables);
    uvec4 halves;
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint d = 8 * chunk + i;
        uint one;
        if (MULTIPLIED) {
            float x = kv_turn_factor(tables, which == 0 ? 0 : KV_TURN_BACK, k, d);
            one = packFloat2x16(f16vec2(x * sqrt(float(HEAD_DIM)), 0.0));
        } else {
            float x = tables.rotations[which == 0 ? k : HEAD_DIM + d];
            one = 0x3C00 | (floatBitsToUint(x) >> 31 ^ bitCount(k & d) & 1) << 15;
        }
        halves[i / 2] = i % 2 == 0 ? one : halves[i / 2] | one << 16;
    }
    return halves;
}

/* The sums become the products of `query` and that matrix, as many of whose rows at a time lie in
 * shared memory as keys and values of a span. By all of the workgroup. */
void multiply_rotation(uint which)
{
    clear_sums();
    [[unroll]] for (uint first = 0; first < HEAD_DIM; first += 2 * SPAN) {
        uint rows = min(2 * SPAN, HEAD_DIM - first);
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < rows * HEAD_CHUNKS; i += INVOCATIONS)
            stage[i / HEAD_CHUNKS * ROW_CHUNKS + i % HEAD_CHUNKS] =
                rotation_chunk(which, first + i / HEAD_CHUNKS, i % HEAD_CHUNKS);
        barrier();
        [[unroll]] for (uint k = 0; k < 2 * SPAN_KS; k++)
            [[unroll]] for (uint j = 0; j < HEAD_COLUMNS; j++)
                if (first + k * UNIT_K < HEAD_DIM)
        {
            coopmat<float16_t, gl_ScopeSubgroup, UNIT_K, UNIT_COLUMNS, gl_MatrixUseB> columns;
            coopMatLoad(columns, stage, k * UNIT_K * ROW_CHUNKS + j * UNIT_COLUMNS / 8, ROW_CHUNKS,
                        gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
                sums[f * HEAD_COLUMNS + j] =
                    coopMatMulAdd(query[f * HEAD_KS + first / UNIT_K + k], columns,
                                  sums[f * HEAD_COLUMNS + j]);
        }
    }
}

/* The sums of fragment f, times `factor` of the lane's row, in place of its queries. */
void take_sums(uint f, float factor)
{
    uint base = (gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS) * WEIGHT_CHUNKS;
    [[unroll]] for (uint slice = 0; slice < HEAD_DIM; slice += SPAN) {
        store_slice(f, slice);
        sync_subgroup();
        for (uint i = gl_SubgroupInvocationID; i < UNIT_ROWS * SPAN / 4; i += gl_SubgroupSize) {
            uint r = i / (SPAN / 4), quad = i % (SPAN / 4), word = quad % 2 * 2;
            vec4 x = scores[score_base + r * SCORE_QUADS + quad] *
                     subgroupShuffle(factor, r * ROW_LANES);
            f16vec4 halves = f16vec4(clamp(x, -KV_LARGEST, KV_LARGEST));
            weights[base + r * WEIGHT_CHUNKS + quad / 2][word] = packFloat2x16(halves.xy);
            weights[base + r * WEIGHT_CHUNKS + quad / 2][word + 1] = packFloat2x16(halves.zw);
        }
        sync_subgroup();
        load_slice(f, slice);
        sync_subgroup();
    }
}

void rotate_queries()
{
    multiply_rotation(0);
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
        take_sums(f, inversesqrt(float(HEAD_DIM)));
}

/* --- the running softmax --- */

/* Multiplies the rows of a fragment's sums by the factors that weigh() left in place of their scores. */
void rescale(uint f)
{
    coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator> factors;
    coopMatLoad(factors, scores, score_base, SCORE_QUADS, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint j = 0; j < HEAD_COLUMNS; j++)
        sums[f * HEAD_COLUMNS + j] *= factors;
}

/* The lane's scores of positions from `first` on, into weights of fragment f. Whether sums must be
 * rescaled: then each row of scores has its factor in the first columns instead (places that only
 * the same lane has read). */
bool weigh(uint f, uint first, bool some_unseen)
{
    uint q = gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS + lane_row();
    uint own = first_position + q / HEAD_TILE;
    vec4 s[LANE_QUADS];
    float top = MASKED;
    [[unroll]] for (uint i = 0; i < LANE_QUADS; i++) {
        uint quad = i * ROW_LANES + lane_quad();
        s[i] = scores[score_base + lane_row() * SCORE_QUADS + quad];
        if (SOFT_CAP > 0.0)
            [[unroll]] for (uint e = 0; e < 4; e++)
                s[i][e] = cap_score(s[i][e], SOFT_CAP);
        if (some_unseen) {
            uvec4 position = first + 4 * quad + uvec4(0, 1, 2, 3);
            [[unroll]] for (uint e = 0; e < 4; e++) {
                bool seen = (SPANS ? position[e] >= first_seen && position[e] < row_end[f]
                                   : position[e] <= own) &&
                            position[e] < end &&
                            (WINDOW == 0 || position[e] + WINDOW > own);
                s[i][e] = seen ? s[i][e] : MASKED;
            }
        }
        top = max(top, max(max(s[i].x, s[i].y), max(s[i].z, s[i].w)));
    }
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        top = max(top, subgroupShuffleXor(top, step));
    bool grows = top > maximum[f] + RESCALE_SLACK;
    bool rescales = subgroupAny(grows);
    if (rescales) {
        float factor = grows ? exp2(maximum[f] - top) : 1.0;
        maximum[f] = grows ? top : maximum[f];
        total[f] *= factor;
        [[unroll]] for (uint i = 0; i < UNIT_COLUMNS / 4; i++)
            if (i % ROW_LANES == lane_quad())
                scores[score_base + lane_row() * SCORE_QUADS + i] = vec4(factor);
    }
    uint base = (gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS + lane_row()) * WEIGHT_CHUNKS;
    [[unroll]] for (uint i = 0; i < LANE_QUADS; i++) {
        uint quad = i * ROW_LANES + lane_quad();
        vec4 p = exp2(s[i] - maximum[f]);
        total[f] += (p.x + p.y) + (p.z + p.w);
        f16vec4 halves = f16vec4(p);
        uint word = quad % 2 * 2;
        weights[base + quad / 2][word] = packFloat2x16(halves.xy);
        weights[base + quad / 2][word + 1] = packFloat2x16(halves.zw);
    }
    return rescales;
}

void visit_span(uint first)
{
    coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>
        part[FRAGMENTS * SPAN_COLUMNS];
    [[unroll]] for (uint n = 0; n < SPAN_COLUMNS; n++) {
        [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
            part[f * SPAN_COLUMNS + n] =
                coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint k = 0; k < HEAD_KS; k++) {
            coopmat<float16_t, gl_ScopeSubgroup, UNIT_K, UNIT_COLUMNS, gl_MatrixUseB> keys;
            coopMatLoad(keys, stage, n * UNIT_COLUMNS * ROW_CHUNKS + k * UNIT_K / 8, ROW_CHUNKS,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
                part[f * SPAN_COLUMNS + n] =
                    coopMatMulAdd(query[f * HEAD_KS + k], keys, part[f * SPAN_COLUMNS + n]);
        }
    }
    bool some_unseen = first + SPAN > first_position + 1 || first + SPAN > end || WINDOW > 0 ||
                       (SPANS && first < first_seen);
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        [[unroll]] for (uint n = 0; n < SPAN_COLUMNS; n++)
            coopMatStore(part[f * SPAN_COLUMNS + n], scores, score_base + n * UNIT_COLUMNS / 4,
                         SCORE_QUADS, gl_CooperativeMatrixLayoutRowMajor);
        sync_subgroup();
        bool rescales = weigh(f, first, some_unseen);
        sync_subgroup();
        if (rescales)
            rescale(f);
        if (f + 1 < FRAGMENTS)
            sync_subgroup();
    }
    [[unroll]] for (uint k = 0; k < SPAN_KS; k++) {
        coopmat<float16_t, gl_ScopeSubgroup, UNIT_ROWS, UNIT_K, gl_MatrixUseA> weight[FRAGMENTS];
        [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
            coopMatLoad(weight[f], weights,
                        (gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS) * WEIGHT_CHUNKS + k * UNIT_K / 8,
                        WEIGHT_CHUNKS, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < HEAD_COLUMNS; j++) {
            coopmat<float16_t, gl_ScopeSubgroup, UNIT_K, UNIT_COLUMNS, gl_MatrixUseB> values;
            coopMatLoad(values, stage,
                        (SPAN + k * UNIT_K) * ROW_CHUNKS + j * UNIT_COLUMNS / 8, ROW_CHUNKS,
                        gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
                sums[f * HEAD_COLUMNS + j] =
                    coopMatMulAdd(weight[f], values, sums[f * HEAD_COLUMNS + j]);
        }
    }
}

/* --- output --- */

/* Four columns of query q, to its row; the lanes of a subgroup store together. */
void store_quad(uint q, uint column, vec4 x)
{
    uint columns = gl_NumWorkGroups.x / HEAD_TILES * GROUP_HEADS * HEAD_DIM;
    uint r = q / HEAD_TILE, h = q % HEAD_TILE;
    bool there = r < row_count && h < tile_heads() && column < HEAD_DIM;
    row_store(push.outputs, there ? first_row + r : 0,
              there ? (first_head + h) * HEAD_DIM + column : columns, columns, x);
}

/* The sums of a fragment, divided by `divisor` of the lane's row, SPAN columns at a time through
 * shared memory: to the output, or as a part of several. */
void write_fragment(uint f, float divisor)
{
    uint first = gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS;
    [[unroll]] for (uint slice = 0; slice < HEAD_DIM; slice += SPAN) {
        store_slice(f, slice);
        sync_subgroup();
        for (uint i = gl_SubgroupInvocationID; i < UNIT_ROWS * SPAN / 4; i += gl_SubgroupSize) {
            uint r = i / (SPAN / 4), quad = i % (SPAN / 4), column = slice + 4 * quad;
            vec4 x = scores[score_base + r * SCORE_QUADS + quad] /
                     subgroupShuffle(divisor, r * ROW_LANES);
            if (splits == 1)
                store_quad(first + r, column, x);
            else if (column < HEAD_DIM)
                part_write_quad(first + r, column / 4, x);
        }
        sync_subgroup();
    }
}

void add_parts()
{
    if (!parts_complete())
        return;
    const uint quads = HEAD_DIM / 4;
    uint count = row_count * HEAD_TILE * quads;
    for (uint first = 0; first < count; first += INVOCATIONS) {
        uint i = first + gl_LocalInvocationIndex;
        bool there = i < count;
        vec4 x = there ? parts_add_quad(i / quads, i % quads) : vec4(0.0);
        store_quad(i / quads, there ? i % quads * 4 : HEAD_DIM, x);
    }
}

/* Rotating back takes f16, so sums become means of values first, since sums may be too large. If a row
 * sees no position of this part of the context, its sums are 0. */
void rotate_back()
{
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
        take_sums(f, total[f] > 0.0 ? 1.0 / total[f] : 0.0);
    multiply_rotation(1);
}

void finish()
{
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++)
        [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
            total[f] += subgroupShuffleXor(total[f], step);
    if (ROTATED)
        rotate_back();
    [[unroll]] for (uint f = 0; f < FRAGMENTS; f++) {
        uint q = gl_SubgroupID * PART_QUERIES + f * UNIT_ROWS + lane_row();
        if (splits > 1 && lane_quad() == 0)
            part_write_softmax(q, vec2(maximum[f], total[f]));
        float divisor = splits == 1 ? total[f] + sink_weight(q, maximum[f]) : 1.0;
        if (ROTATED && total[f] > 0.0)
            divisor *= sqrt(float(HEAD_DIM)) / total[f];
        write_fragment(f, divisor);
    }
}

void main()
{
    score_base = gl_SubgroupID * UNIT_ROWS * SCORE_QUADS;
    if (!find_work())
        return;
    find_blocks(begin);
    load_span(begin);
    find_blocks(begin + SPAN);
    if (ROTATED)
        take_levels(); /* rotate_queries() has a barrier */
    take_queries();
    if (ROTATED)
        rotate_queries();
    clear_sums();
    unpack_span();
    for (uint first = begin; first < end; first += SPAN) {
        barrier();
        put_span();
        barrier();
        bool more = first + SPAN < end;
        if (more) {
            load_span(first + SPAN);
            find_blocks(first + 2 * SPAN);
        }
        visit_span(first);
        if (more)
            unpack_span();
    }
    finish();
    if (splits > 1)
        add_parts();
}
