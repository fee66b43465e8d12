#version 450
// needs: GL_KHR_cooperative_matrix
// variant: units -DUNITS=1
// variant: plain -DUNITS=0
/*
 * Decodes over keys and values in f16, in matrix units whose registers are filled by hand
 * (fragment_units.glsl): a lane loads what it holds of keys and values straight into registers, sixteen
 * bytes at a time, for all query heads of the KV head together, so that reading is all that takes time.
 *
 * A subgroup takes KV_BLOCK_TOKENS = 16 positions of a block at a time. Lane 4 g + t:
 *
 *   scores [16 positions, 8 queries] = keys [16, 16 dimensions] . queries [16, 8], 16 dimensions a step.
 *     The lane has positions 2 g and 2 g + 1 (rows g and g + 8), and of each 32 dimensions the t-th eight,
 *     for two steps. Keys and queries have the same order of dimensions; the sum does not depend on it.
 *   sums [16 dimensions, 8 queries] += values [16, 16 positions] . weights [16, 8]. The lane has
 *     positions 4 t, 4 t + 2, 4 t + 1, 4 t + 3, and of each 64 dimensions the g-th eight; a register holds
 *     one dimension of two positions. Weights come by shuffles from the lanes that have their scores.
 *
 * What queries lose when they become f16 is a second set of queries, so scores are as exact as in f32. With
 * four heads at most, both sets share a product: columns 4 to 7 are the rests of columns 0 to 3.
 *
 * A row's maximum is only updated, and its sums rescaled, when it grows by more than SLACK.
 *
 * attention_tile.glsl divides contexts into splits and merges them. Positions that the row does not see
 * have scores MASKED, and zeros for values, whatever the cache holds there.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#if UNITS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#endif
#define FORMS_CONSTANT 1
#include "kv_blocks.glsl"
#include "row_forms.glsl"
#include "score_cap.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint HEAD_DIM = 128;   /* a multiple of 64 */
layout(constant_id = 3) const uint GROUP_HEADS = 4;  /* query heads of a KV head */
layout(constant_id = 4) const uint HEAD_TILE = 4;    /* of those, in a workgroup: at most 8 */
layout(constant_id = 5) const uint TILE_BLOCKS = 1;  /* that a subgroup takes at once */
layout(constant_id = 6) const uint SUBGROUPS = 4;    /* of 32 invocations */
/* Constant 7 is not used: each number of splits would be a kernel of its own, compiled for seconds. */
#define SPLITS gl_NumWorkGroups.y
#define PARTS_AHEAD 4
layout(constant_id = 8) const uint SPLIT_TOKENS = 64; /* at least, of a split */
layout(constant_id = 9) const uint WINDOW = 0;
layout(constant_id = 10) const uint KV_GROUP = 0; /* which of a sequence's block tables */
layout(constant_id = 11) const uint STRIDE = 6144; /* columns of qkv */
layout(constant_id = 12) const uint QUERY_OFFSET = 0;
layout(constant_id = 13) const float SCALE = 0.08838834764831845; /* of q . k */
layout(constant_id = 14) const float SOFT_CAP = 0.0;              /* of scores; 0: none */
layout(constant_id = 15) const bool SINKS = false;
const uint KV_SCHEME = 0, GROUP_DIMS = 64;
#include "kv_codes.glsl"

const bool TILES = false, SPANS = false;
const uint TILE_ROWS = 1, QUERIES = HEAD_TILE;
const uint HEAD_TILES = (GROUP_HEADS + HEAD_TILE - 1) / HEAD_TILE;
const uint QUADS = HEAD_DIM / 4;
const uint SHARED_HEADS = SUBGROUPS * QUERIES;
const bool QUERIES_ALIGNED = (HEAD_DIM | QUERY_OFFSET | STRIDE) % 4 == 0;
#include "attention_tile.glsl"

const uint STEPS = HEAD_DIM / 16;                             /* products of a block */
const uint KEY_CHUNKS = HEAD_DIM / 32, VALUE_CHUNKS = HEAD_DIM / 64; /* of a lane and position */
const uint TILE_TOKENS = TILE_BLOCKS * KV_BLOCK_TOKENS;
const bool BESIDE = HEAD_TILE <= 4; /* the rests share a product */
const uint QUERY_SETS = BESIDE ? 1 : 2;
const float QUERY_TOP = 1024.0; /* what the query's largest element becomes */
const float SLACK = 4.0;

shared uvec2 shared_query[QUERY_SETS * STEPS * 32]; /* of column g */

#include "fragment_units.glsl"

uint g, t;
uint first_block, last_block; /* of the split, in the sequence's table */
uint blocks[TILE_BLOCKS];     /* of the tile that is loaded next */
uvec4 keys[TILE_BLOCKS * 2 * KEY_CHUNKS];     /* of positions 2 g and 2 g + 1 */
uvec4 values[TILE_BLOCKS * 4 * VALUE_CHUNKS]; /* of 4 t, 4 t + 2, 4 t + 1, 4 t + 3 */
vec2 query_factors; /* of columns 2 t and 2 t + 1, as everything in vec2 */
vec2 maximum, total;
SUMS sums[STEPS];
/* Scores of the tile: [2 * b + i] is position 2 * g + i of block b; then its weights, as halves. */
vec2 scores[TILE_BLOCKS * 2];
uint weights[TILE_BLOCKS * 2];

