#version 450
/*
 * Attention over the paged cache in plain f32 arithmetic: the decode kernel, and the kernel for
 * rows of prompts on devices without matrix units.
 *
 * A workgroup has QUERIES queries that share one KV head: HEAD_TILE heads of TILE_ROWS consecutive
 * rows, so each key and value read serves all of them. LANES neighbouring invocations hold one
 * position, each some pieces of 8 dimensions (one 16-byte load); a workgroup visits STEP_TOKENS
 * positions at once and keeps UNROLL such loads of keys and values in flight. Every such team of
 * lanes has its own running softmax over the positions it saw, so the loop has no barrier; teams
 * are merged at the end in a fixed order.
 *
 * Within a team the UNROLL x QUERIES scores, partial in every lane, are reduced and scattered at
 * once: each lane ends up with its own few complete scores, takes their exponentials, and hands the
 * weights out by shuffles.
 *
 * Long contexts are split over workgroups (SPLITS at most). How many there are follows from the
 * row's own length alone, on the device, so that recorded commands stay valid; superfluous
 * workgroups leave at once. The last workgroup of a tile to finish, by a counter that it sets back,
 * adds up the parts in the order of their positions.
 *
 * FUSED: the workgroup first does for its own row what rope_kv_write does: norms (FUSE_NORM) and
 * rotates its queries and the row's key, and the one with the last positions writes key and value
 * to the cache. Only for one row of a sequence in a step, because nobody waits for the others' keys.
 *
 * Positions a query may not see are neither read nor added: what lies in blocks beyond the end or
 * given back does not matter.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define FORMS_CONSTANT 1
#include "kv_blocks.glsl"
#include "rope_angle.glsl"
#include "row_forms.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const uint GROUP_HEADS = 4; /* query heads of a KV head */
layout(constant_id = 4) const uint HEAD_TILE = 4;   /* of those, in a workgroup */
layout(constant_id = 5) const uint TILE_ROWS = 1;
layout(constant_id = 6) const uint LANES = 16; /* of a position: a power of two, >= QUERIES */
layout(constant_id = 7) const uint UNROLL = 4; /* a power of two */
layout(constant_id = 8) const uint SUBGROUPS = 4;
layout(constant_id = 9) const uint SPLITS = 16;       /* at most */
layout(constant_id = 10) const uint SPLIT_TOKENS = 32; /* at least, of a split */
layout(constant_id = 11) const uint WINDOW = 0;
layout(constant_id = 12) const uint KV_GROUP = 0; /* which of a sequence's block tables */
layout(constant_id = 13) const uint FUSE = 0;     /* bit 0 rope and write, bit 1 norm before */
layout(constant_id = 14) const uint PAIRING = 0;
layout(constant_id = 15) const uint ROPE_DIMS = 128;
layout(constant_id = 16) const bool TILES = false; /* work items are tiles, not sequences */
layout(constant_id = 17) const uint STRIDE = 6144; /* columns of qkv */
layout(constant_id = 18) const uint QUERY_OFFSET = 0;
layout(constant_id = 19) const uint KEY_OFFSET = 4096;
layout(constant_id = 20) const uint VALUE_OFFSET = 5120;
layout(constant_id = 21) const float SCALE = 0.08838834764831845; /* of q . k */
layout(constant_id = 22) const float MAGNITUDE = 1.0;             /* of cosines and sines */
layout(constant_id = 23) const bool AHEAD = false; /* load a tile while the one before is used */

const bool FUSED = (FUSE & 1) != 0, FUSE_NORM = (FUSE & 2) != 0;
const uint QUERIES = HEAD_TILE * TILE_ROWS;
const uint QUERIES_PADDED = QUERIES <= 1    ? 1
                            : QUERIES <= 2  ? 2
                            : QUERIES <= 4  ? 4
                            : QUERIES <= 8  ? 8
                            : QUERIES <= 16 ? 16
                                            : 32;
