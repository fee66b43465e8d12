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
 * Long contexts are split over workgroups (SPLITS at most). The number of splits follows on the device
 * from the row's own length alone, so recorded commands stay valid; superfluous workgroups return at
 * once. The last workgroup of a tile to finish, found by a counter that it resets, adds up the parts in
 * the order of their positions.
 *
 * FUSED: the workgroup first does for its own row what rope_kv_write does: norms (FUSE_NORM) and
 * rotates its queries and the row's key, and the workgroup with the last positions writes key and value
 * to the cache. Only for steps with one row per sequence, because no other row of the step reads that
 * key.
 *
 * PACKED: keys and values are quantized (kv_codes.glsl). Codes are decoded where they are used. If rows
 * are rotated, queries are rotated in shared memory before the loop and the result is rotated back after
 * it.
 *
 * Positions that a query does not see are neither read nor added, so the contents of blocks beyond the
 * end, or of freed blocks, do not matter.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define FORMS_CONSTANT 1
#include "kv_blocks.glsl"
#include "row_forms.glsl"
#include "score_cap.glsl"

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
layout(constant_id = 13) const uint FUSE = 0;     /* enum vulkan_attention_fuse bits */
layout(constant_id = 14) const uint PAIRING = 0;
layout(constant_id = 15) const uint ROPE_DIMS = 128;
layout(constant_id = 16) const bool TILES = false; /* work items are tiles, not sequences */
layout(constant_id = 17) const uint STRIDE = 6144; /* columns of qkv */
layout(constant_id = 18) const uint QUERY_OFFSET = 0;
layout(constant_id = 19) const uint KEY_OFFSET = 4096;
layout(constant_id = 20) const uint VALUE_OFFSET = 5120;
layout(constant_id = 21) const float SCALE = 0.08838834764831845; /* of q . k */
layout(constant_id = 22) const float MAGNITUDE = 1.0;             /* of cosines and sines */
layout(constant_id = 23) const float SOFT_CAP = 0.0;              /* of scores; 0: none */
layout(constant_id = 24) const bool SINKS = false;                /* not with FUSE_NORM */
layout(constant_id = 25) const uint KV_SCHEME = 0; /* kv_codes.glsl, as the next; not FUSED */
layout(constant_id = 26) const uint KEY_HALF_BITS = 16;
layout(constant_id = 27) const uint VALUE_HALF_BITS = 16;
layout(constant_id = 28) const uint GROUP_DIMS = 64;
layout(constant_id = 29) const bool SPANS = false; /* of tiles: rows see the positions of their sights */
#include "kv_codes.glsl"

const bool FUSED = (FUSE & 1) != 0, FUSE_NORM = (FUSE & 2) != 0;
const bool FUSE_NORM_VALUES = (FUSE & 4) != 0, FUSE_AXES = (FUSE & 8) != 0;
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
/* Whether shared memory has places that no query fills: counted, because glslang 15 cannot compile a
 * chain of || between specialization constants. */
const uint GAPS = HEAD_DIM % 8 + GROUP_HEADS % HEAD_TILE + TILE_ROWS - 1;
const uint HEADS_BEFORE = QUERIES * (MULTIPLIED ? 2 : 1) + (FUSED ? 2 : 0);
const uint HEADS_BEHIND = SUBGROUPS * QUERIES;
const uint SHARED_HEADS = HEADS_BEHIND > HEADS_BEFORE ? HEADS_BEHIND : HEADS_BEFORE;
#include "attention_tile.glsl"

/* FUSED: the row's own key and value follow the queries. */
shared float shared_factors[HEAD_TILE + 2]; /* of queries, key and value */

uint lane;  /* of the team */
uint team;  /* of the workgroup */
uint leader; /* the team's first invocation in the subgroup */

uint blocks[UNROLL]; /* of the tile after the one that is loaded */
uvec4 key_tile[UNROLL * HELD_PIECES];
uvec4 value_tile[UNROLL * HELD_PIECES];
vec4 query[QUERIES * HELD_PIECES * 2];
vec4 sums[QUERIES * HELD_PIECES * 2];
float maximum; /* of the query whose scores the lane holds */
float total;   /* of the lane's own weights */
uint query_end; /* SPANS: end of the positions that this query sees */
uint first_read; /* before it, blocks may have been given back */

/* --- keys and values --- */

uint half_bits_of(uint which)
{
    return which == 0 ? KEY_HALF_BITS : VALUE_HALF_BITS;
}

/* Codes where they are packed. */
uvec4 load_piece(uint which, uint64_t address, uint slot, uint piece)
{
    if (PACKED && piece >= PIECES)
        return uvec4(0);
    if (PACKED)
        return kv_load_codes(address, half_bits_of(which), slot, piece);
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
    bool freed = SPLITS == 1 && WINDOW > 0 && position < first_read;
    return position < end && !freed && !(FUSED && position == first_position);
}

/* Finds the blocks of the positions that load_tile(first) reads: this team's are
 * first + u * STEP_TOKENS + team. */
void find_blocks(uint first)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        uint position = first + u * STEP_TOKENS + team;
        blocks[u] = 0;
        if (in_cache(position))
            blocks[u] = StepWords(push.tables).at[table + position / KV_BLOCK_TOKENS];
    }
}