/* --- loads of a lane --- */

/* Of the subgroup's block b of a tile, in the sequence's table. Subgroups alternate. */
uint block_of(uint tile, uint b)
{
    return first_block + (tile * SUBGROUPS + SUBGROUP) * TILE_BLOCKS + b;
}

/* After the last block it is that one again, with no position seen. */
void find_blocks(uint tile)
{
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++)
        blocks[b] = StepWords(push.tables).at[table + min(block_of(tile, b), last_block)];
}

bool sees(uint position)
{
    return position >= begin && position < end;
}

void load_keys()
{
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
        KvPieces at = KvPieces(kv_address(push.keys, blocks[b], kv_heads, kv_head, 2 * g, HEAD_DIM));
        UNROLLED for (uint i = 0; i < 2; i++)
            UNROLLED for (uint c = 0; c < KEY_CHUNKS; c++)
                keys[(b * 2 + i) * KEY_CHUNKS + c] = at.at[i * (HEAD_DIM / 8) + 4 * c + t];
    }
}

void load_values(uint tile)
{
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
        KvPieces at = KvPieces(kv_address(push.values, blocks[b], kv_heads, kv_head, 4 * t, HEAD_DIM));
        uint first = block_of(tile, b) * KV_BLOCK_TOKENS + 4 * t;
        UNROLLED for (uint i = 0; i < 4; i++) {
            uint place = i % 2 * 2 + i / 2;
            bool seen = sees(first + place);
            UNROLLED for (uint c = 0; c < VALUE_CHUNKS; c++)
                values[(b * 4 + i) * VALUE_CHUNKS + c] =
                    seen ? at.at[place * (HEAD_DIM / 8) + 8 * c + g] : uvec4(0);
        }
    }
}

/* --- before the loop --- */

float query_element(uint q, uint d)
{
    return q < QUERIES ? shared_heads[q * QUADS + d / 4][d % 4] : 0.0;
}

/* x of columns 2 t and 2 t + 1, from the lanes that have x of column g. */
vec2 columns_of(float x)
{
    return vec2(take(x, 8 * t), take(x, 8 * t + 4));
}

uint query_pair(vec2 x, bool rest)
{
    uint halves = packFloat2x16(f16vec2(x));
    return rest ? packFloat2x16(f16vec2(x - unpackHalf2x16(halves))) : halves;
}

void take_queries()
{
    uint head = BESIDE ? g % 4 : g;
    float top = 1e-30;
    for (uint c = 0; c < KEY_CHUNKS; c++)
        for (uint d = 0; d < 8; d++)
            top = max(top, abs(query_element(head, 8 * (4 * c + t) + d)));
    UNROLLED for (uint step = 1; step < 4; step *= 2)
        top = max(top, take(top, LANE ^ step));
    query_factors = columns_of(top) / QUERY_TOP;
    float factor = QUERY_TOP / top;
    for (uint i = 0; i < STEPS && SUBGROUP == 0; i++) {
        uint d = 8 * (4 * (i / 2) + t) + 4 * (i % 2);
        vec2 low = vec2(query_element(head, d), query_element(head, d + 1)) * factor;
        vec2 high = vec2(query_element(head, d + 2), query_element(head, d + 3)) * factor;
        UNROLLED for (uint s = 0; s < QUERY_SETS; s++) {
            bool rest = BESIDE ? g >= 4 : s == 1;
            shared_query[(s * STEPS + i) * 32 + LANE] =
                uvec2(query_pair(low, rest), query_pair(high, rest));
        }
    }
}

void clear_sums()
{
    maximum = vec2(NOTHING);
    total = vec2(0.0);
    UNROLLED for (uint i = 0; i < STEPS; i++)
        sums[i] = SUMS(0.0);
}

/* --- a tile --- */

/* Computes scores of block b: positions 2 g and 2 g + 1, columns 2 t and 2 t + 1. */
void find_scores(uint b)
{
    SUMS products = SUMS(0.0);
    UNROLLED for (uint s = 0; s < QUERY_SETS; s++) {
        UNROLLED for (uint i = 0; i < STEPS; i++) {
            uvec4 low = keys[2 * b * KEY_CHUNKS + i / 2];
            uvec4 high = keys[(2 * b + 1) * KEY_CHUNKS + i / 2];
            multiply(i % 2 == 0 ? uvec4(low.xy, high.xy) : uvec4(low.zw, high.zw),
                     shared_query[(s * STEPS + i) * 32 + LANE], products);
        }
    }
    UNROLLED for (uint i = 0; i < 2; i++) {
        vec2 x = vec2(products[2 * i], products[2 * i + 1]);
        if (BESIDE)
            x += vec2(take(x.x, LANE ^ 2), take(x.y, LANE ^ 2));
        scores[2 * b + i] = x * query_factors;
    }
}