const uint HEAD_TILES = (GROUP_HEADS + HEAD_TILE - 1) / HEAD_TILE;
const uint PIECES = (HEAD_DIM + 7) / 8;                  /* of a head */
const uint HELD_PIECES = (PIECES + LANES - 1) / LANES;   /* by a lane */
const uint QUADS = 2 * PIECES;                           /* a head in vec4, padded */
const uint STEP_TOKENS = INVOCATIONS / LANES;
const uint TILE_TOKENS = STEP_TOKENS * UNROLL;
const uint SCORES = QUERIES_PADDED * UNROLL;
const uint HELD_SCORES = SCORES > LANES ? SCORES / LANES : 1; /* by a lane; <= UNROLL */
const uint COPIES = SCORES < LANES ? LANES / SCORES : 1;      /* lanes that hold the same score */
const uint SHARERS = LANES / QUERIES_PADDED;                  /* lanes with scores of one query */
const bool QUERIES_ALIGNED = (HEAD_DIM | QUERY_OFFSET | STRIDE) % 4 == 0;
/* Whether shared memory has places that no query fills: counted, because a chain of || between
 * specialization constants is more than glslang 15 can compile. */
const uint GAPS = HEAD_DIM % 8 + GROUP_HEADS % HEAD_TILE + TILE_ROWS - 1;
const uint PARTIAL_QUADS = QUERIES * QUADS + (QUERIES + 1) / 2;
const uint PARTS_AHEAD = 16;
const float MASKED = -1e38, NOTHING = -1e30; /* a score; a maximum of none */
const float LOG2_E = 1.4426950408889634;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer PartialPairs { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counters { uint at[]; };

layout(push_constant) uniform Push
{
    uint64_t qkv;         /* f32 [rows, STRIDE] */
    uint64_t keys;        /* the layer's regions */
    uint64_t values;
    uint64_t items;       /* StepTile [] when TILES */
    uint64_t sequences;   /* StepSequence [] */
    uint64_t tables;
    uint64_t partials;    /* per work item, KV head and head tile: SPLITS of PARTIAL_QUADS vec4 */
    uint64_t counters;    /* u32 per work item, KV head and head tile; 0 between dispatches */
    RowOutputs outputs;   /* [rows, query heads * HEAD_DIM] */
    uint64_t frequencies; /* FUSED: f32 [ROPE_DIMS / 2] */
    uint64_t query_norm;  /* FUSE_NORM: f32 [HEAD_DIM] */
    uint64_t key_norm;
    float epsilon;
    float weight_offset;
} push;

/* Before the loop the queries and, when FUSED, the row's own key and value [QUERIES + 2, QUADS];
 * behind it what every subgroup summed up [SUBGROUPS, QUERIES, QUADS]. */
const uint HEADS_BEFORE = QUERIES + (FUSED ? 2 : 0), HEADS_BEHIND = SUBGROUPS * QUERIES;
const uint SHARED_HEADS = HEADS_BEHIND > HEADS_BEFORE ? HEADS_BEHIND : HEADS_BEFORE;
shared vec4 shared_heads[SHARED_HEADS * QUADS];
shared vec2 shared_softmax[SUBGROUPS * QUERIES]; /* {maximum, sum} */
shared float shared_factors[HEAD_TILE + 1];
shared uint shared_arrivals;

/* What this workgroup works on. */
uint kv_heads, kv_head, first_head; /* first_head: query head */
uint first_row, row_count, first_position;
uint table;
uint split, splits, begin, end; /* positions [begin, end) */

uint lane;  /* of the team */
uint team;  /* of the workgroup */
uint leader; /* the team's first invocation in the subgroup */

uint blocks[UNROLL]; /* of the tile after those that are loaded */
uvec4 key_tile[UNROLL * HELD_PIECES];
uvec4 value_tile[UNROLL * HELD_PIECES];
/* On their way while those above are used, when AHEAD. */
uvec4 next_keys[UNROLL * HELD_PIECES];
uvec4 next_values[UNROLL * HELD_PIECES];
vec4 query[QUERIES * HELD_PIECES * 2];
vec4 sums[QUERIES * HELD_PIECES * 2];
float maximum; /* of the query whose scores the lane holds */
float total;   /* of the lane's own weights */

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
    uint aligned = first - first % KV_BLOCK_TOKENS;
    uint share = (last - aligned + SPLITS - 1) / SPLITS;
    share = max(SPLIT_TOKENS, (share + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
    splits = (last - aligned + share - 1) / share;
    split = gl_WorkGroupID.y;
    begin = max(first, aligned + split * share);
    end = min(last, aligned + (split + 1) * share);
    return split < splits;
}

/* --- keys and values --- */

uvec4 load_piece(uint64_t address, uint piece)
{
    if (HEAD_DIM % 8 == 0)
        return piece < PIECES ? KvPieces(address).at[piece] : uvec4(0);
    uvec4 packed = uvec4(0);
    for (uint i = 0; i < 8; i++) {
        uint d = 8 * piece + i;
        float16_t x = d < HEAD_DIM ? KvElements(address).at[d] : float16_t(0.0);
        packed[i / 2] |= uint(float16BitsToUint16(x)) << 16 * (i % 2);
    }
    return packed;
}

bool in_cache(uint position)
{
    return position < end && !(FUSED && position == first_position);
}

/* Of the positions that load_tile(first) reads: position first + u * STEP_TOKENS + team is this
 * team's. */
void find_blocks(uint first)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        uint position = first + u * STEP_TOKENS + team;
        blocks[u] = 0;
        if (in_cache(position))
            blocks[u] = StepWords(push.tables).at[table + position / KV_BLOCK_TOKENS];
    }
}

