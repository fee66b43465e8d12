/*
 * The fused part of attention_rows.comp: does what rope_kv_write.comp does. It leaves the workgroup's
 * queries and the row's own key and value in shared memory; one of the workgroups also writes key and
 * value to the cache.
 *
 * Loading is separate from the rest, so that other loads can be in flight at the same time.
 */
#include "rope_angle.glsl"

bool has_fused_head(uint h)
{
    return h >= HEAD_TILE || h < tile_heads();
}

/* f32 of query `h`; HEAD_TILE: of the key; HEAD_TILE + 1: of the value. */
uint64_t fused_head(uint h)
{
    uint column = h < HEAD_TILE    ? QUERY_OFFSET + (first_head + h) * HEAD_DIM
                  : h == HEAD_TILE ? KEY_OFFSET + kv_head * HEAD_DIM
                                   : VALUE_OFFSET + kv_head * HEAD_DIM;
    return push.qkv + 4 * row_index(first_row, column, STRIDE);
}

void find_norm_factors()
{
    const uint heads = HEAD_TILE + (FUSE_NORM_VALUES ? 2 : 1);
    for (uint h = gl_SubgroupID; h < heads; h += gl_NumSubgroups) {
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
    float positions[FUSE_ROUNDS];
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

/* The row's position for a rotated pair. */
float pair_position(uint pair)
{
    if (!FUSE_AXES)
        return float(first_position);
    StepSight sight = StepSights(push.items).at[first_row];
    return float(sight_position(sight, StepWords(push.frequencies_or_tables).at[ROPE_DIMS / 2 + pair]));
}

void load_heads(out RawHeads raw)
{
    [[unroll]] for (uint round = 0; round < FUSE_ROUNDS; round++) {
        uint pair = fuse_pair(round);
        uvec2 e = rope_pair_elements(pair, ROPE_DIMS, PAIRING);
        raw.frequencies[round] =
            pair < ROPE_DIMS / 2 ? Floats(push.frequencies_or_tables).at[pair] : 0.0;
        raw.positions[round] = pair < ROPE_DIMS / 2 ? pair_position(pair) : 0.0;
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
    Floats weights = Floats(h < HEAD_TILE ? push.query_norm_or_sights : push.key_norm_or_sinks);
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
        float factor = FUSE_NORM_VALUES ? shared_factors[HEAD_TILE + 1] : 1.0;
        if (d < HEAD_DIM)
            put_element(QUERIES + 1, d, raw.value[i] * factor);
    }
    [[unroll]] for (uint round = 0; round < FUSE_ROUNDS; round++) {
        uint pair = fuse_pair(round);
        uvec2 e = rope_pair_elements(pair, ROPE_DIMS, PAIRING);
        precise float angle = raw.positions[round] * raw.frequencies[round];
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

/* Called by the workgroup with the last positions and the first heads of the KV head. */
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