/* Rescales the sums to a larger maximum. */
void raise(vec2 top)
{
    top = max(maximum, positions_max(top));
    vec2 shrink = exp2(maximum - top);
    maximum = top;
    total *= shrink;
    UNROLLED for (uint i = 0; i < STEPS; i++)
        UNROLLED for (uint e = 0; e < 4; e++)
            sums[i][e] *= shrink[e % 2];
}

/* Turns the scores of the tile's blocks into weights. */
void weigh(uint tile)
{
    vec2 top = vec2(MASKED);
    UNROLLED for (uint i = 0; i < TILE_BLOCKS * 2; i++) {
        if (SOFT_CAP > 0.0) {
            scores[i].x = cap_score(scores[i].x, SOFT_CAP);
            scores[i].y = cap_score(scores[i].y, SOFT_CAP);
        }
        uint position = block_of(tile, i / 2) * KV_BLOCK_TOKENS + 2 * g + i % 2;
        scores[i] = sees(position) ? scores[i] : vec2(MASKED);
        top = max(top, scores[i]);
    }
    if (any_lane(top.x > maximum.x + SLACK || top.y > maximum.y + SLACK))
        raise(top);
    UNROLLED for (uint i = 0; i < TILE_BLOCKS * 2; i++) {
        weights[i] = packFloat2x16(f16vec2(exp2(scores[i] - maximum)));
        total += unpackHalf2x16(weights[i]); /* as they are used, however they were rounded */
    }
}

/* Weights of the lane's two positions, as halves of columns 2 t and 2 t + 1, become the lane's of
 * column g: of its four positions. */
uvec2 turn_weights(uint low, uint high)
{
    uint source = 8 * t + g / 2, shift = g % 2 * 16;
    uint a = take(low, source) >> shift, b = take(low, source + 4) >> shift;
    uint c = take(high, source) >> shift, d = take(high, source + 4) >> shift;
    return uvec2((a & 0xFFFF) | b << 16, (c & 0xFFFF) | d << 16);
}

uint low_pair(uint x, uint y)
{
    return (x & 0xFFFFu) | y << 16;
}

uint high_pair(uint x, uint y)
{
    return x >> 16 | (y & 0xFFFF0000u);
}

void add_values(uint b)
{
    uvec2 own = turn_weights(weights[2 * b], weights[2 * b + 1]);
    UNROLLED for (uint i = 0; i < STEPS; i++) {
        uint at = 4 * b * VALUE_CHUNKS + i / 4, word = i % 4;
        uint p = values[at][word], q = values[at + VALUE_CHUNKS][word];
        uint r = values[at + 2 * VALUE_CHUNKS][word], s = values[at + 3 * VALUE_CHUNKS][word];
        multiply(uvec4(low_pair(p, q), low_pair(r, s), high_pair(p, q), high_pair(r, s)), own,
                 sums[i]);
    }
}

/* --- after the loop --- */

void leave_sums()
{
    total = positions_sum(total);
    UNROLLED for (uint e = 0; e < 2; e++) {
        if (g == 0 && 2 * t + e < QUERIES)
            shared_softmax[SUBGROUP * QUERIES + 2 * t + e] = vec2(maximum[e], total[e]);
    }
    UNROLLED for (uint i = 0; i < STEPS; i++)
        UNROLLED for (uint e = 0; e < 4; e++)
    {
        uint q = 2 * t + e % 2, d = 8 * (g + 8 * (i / 4)) + 2 * (i % 4) + e / 2;
        if (q < QUERIES)
            shared_heads[(SUBGROUP * QUERIES + q) * QUADS + d / 4][d % 4] = sums[i][e];
    }
}

void main()
{
    g = LANE / 4;
    t = LANE % 4;
    if (!find_work())
        return;
    first_block = begin / KV_BLOCK_TOKENS;
    last_block = (end - 1) / KV_BLOCK_TOKENS;
    uint tiles = (last_block - first_block) / (SUBGROUPS * TILE_BLOCKS) + 1;
    find_blocks(0);
    vec4 raw[QUERY_LOADS];
    load_queries(raw);
    load_keys();
    load_values(0);
    find_blocks(1);
    put_queries(raw);
    barrier();
    take_queries();
    barrier();
    clear_sums();
    for (uint tile = 0; tile < tiles; tile++) {
        UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++)
            find_scores(b);
        if (tile + 1 < tiles)
            load_keys();
        weigh(tile);
        UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++)
            add_values(b);
        if (tile + 1 < tiles) {
            load_values(tile + 1);
            find_blocks(tile + 2);
        }
    }
    barrier();
    leave_sums();
    barrier();
    if (splits > 1) {
        write_part();
        if (!parts_complete())
            return;
    }
    write_outputs();
}