void load_tile(uint first)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        uint position = first + u * STEP_TOKENS + team;
        bool read = in_cache(position);
        uint slot = position % KV_BLOCK_TOKENS;
        uint64_t k = kv_address(push.keys, blocks[u], kv_heads, kv_head, slot, HEAD_DIM);
        uint64_t v = kv_address(push.values, blocks[u], kv_heads, kv_head, slot, HEAD_DIM);
        [[unroll]] for (uint c = 0; c < HELD_PIECES; c++) {
            next_keys[u * HELD_PIECES + c] = read ? load_piece(k, c * LANES + lane) : uvec4(0);
            next_values[u * HELD_PIECES + c] = read ? load_piece(v, c * LANES + lane) : uvec4(0);
        }
    }
}

void take_tile()
{
    [[unroll]] for (uint i = 0; i < UNROLL * HELD_PIECES; i++) {
        key_tile[i] = next_keys[i];
        value_tile[i] = next_values[i];
    }
}

uint pack_halves(vec2 x)
{
    return packFloat2x16(f16vec2(kv_hold(x.x), kv_hold(x.y)));
}

/* Of the row's own key (0) or value (1), as the cache has it. */
uvec4 own_piece(uint which, uint piece)
{
    uint at = (QUERIES + which) * QUADS + 2 * min(piece, PIECES - 1);
    vec4 a = shared_heads[at], b = shared_heads[at + 1];
    return uvec4(pack_halves(a.xy), pack_halves(a.zw), pack_halves(b.xy), pack_halves(b.zw));
}

/* The row's own key and value are in nobody's cache yet. */
void place_own(uint first)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        if (first + u * STEP_TOKENS + team == first_position) {
            [[unroll]] for (uint c = 0; c < HELD_PIECES; c++) {
                uint piece = c * LANES + lane;
                key_tile[u * HELD_PIECES + c] = piece < PIECES ? own_piece(0, piece) : uvec4(0);
                value_tile[u * HELD_PIECES + c] = piece < PIECES ? own_piece(1, piece) : uvec4(0);
            }
        }
    }
}

/* --- queries --- */

/* Heads of this tile; the last one of a KV head may have fewer. */
uint tile_heads()
{
    return min(HEAD_TILE, GROUP_HEADS - gl_WorkGroupID.x % HEAD_TILES * HEAD_TILE);
}

/* What a query has nothing for must not be NaN. */
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

/* --- fused: what rope_kv_write does, for the workgroup's queries and the row's key --- */

bool has_fused_head(uint h)
{
    return h == HEAD_TILE || h < tile_heads();
}

/* f32 of query `h`, or of the key when h is HEAD_TILE. */
uint64_t fused_head(uint h)
{
    uint column = h < HEAD_TILE ? QUERY_OFFSET + (first_head + h) * HEAD_DIM
                                : KEY_OFFSET + kv_head * HEAD_DIM;
    return push.qkv + 4 * row_index(first_row, column, STRIDE);
}

void find_norm_factors()
{
    for (uint h = gl_SubgroupID; h <= HEAD_TILE; h += gl_NumSubgroups) {
        float squares = 0.0;
        Floats head = Floats(fused_head(has_fused_head(h) ? h : HEAD_TILE));
        for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += gl_SubgroupSize)
            squares += head.at[d] * head.at[d];
        squares = subgroupAdd(squares);
        if (subgroupElect())
            shared_factors[h] = inversesqrt(squares / float(HEAD_DIM) + push.epsilon);
    }
    barrier();
}