/* Address of the slot's key (0) or value (1); PACKED: of the block's side. */
uint64_t row_address(uint which, uint block, uint slot)
{
    uint64_t region = which == 0 ? push.keys : push.values;
    if (PACKED)
        return kv_side_address(region, half_bits_of(which), block, kv_heads, kv_head);
    return kv_address(region, block, kv_heads, kv_head, slot, HEAD_DIM);
}

void load_tile(uint first)
{
    [[unroll]] for (uint u = 0; u < UNROLL; u++) {
        uint position = first + u * STEP_TOKENS + team;
        bool read = in_cache(position);
        uint slot = position % KV_BLOCK_TOKENS;
        uint64_t k = row_address(0, blocks[u], slot);
        uint64_t v = row_address(1, blocks[u], slot);
        [[unroll]] for (uint c = 0; c < HELD_PIECES; c++) {
            key_tile[u * HELD_PIECES + c] = read ? load_piece(0, k, slot, c * LANES + lane) : uvec4(0);
            value_tile[u * HELD_PIECES + c] = read ? load_piece(1, v, slot, c * LANES + lane) : uvec4(0);
        }
    }
}

uint pack_halves(vec2 x)
{
    return packFloat2x16(f16vec2(kv_hold(x.x), kv_hold(x.y)));
}

/* A piece of the row's own key (0) or value (1), rounded as in the cache. */
uvec4 own_piece(uint which, uint piece)
{
    uint at = (QUERIES + which) * QUADS + 2 * min(piece, PIECES - 1);
    vec4 a = shared_heads[at], b = shared_heads[at + 1];
    return uvec4(pack_halves(a.xy), pack_halves(a.zw), pack_halves(b.xy), pack_halves(b.zw));
}

/* Replaces loads of the row's own key and value, which are not in the cache yet. */
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

#include "attention_heads.glsl"

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
    if (SPANS) {
        uint row = lane / COPIES * HELD_SCORES / UNROLL / HEAD_TILE;
        query_end = StepSights(push.query_norm_or_sights).at[first_row + min(row, row_count - 1)].end;
    }
}

/* --- the running softmax --- */

void unpack_codes(uint which, uint piece, uvec4 codes, out vec4 low, out vec4 high)
{
    uint half_bits = half_bits_of(which), bits = kv_piece_bits(half_bits, piece);
    vec2 scale = unpackHalf2x16(codes.z);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint a = kv_code(codes, half_bits, piece, i), b = kv_code(codes, half_bits, piece, i + 4);
        low[i] = ROTATED ? shared_levels[kv_level(bits, a)] : float(a);
        high[i] = ROTATED ? shared_levels[kv_level(bits, b)] : float(b);
    }
    low = low * scale.x + scale.y;
    high = high * scale.x + scale.y;
}

/* The lane's c-th piece. */
void unpack_piece(uint which, uint c, uvec4 packed, out vec4 low, out vec4 high)
{
    if (PACKED) {
        unpack_codes(which, c * LANES + lane, packed, low, high);
        return;
    }
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
            unpack_piece(0, c, key_tile[u * HELD_PIECES + c], low, high);
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
    return position < end && (SPANS ? position < query_end : position <= own) &&
           (WINDOW == 0 || position + WINDOW > own);
}

/* Turns the lane's scores into weights; rescales the sums if a maximum grew. */
void weigh_scores(uint first, inout float part[SCORES])
{
    uint index = lane / COPIES * HELD_SCORES;
    uint q = index / UNROLL;
    float top = maximum;
    [[unroll]] for (uint i = 0; i < HELD_SCORES; i++) {
        uint position = first + (index % UNROLL + i) * STEP_TOKENS + team;
        if (SOFT_CAP > 0.0)
            part[i] = cap_score(part[i], SOFT_CAP);
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
            unpack_piece(1, c, value_tile[u * HELD_PIECES + c], value[2 * c], value[2 * c + 1]);
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

/* Merges all teams of a subgroup into its first one and writes that to shared memory. */
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

void main()
{
    lane = gl_SubgroupInvocationID % LANES;
    leader = gl_SubgroupInvocationID - lane;
    team = gl_LocalInvocationIndex / LANES;
    if (!find_work())
        return;
    first_read = begin;
    if (SPLITS == 1 && WINDOW > 0) /* a position has the same team in any tile */
        begin -= begin % TILE_TOKENS;
    /* The loads with the longest chain come first: block ids, heads, then keys and values. */
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
    if (ROTATED)
        take_levels();
    barrier();
    if (ROTATED)
        rotate_heads(0);
    take_queries();
    if (FUSED)
        write_own();
    find_blocks(begin + TILE_TOKENS);
    for (uint first = begin; first < end; first += TILE_TOKENS) {
        uint next = first + TILE_TOKENS;
        if (FUSED && next > first_position)
            place_own(first);
        visit_tile(first);
        if (next < end) {
            load_tile(next);
            find_blocks(next + TILE_TOKENS);
        }
    }
    barrier();
    merge_teams();
    barrier();
    if (splits > 1) {
        write_part();
        if (!parts_complete())
            return;
    }
    if (ROTATED)
        rotate_back();
    write_outputs();
}