/* Invocations go over pairs first, so that one angle serves several heads: FUSE_ROUNDS rounds of
 * FUSE_WIDTH pairs, in which an invocation has every FUSE_HEIGHTth head. */
const uint PAIRS = (HEAD_DIM + 1) / 2;
const uint FUSE_WIDTH = PAIRS < INVOCATIONS ? PAIRS : INVOCATIONS;
const uint FUSE_HEIGHT = INVOCATIONS / FUSE_WIDTH;
const uint FUSE_ROUNDS = (PAIRS + FUSE_WIDTH - 1) / FUSE_WIDTH;
const uint FUSE_HEADS = (HEAD_TILE + FUSE_HEIGHT) / FUSE_HEIGHT; /* of an invocation */
const uint VALUE_LOADS = (HEAD_DIM + INVOCATIONS - 1) / INVOCATIONS;
struct RawHeads {
    vec2 pairs[FUSE_ROUNDS * FUSE_HEADS];
    float frequencies[FUSE_ROUNDS];
    float value[VALUE_LOADS];
};

uint fuse_pair(uint round)
{
    return round * FUSE_WIDTH + gl_LocalInvocationIndex % FUSE_WIDTH;
}

uint fuse_head(uint i)
{
    return gl_LocalInvocationIndex / FUSE_WIDTH + i * FUSE_HEIGHT;
}

bool fuses(uint pair, uint h)
{
    return gl_LocalInvocationIndex < FUSE_WIDTH * FUSE_HEIGHT && pair < PAIRS &&
           (h == HEAD_TILE || h < tile_heads());
}

void load_heads(out RawHeads raw)
{
    [[unroll]] for (uint round = 0; round < FUSE_ROUNDS; round++) {
        uint pair = fuse_pair(round);
        uvec2 e = rope_pair_elements(pair, ROPE_DIMS, PAIRING);
        raw.frequencies[round] =
            pair < ROPE_DIMS / 2 ? Floats(push.frequencies).at[pair] : 0.0;
        [[unroll]] for (uint i = 0; i < FUSE_HEADS; i++) {
            vec2 x = vec2(0.0);
            if (fuses(pair, fuse_head(i))) {
                Floats head = Floats(fused_head(fuse_head(i)));
                x = vec2(head.at[e.x], e.y < HEAD_DIM ? head.at[e.y] : 0.0);
            }
            raw.pairs[round * FUSE_HEADS + i] = x;
        }
    }
    uint column = VALUE_OFFSET + kv_head * HEAD_DIM;
    Floats value = Floats(push.qkv + 4 * row_index(first_row, column, STRIDE));
    [[unroll]] for (uint i = 0; i < VALUE_LOADS; i++) {
        uint d = gl_LocalInvocationIndex + i * INVOCATIONS;
        raw.value[i] = d < HEAD_DIM ? value.at[d] : 0.0;
    }
}

vec2 norm_pair(vec2 x, uint h, uvec2 e)
{
    Floats weights = Floats(h < HEAD_TILE ? push.query_norm : push.key_norm);
    float low = weights.at[e.x] + push.weight_offset;
    float high = e.y < HEAD_DIM ? weights.at[e.y] + push.weight_offset : 0.0;
    return x * shared_factors[h] * vec2(low, high);
}

void put_heads(RawHeads raw)
{
    if (FUSE_NORM)
        find_norm_factors();
    [[unroll]] for (uint i = 0; i < VALUE_LOADS; i++) {
        uint d = gl_LocalInvocationIndex + i * INVOCATIONS;
        if (d < HEAD_DIM)
            put_element(QUERIES + 1, d, raw.value[i]);
    }
    [[unroll]] for (uint round = 0; round < FUSE_ROUNDS; round++) {
        uint pair = fuse_pair(round);
        uvec2 e = rope_pair_elements(pair, ROPE_DIMS, PAIRING);
        precise float angle = float(first_position) * raw.frequencies[round];
        vec2 cs = rope_cos_sin(angle) * MAGNITUDE;
        [[unroll]] for (uint i = 0; i < FUSE_HEADS; i++) {
            uint h = fuse_head(i);
            if (!fuses(pair, h))
                continue;
            vec2 x = raw.pairs[round * FUSE_HEADS + i];
            if (FUSE_NORM)
                x = norm_pair(x, h, e);
            x = pair < ROPE_DIMS / 2 ? rope_rotate(x, cs) : x;
            x *= h < HEAD_TILE ? SCALE * LOG2_E : 1.0;
            put_element(h, e.x, x.x);
            if (e.y < HEAD_DIM)
                put_element(h, e.y, x.y);
        }
    }
}

/* By the workgroup with the last positions and the first heads of the KV head. */
void write_own()
{
    if (split != splits - 1 || gl_WorkGroupID.x % HEAD_TILES != 0)
        return;
    uint slot = first_position % KV_BLOCK_TOKENS;
    uint block = StepWords(push.tables).at[table + first_position / KV_BLOCK_TOKENS];
    for (uint i = gl_LocalInvocationIndex; i < 2 * PIECES; i += INVOCATIONS) {
        uint which = i / PIECES, piece = i % PIECES;
        uint64_t region = which == 0 ? push.keys : push.values;
        uint64_t at = kv_address(region, block, kv_heads, kv_head, slot, HEAD_DIM);
        uvec4 packed = own_piece(which, piece);
        if (HEAD_DIM % 8 == 0)
            KvPieces(at).at[piece] = packed;
        else
            for (uint d = 8 * piece; d < min(8 * piece + 8, HEAD_DIM); d++)
                KvElements(at).at[d] = uint16BitsToFloat16(uint16_t(packed[d % 8 / 2] >> 16 * (d % 2)));
    }
}

void take_queries()
{
    [[unroll]] for (uint q = 0; q < QUERIES; q++) {
        [[unroll]] for (uint c = 0; c < HELD_PIECES; c++) {
            uint piece = c * LANES + lane;
            bool there = piece < PIECES;
            [[unroll]] for (uint i = 0; i < 2; i++) {
                uint at = (q * HELD_PIECES + c) * 2 + i;
                query[at] = there ? shared_heads[q * QUADS + 2 * piece + i] : vec4(0.0);
                sums[at] = vec4(0.0);
            }
        }
    }
    maximum = NOTHING;
    total = 0.0;
}

/* --- the running softmax --- */

void unpack_piece(uvec4 packed, out vec4 low, out vec4 high)
{
    low = vec4(unpackHalf2x16(packed.x), unpackHalf2x16(packed.y));
    high = vec4(unpackHalf2x16(packed.z), unpackHalf2x16(packed.w));
}

/* The lane's part of every score; score of query q and load u at q * UNROLL + u. */
void find_scores(out float part[SCORES])
{
    [[unroll]] for (uint i = 0; i < SCORES; i++)
        part[i] = 0.0;
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        [[unroll]] for (uint c = 0; c < HELD_PIECES; c++) {
            vec4 low, high;
            unpack_piece(key_tile[u * HELD_PIECES + c], low, high);
            [[unroll]] for (uint q = 0; q < QUERIES; q++) {
                uint at = (q * HELD_PIECES + c) * 2;
                part[q * UNROLL + u] += dot(query[at], low) + dot(query[at + 1], high);
            }
        }
    }
}

/* Sums over the team's lanes: afterwards lane l has scores l / COPIES * HELD_SCORES and on, complete,
 * in the first places. */
void scatter_scores(inout float part[SCORES])
{
    uint count = SCORES;
    [[unroll]] for (uint step = LANES / 2; step > 0; step /= 2) {
        if (count > 1) {
            count /= 2;
            bool upper = (lane & step) != 0;
            [[unroll]] for (uint i = 0; i < count; i++) {
                float away = upper ? part[i] : part[i + count];
                float kept = upper ? part[i + count] : part[i];
                part[i] = kept + subgroupShuffleXor(away, step);
            }
        } else {
            part[0] += subgroupShuffleXor(part[0], step);
        }
    }
}

bool sees(uint q, uint position)
{
    uint own = first_position + q / HEAD_TILE;
    return position < end && position <= own && (WINDOW == 0 || position + WINDOW > own);
}

/* Turns the lane's scores into weights; the sums so far shrink where a maximum grew. */
void weigh_scores(uint first, inout float part[SCORES])
{
    uint index = lane / COPIES * HELD_SCORES;
    uint q = index / UNROLL;
    float top = maximum;
    [[unroll]] for (uint i = 0; i < HELD_SCORES; i++) {
        uint position = first + (index % UNROLL + i) * STEP_TOKENS + team;
        part[i] = q < QUERIES && sees(q, position) ? part[i] : MASKED;
        top = max(top, part[i]);
    }
    [[unroll]] for (uint step = 1; step < SHARERS; step *= 2)
        top = max(top, subgroupShuffleXor(top, step));
    float shrink = exp2(maximum - top);
    maximum = top;
    total *= shrink;
    [[unroll]] for (uint i = 0; i < HELD_SCORES; i++) {
        part[i] = exp2(part[i] - top);
        total += part[i];
    }
    if (subgroupAny(shrink < 1.0)) {
        [[unroll]] for (uint k = 0; k < QUERIES; k++) {
            float factor = subgroupShuffle(shrink, leader + k * SHARERS);
            [[unroll]] for (uint i = 0; i < HELD_PIECES * 2; i++)
                sums[k * HELD_PIECES * 2 + i] *= factor;
        }
    }
}

void add_values(float part[SCORES])
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        vec4 value[HELD_PIECES * 2];
        [[unroll]] for (uint c = 0; c < HELD_PIECES; c++)
            unpack_piece(value_tile[u * HELD_PIECES + c], value[2 * c], value[2 * c + 1]);
        [[unroll]] for (uint q = 0; q < QUERIES; q++) {
            uint index = q * UNROLL + u;
            float weight = subgroupShuffle(part[index % HELD_SCORES],
                                           leader + index / HELD_SCORES * COPIES);
            [[unroll]] for (uint i = 0; i < HELD_PIECES * 2; i++)
                sums[q * HELD_PIECES * 2 + i] += weight * value[i];
        }
    }
}

void visit_tile(uint first)
{
    float part[SCORES];
    find_scores(part);
    scatter_scores(part);
    weigh_scores(first, part);
    add_values(part);
}

/* --- merging --- */

/* All teams of a subgroup into its first one, and that into shared memory. */
void merge_teams()
{
    [[unroll]] for (uint step = 1; step < SHARERS; step *= 2)
        total += subgroupShuffleXor(total, step);
    float top = maximum;
    for (uint step = LANES; step < gl_SubgroupSize; step *= 2)
        top = max(top, subgroupShuffleXor(top, step));
    float shrink = exp2(maximum - top);
    total *= shrink / float(COPIES);
    for (uint step = LANES; step < gl_SubgroupSize; step *= 2)
        total += subgroupShuffleXor(total, step);
    bool writes = leader == 0;
    if (writes && lane % SHARERS == 0 && lane / SHARERS < QUERIES)
        shared_softmax[gl_SubgroupID * QUERIES + lane / SHARERS] = vec2(top, total);
    [[unroll]] for (uint q = 0; q < QUERIES; q++) {
        float factor = subgroupShuffle(shrink, leader + q * SHARERS);
        [[unroll]] for (uint i = 0; i < HELD_PIECES * 2; i++) {
            vec4 x = sums[q * HELD_PIECES * 2 + i] * factor;
            for (uint step = LANES; step < gl_SubgroupSize; step *= 2)
                x += subgroupShuffleXor(x, step);
            uint piece = i / 2 * LANES + lane;
            if (writes && piece < PIECES)
                shared_heads[(gl_SubgroupID * QUERIES + q) * QUADS + 2 * piece + i % 2] = x;
        }
    }
}

/* {maximum, sum} of query q in this workgroup, and its weighted values' quad. */
vec2 merged_softmax(uint q)
{
    vec2 merged = vec2(NOTHING, 0.0);
    for (uint s = 0; s < gl_NumSubgroups; s++)
        merged.x = max(merged.x, shared_softmax[s * QUERIES + q].x);
    for (uint s = 0; s < gl_NumSubgroups; s++) {
        vec2 one = shared_softmax[s * QUERIES + q];
        merged.y += one.y * exp2(one.x - merged.x);
    }
    return merged;
}

vec4 merged_quad(uint q, uint quad, float top)
{
    vec4 sum = vec4(0.0);
    for (uint s = 0; s < gl_NumSubgroups; s++)
        sum += exp2(shared_softmax[s * QUERIES + q].x - top) * shared_heads[(s * QUERIES + q) * QUADS + quad];
    return sum;
}

/* Counts of this work item, KV head and head tile. */
uint64_t item_index()
{
    return uint64_t(gl_WorkGroupID.z) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

Partials partial(uint s)
{
    return Partials(push.partials + 16 * ((item_index() * SPLITS + s) * PARTIAL_QUADS));
}

vec2 partial_softmax(uint s, uint q)
{
    uint64_t at = push.partials + 16 * ((item_index() * SPLITS + s) * PARTIAL_QUADS);
    return PartialPairs(at + 16 * (QUERIES * QUADS) + 8 * q).at[0];
}

void write_partial()
{
    Partials target = partial(split);
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * QUADS; i += INVOCATIONS)
        target.at[i] = merged_quad(i / QUADS, i % QUADS, merged_softmax(i / QUADS).x);
    for (uint q = 2 * gl_LocalInvocationIndex; q < QUERIES; q += 2 * INVOCATIONS)
        target.at[QUERIES * QUADS + q / 2] =
            vec4(merged_softmax(q), q + 1 < QUERIES ? merged_softmax(q + 1) : vec2(0.0));
}

/* Whether the other splits have all been written. One invocation releases what all of the workgroup
 * wrote, and acquires what the others released. */
bool arrive_last()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        Counters counter = Counters(push.counters + 4 * item_index());
        shared_arrivals = atomicAdd(counter.at[0], 1, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                                    gl_SemanticsAcquireRelease);
        if (shared_arrivals == splits - 1)
            counter.at[0] = 0;
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    return shared_arrivals == splits - 1;
}

/* The quad of query q over all splits, divided by the sum of weights. */
vec4 attended_quad(uint q, uint quad)
{
    if (splits == 1) {
        vec2 whole = merged_softmax(q);
        return merged_quad(q, quad, whole.x) / whole.y;
    }
    /* Parts are far away: many are asked for before the first is used. */
    float top = NOTHING, weights = 0.0;
    vec4 sum = vec4(0.0);
    for (uint first = 0; first < splits; first += PARTS_AHEAD) {
        vec2 softmax[PARTS_AHEAD];
        vec4 part[PARTS_AHEAD];
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++) {
            uint s = min(first + i, splits - 1);
            softmax[i] = partial_softmax(s, q);
            part[i] = partial(s).at[q * QUADS + quad];
        }
        float higher = top;
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++)
            higher = max(higher, softmax[i].x);
        float shrink = exp2(top - higher);
        weights *= shrink;
        sum *= shrink;
        top = higher;
        [[unroll]] for (uint i = 0; i < PARTS_AHEAD; i++) {
            float factor = first + i < splits ? exp2(softmax[i].x - top) : 0.0;
            weights += factor * softmax[i].y;
            sum += factor * part[i];
        }
    }
    return sum / weights;
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
            vec4 x = there ? attended_quad(r * HEAD_TILE + h, i % quads) : vec4(0.0);
            uint column = (first_head + h) * HEAD_DIM + i % quads * 4;
            if (HEAD_DIM % 4 == 0)
                row_store(push.outputs, first_row + r, there ? column : columns, columns, x);
            else if (there)
                for (uint d = 0; d < min(4, HEAD_DIM - i % quads * 4); d++)
                    Floats(push.outputs.f32 + 4 * row_index(first_row + r, column + d, columns)).at[0] = x[d];
        }
    }
}

void main()
{
    lane = gl_SubgroupInvocationID % LANES;
    leader = gl_SubgroupInvocationID - lane;
    team = gl_LocalInvocationIndex / LANES;
    if (!find_work())
        return;
    /* What is waited for longest is asked for first: block ids, heads, then keys and values. */
    find_blocks(begin);
    if (FUSED) {
        RawHeads raw;
        load_heads(raw);
        load_tile(begin);
        if (GAPS > 0)
            clear_heads();
        put_heads(raw);
    } else {
        vec4 raw[QUERY_LOADS];
        load_queries(raw);
        load_tile(begin);
        if (GAPS > 0)
            clear_heads();
        put_queries(raw);
    }
    barrier();
    take_queries();
    if (FUSED)
        write_own();
    find_blocks(begin + TILE_TOKENS);
    for (uint first = begin; first < end; first += TILE_TOKENS) {
        uint next = first + TILE_TOKENS;
        take_tile();
        if (AHEAD && next < end) {
            load_tile(next);
            find_blocks(next + TILE_TOKENS);
        }
        if (FUSED && next > first_position)
            place_own(first);
        visit_tile(first);
        if (!AHEAD && next < end) {
            load_tile(next);
            find_blocks(next + TILE_TOKENS);
        }
    }
    barrier();
    merge_teams();
    barrier();
    if (splits > 1) {
        write_partial();
        if (!arrive_last())
            return;
    }
    write_outputs();
}
