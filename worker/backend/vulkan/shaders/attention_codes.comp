#version 450
// needs: GL_KHR_cooperative_matrix
// variant: units -DUNITS=1
// variant: plain -DUNITS=0
/*
 * Decodes over quantized keys and values, in matrix units whose registers are filled by hand
 * (register_tile.glsl has the elements of each lane). A lane reads the codes of the fragment elements
 * that it holds, once, and converts them to f16, for all query heads of the KV head together.
 *
 * A subgroup takes KV_BLOCK_TOKENS = 16 positions of a block at a time, which are the rows of a
 * fragment of keys. Lane 4 g + t:
 *
 *   scores [16 positions, 8 queries] = keys [16, 16 dimensions] . queries [16, 8], 16 dimensions per
 *     step. The lane has positions 2 g and 2 g + 1 (rows g and g + 8), whose scales are neighbours, and
 *     the t-th quarter of each segment (dimensions that share a scale and a number of bits). Keys and
 *     queries have the same order of dimensions; the sum does not depend on which one.
 *   sums [16 dimensions, 8 queries] += values [16, 16 positions] . weights [16, 8]. The lane has
 *     positions 4 t, 4 t + 2, 4 t + 1, 4 t + 3, and the g-th eighth of each segment; a register holds one
 *     dimension of two positions, taken from the words of both. Weights come by shuffles from the lanes
 *     that have their scores, which determines this order.
 *
 * Scales and biases are applied outside the products. Key: the score of a group is its product times
 * the scale, plus the bias times the sum of the query's elements of the group. Value: the weight is
 * multiplied by the scale before it is rounded to f16; the bias times the weight goes to a separate
 * sum.
 *
 * Codes of `uniform` become f16 by masks alone: bits below 2^10 are the number code * 2^-24. A mask
 * that leaves a code four bits higher makes 16 times that, and the query or the sum is divided by it.
 * Codes of `turboquant` select levels by pairs, in a table in shared memory.
 *
 * Weights and queries are scaled to the middle of f16's range: queries by their largest element,
 * values' scales by the largest so far. If a score or a scale grows beyond it, sums are rescaled.
 *
 * attention_tile.glsl divides contexts into splits and merges them.
 *
 * The variant `plain` uses shared memory instead of units and shuffles. It runs on any device, slowly,
 * so that tests can check this arithmetic on devices with other units.
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
layout(constant_id = 0) const uint INVOCATIONS = 256;
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const uint GROUP_HEADS = 4;  /* query heads of a KV head */
layout(constant_id = 4) const uint HEAD_TILE = 4;    /* of those, in a workgroup: at most 8 */
layout(constant_id = 5) const uint TILE_BLOCKS = 2;  /* that a subgroup takes at once */
layout(constant_id = 6) const uint SUBGROUPS = 8;    /* of 32 invocations */
layout(constant_id = 7) const uint SPLITS = 8;       /* at most */
layout(constant_id = 8) const uint SPLIT_TOKENS = 128; /* at least, of a split */
layout(constant_id = 9) const uint WINDOW = 0;
layout(constant_id = 10) const uint KV_GROUP = 0; /* which of a sequence's block tables */
layout(constant_id = 11) const uint STRIDE = 6144; /* columns of qkv */
layout(constant_id = 12) const uint QUERY_OFFSET = 0;
layout(constant_id = 13) const float SCALE = 0.08838834764831845; /* of q . k */
layout(constant_id = 14) const float SOFT_CAP = 0.0;              /* of scores; 0: none */
layout(constant_id = 15) const bool SINKS = false;
layout(constant_id = 16) const uint KV_SCHEME = 1; /* kv_codes.glsl, as the next; not 0 */
layout(constant_id = 17) const uint KEY_HALF_BITS = 16;
layout(constant_id = 18) const uint VALUE_HALF_BITS = 16;
layout(constant_id = 19) const uint GROUP_DIMS = 64; /* a multiple of 64, if uniform; else segments of 16 */
#include "kv_codes.glsl"

const bool TILES = false, SPANS = false;
const uint TILE_ROWS = 1, QUERIES = HEAD_TILE;
const uint HEAD_TILES = (GROUP_HEADS + HEAD_TILE - 1) / HEAD_TILE;
const uint QUADS = HEAD_DIM / 4;
const uint HEADS_BEFORE = QUERIES * (MULTIPLIED ? 2 : 1), HEADS_BEHIND = SUBGROUPS * QUERIES;
const uint SHARED_HEADS = HEADS_BEHIND > HEADS_BEFORE ? HEADS_BEHIND : HEADS_BEFORE;
const bool QUERIES_ALIGNED = (HEAD_DIM | QUERY_OFFSET | STRIDE) % 4 == 0;
#include "attention_tile.glsl"

const uint GROUPS = KV_SCALES;
/* Parts of a head: with half a bit in keys or values, both are divided in the middle. */
const uint HALVES = (KEY_HALF_BITS | VALUE_HALF_BITS) % 2 != 0 ? 2 : 1;
const uint SEGMENTS = GROUPS * HALVES, SEGMENT = HEAD_DIM / SEGMENTS;
const uint STEPS = SEGMENT / 16;                             /* products of a segment */
const uint KEY_DIMS = SEGMENT / 4, VALUE_DIMS = SEGMENT / 8; /* of a lane, of a segment */
/* Likewise, at most. */
const uint KEY_WORDS = (KEY_DIMS * ((KEY_HALF_BITS + 1) / 2) + 31) / 32;
const uint VALUE_WORDS = (VALUE_DIMS * ((VALUE_HALF_BITS + 1) / 2) + 31) / 32;
const uint SCALE_WORDS = TILE_BLOCKS * GROUPS * 2;
const uint TILE_TOKENS = TILE_BLOCKS * KV_BLOCK_TOKENS;

/* The query's largest element becomes this: it may be divided by 16. */
const float QUERY_TOP = 24.0;
/* The largest weight times the largest scale of values so far becomes this, while scores are up to SLACK
 * powers of two above the maximum in use. */
const float WEIGHT_TOP = 2048.0, SLACK = 4.0;
const float CODE_ONE = ROTATED ? 1.0 : 16777216.0; /* turns the f16 of a code back into the code */

/* Two halves for each pair of codes: a table of 4^b pairs for every b that codes have bits of, the smaller
 * before the larger. So of the number of all pairs, the bits below 4^b are where b's table begins. */
const uint KEY_PAIRS = 1 << KEY_HALF_BITS / 2 * 2 | 1 << (KEY_HALF_BITS + 1) / 2 * 2;
const uint VALUE_PAIRS = 1 << VALUE_HALF_BITS / 2 * 2 | 1 << (VALUE_HALF_BITS + 1) / 2 * 2;
const uint PAIRS = ROTATED ? KEY_PAIRS | VALUE_PAIRS : 1;
shared uint shared_pairs[PAIRS];

shared uvec2 shared_query[32 * SEGMENTS * STEPS]; /* of column g, for all subgroups */

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer KvPairs { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer KvQuads { uvec4 at[]; };

#include "fragment_units.glsl"

uint g, t;
uint first_block, last_block; /* of the split, in the sequence's table */
uint blocks[TILE_BLOCKS];     /* of the tile that is loaded next */
uint keys[TILE_BLOCKS * 2 * SEGMENTS * KEY_WORDS];     /* of positions 2 g and 2 g + 1 */
uint values[TILE_BLOCKS * 4 * SEGMENTS * VALUE_WORDS]; /* of 4 t, 4 t + 2, 4 t + 1, 4 t + 3 */
uint key_scales[SCALE_WORDS]; /* of 2 g and 2 g + 1: scales, then biases */
uint value_scales[SCALE_WORDS];
vec2 query_factors;            /* of columns 2 t and 2 t + 1, as everything in vec2 */
vec2 query_sums[GROUPS];
vec2 maximum, total;
vec2 bias_sums[GROUPS];
float scale_top[GROUPS];  /* the scale of values that becomes WEIGHT_TOP */
float scale_most[GROUPS]; /* of those that the lane sees of the tile */
SUMS sums[SEGMENTS * STEPS];
/* Scores of the tile: [2 * b + i] is position 2 * g + i of block b; later its weights. */
vec2 scores[TILE_BLOCKS * 2];

/* --- loads of a lane --- */

/* Subgroups alternate; after the last block it is that one again, with no position seen. */
void find_blocks(uint tile)
{
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
        uint block = first_block + (tile * SUBGROUPS + SUBGROUP) * TILE_BLOCKS + b;
        blocks[b] = StepWords(push.tables).at[table + min(block, last_block)];
    }
}

/* Words of a bit string that begins at bit `at` of a side, the i-th of them. Where strings are whole
 * words, at is a multiple of theirs. */
uint string_word(uint64_t side, uint at, bool whole, uint i)
{
    KvWords words = KvWords(side + at / 32 * 4);
    if (whole)
        return words.at[i];
    uint shift = at % 32;
    return words.at[i] >> shift | words.at[i + 1] << 1 << (31 - shift);
}

/* Loads scales (x) and biases (y) of group s of positions 2 g and 2 g + 1. */
uvec2 load_scales(uint64_t side, uint half_bits, uint s)
{
    KvWords words = KvWords(side + 4 * g);
    uint at = (kv_row_bytes(half_bits) * KV_BLOCK_TOKENS + 2 * s * KV_BLOCK_TOKENS) / 4;
    return uvec2(words.at[at], ROTATED ? 0 : words.at[at + KV_SCALE_BYTES / 4]);
}

/* Bits of codes of segment s. */
uint segment_bits(uint half_bits, uint s)
{
    return kv_piece_bits(half_bits, s * SEGMENT / 8);
}

void load_key_words(uint64_t side, uint at, uint bits, uint to)
{
    uint words = (KEY_DIMS * bits + 31) / 32;
    bool whole = KEY_DIMS * bits % 32 == 0;
    if (whole && words % 4 == 0) {
        UNROLLED for (uint i = 0; i < words; i += 4) {
            uvec4 x = KvQuads(side + at / 8).at[i / 4];
            keys[to + i] = x.x;
            keys[to + i + 1] = x.y;
            keys[to + i + 2] = x.z;
            keys[to + i + 3] = x.w;
        }
    } else if (whole && words % 2 == 0) {
        UNROLLED for (uint i = 0; i < words; i += 2) {
            uvec2 x = KvPairs(side + at / 8).at[i / 2];
            keys[to + i] = x.x;
            keys[to + i + 1] = x.y;
        }
    } else {
        UNROLLED for (uint i = 0; i < words; i++)
            keys[to + i] = string_word(side, at, whole, i);
    }
}

void load_value_words(uint64_t side, uint at, uint bits, uint to)
{
    uint words = (VALUE_DIMS * bits + 31) / 32;
    bool whole = VALUE_DIMS * bits % 32 == 0;
    if (whole && words % 4 == 0) {
        UNROLLED for (uint i = 0; i < words; i += 4) {
            uvec4 x = KvQuads(side + at / 8).at[i / 4];
            values[to + i] = x.x;
            values[to + i + 1] = x.y;
            values[to + i + 2] = x.z;
            values[to + i + 3] = x.w;
        }
    } else if (whole && words % 2 == 0) {
        UNROLLED for (uint i = 0; i < words; i += 2) {
            uvec2 x = KvPairs(side + at / 8).at[i / 2];
            values[to + i] = x.x;
            values[to + i + 1] = x.y;
        }
    } else {
        UNROLLED for (uint i = 0; i < words; i++)
            values[to + i] = string_word(side, at, whole, i);
    }
}

void load_keys()
{
    const uint row_bits = 8 * kv_row_bytes(KEY_HALF_BITS);
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
        uint64_t side = kv_side_address(push.keys, KEY_HALF_BITS, blocks[b], kv_heads, kv_head);
        UNROLLED for (uint s = 0; s < SEGMENTS; s++) {
            uint bits = segment_bits(KEY_HALF_BITS, s);
            uint own = 8 * kv_piece_offset(KEY_HALF_BITS, s * SEGMENT / 8) + t * KEY_DIMS * bits;
            UNROLLED for (uint i = 0; i < 2; i++)
                load_key_words(side, (2 * g + i) * row_bits + own, bits,
                               ((b * 2 + i) * SEGMENTS + s) * KEY_WORDS);
        }
        UNROLLED for (uint s = 0; s < GROUPS; s++) {
            uvec2 scales = load_scales(side, KEY_HALF_BITS, s);
            key_scales[(b * GROUPS + s) * 2] = scales.x;
            key_scales[(b * GROUPS + s) * 2 + 1] = scales.y;
        }
    }
}

void load_values()
{
    const uint row_bits = 8 * kv_row_bytes(VALUE_HALF_BITS);
    UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
        uint64_t side = kv_side_address(push.values, VALUE_HALF_BITS, blocks[b], kv_heads, kv_head);
        UNROLLED for (uint s = 0; s < SEGMENTS; s++) {
            uint bits = segment_bits(VALUE_HALF_BITS, s);
            uint own = 8 * kv_piece_offset(VALUE_HALF_BITS, s * SEGMENT / 8) + g * VALUE_DIMS * bits;
            UNROLLED for (uint i = 0; i < 4; i++)
                load_value_words(side, (4 * t + i % 2 * 2 + i / 2) * row_bits + own, bits,
                                 ((b * 4 + i) * SEGMENTS + s) * VALUE_WORDS);
        }
        UNROLLED for (uint s = 0; s < GROUPS; s++) {
            uvec2 scales = load_scales(side, VALUE_HALF_BITS, s);
            value_scales[(b * GROUPS + s) * 2] = scales.x;
            value_scales[(b * GROUPS + s) * 2 + 1] = scales.y;
        }
    }
}

/* --- codes to pairs of halves --- */

/* `count` bits of the string in words low and high, from bit `at` (< 32) of low on. */
uint string_bits(uint low, uint high, uint at, uint count)
{
    uint x = low >> at;
    if (at + count > 32)
        x |= high << (32 - at);
    return x & ((1 << count) - 1);
}

/* The levels of two codes of as many bits, the first one's in the lower bits. */
uint level_pair(uint bits, uint codes)
{
    return shared_pairs[(PAIRS & ((1 << 2 * bits) - 1)) + codes];
}

/* The two dimensions, among the lane's of a segment, of the n-th pair of a key; `factor`: their divisor. */
uvec2 key_pair_dims(uint n, out float factor)
{
    factor = 1.0;
    if (ROTATED || (KEY_HALF_BITS != 8 && KEY_HALF_BITS != 16))
        return uvec2(2 * n, 2 * n + 1);
    if (KEY_HALF_BITS == 16)
        return uvec2(4 * (n / 2) + n % 2, 4 * (n / 2) + n % 2 + 2);
    factor = n % 2 == 0 ? 1.0 : 16.0;
    return uvec2(8 * (n / 4) + n % 4, 8 * (n / 4) + n % 4 + 4);
}

/* The n-th pair as two f16, from the words of a key that begin at keys[from]. */
uint key_pair(uint bits, uint from, uint n)
{
    if (!ROTATED && bits == 8) {
        uint word = keys[from + n / 2];
        return (n % 2 == 0 ? word : word >> 8) & 0x00FF00FF;
    }
    if (!ROTATED && bits == 4) {
        uint word = keys[from + n / 4];
        uint low = n % 4 < 2 ? word : word >> 8;
        return low & (n % 2 == 0 ? 0x000F000F : 0x00F000F0);
    }
    uint at = 2 * n * bits, i = from + at / 32, last = from + KEY_WORDS - 1;
    if (ROTATED)
        return level_pair(bits, string_bits(keys[i], keys[min(i + 1, last)], at % 32, 2 * bits));
    uint low = string_bits(keys[i], keys[min(i + 1, last)], at % 32, bits);
    at += bits;
    i = from + at / 32;
    return low | string_bits(keys[i], keys[min(i + 1, last)], at % 32, bits) << 16;
}

/* Dimension n among the lane's of a segment, of two positions whose words begin at values[x], values[y]. */
uint value_pair(uint bits, uint x, uint y, uint n)
{
    if (bits == 4 && ROTATED) {
        uint low = values[x + n / 8], high = values[y + n / 8];
        uint both = n % 2 == 0 ? (low & 0x0F0F0F0F) | (high << 4 & 0xF0F0F0F0)
                               : (low >> 4 & 0x0F0F0F0F) | (high & 0xF0F0F0F0);
        return level_pair(bits, both >> (n % 8 / 2 * 8) & 0xFF);
    }
    if (!ROTATED && (bits == 8 || bits == 4)) {
        uint in_word = 32 / bits;
        uint low = values[x + n / in_word], high = values[y + n / in_word];
        uint at = n % in_word;
        uint both = at < in_word / 2 ? (low & 0xFFFF) | high << 16 : low >> 16 | (high & 0xFFFF0000);
        at %= in_word / 2;
        if (bits == 8)
            return (at == 0 ? both : both >> 8) & 0x00FF00FF;
        return (at < 2 ? both : both >> 8) & (at % 2 == 0 ? 0x000F000F : 0x00F000F0);
    }
    uint at = n * bits, i = at / 32, next = min(i + 1, VALUE_WORDS - 1);
    uint low = string_bits(values[x + i], values[x + next], at % 32, bits);
    uint high = string_bits(values[y + i], values[y + next], at % 32, bits);
    return ROTATED ? level_pair(bits, low | high << bits) : low | high << 16;
}

/* The factor that turns sums of the lane's dimension n into values. */
float value_factor(uint n)
{
    return CODE_ONE * (!ROTATED && VALUE_HALF_BITS == 8 && n % 2 == 1 ? 1.0 / 16.0 : 1.0);
}

/* --- before the loop --- */

void make_level_pairs()
{
    for (uint bits = 1; bits <= 4; bits++) {
        uint count = PAIRS & 1 << 2 * bits, first = PAIRS & (1 << 2 * bits) - 1;
        for (uint i = gl_LocalInvocationIndex; i < count; i += INVOCATIONS) {
            float low = shared_levels[kv_level(bits, i & (1 << bits) - 1)];
            float high = shared_levels[kv_level(bits, i >> bits)];
            shared_pairs[first + i] = packFloat2x16(f16vec2(low, high));
        }
    }
}

float query_element(uint q, uint d)
{
    return q < QUERIES ? shared_heads[q * QUADS + d / 4][d % 4] : 0.0;
}

/* x of columns 2 t and 2 t + 1, from the lanes that have x of column g. */
vec2 columns_of(float x)
{
    return vec2(take(x, 8 * t), take(x, 8 * t + 4));
}

void take_queries()
{
    float top = 1e-30, group_sums[GROUPS];
    UNROLLED for (uint s = 0; s < GROUPS; s++)
        group_sums[s] = 0.0;
    UNROLLED for (uint s = 0; s < SEGMENTS; s++) {
        for (uint d = 0; d < KEY_DIMS; d++) {
            float x = query_element(g, s * SEGMENT + t * KEY_DIMS + d);
            top = max(top, abs(x));
            group_sums[s / HALVES] += x;
        }
    }
    UNROLLED for (uint step = 1; step < 4; step *= 2)
        top = max(top, take(top, LANE ^ step));
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        UNROLLED for (uint step = 1; step < 4; step *= 2)
            group_sums[s] += take(group_sums[s], LANE ^ step);
        query_sums[s] = columns_of(group_sums[s]);
    }
    query_factors = columns_of(top) / QUERY_TOP * CODE_ONE;
    float factor = QUERY_TOP / top;
    UNROLLED for (uint s = 0; s < SEGMENTS; s++) {
        UNROLLED for (uint i = 0; i < 2 * STEPS; i++) {
            float divisor;
            uvec2 dims = key_pair_dims(i, divisor) + s * SEGMENT + t * KEY_DIMS;
            vec2 x = vec2(query_element(g, dims.x), query_element(g, dims.y)) * (factor / divisor);
            if (SUBGROUP == 0)
                shared_query[(s * STEPS + i / 2) * 32 + LANE][i % 2] = packFloat2x16(f16vec2(x));
        }
    }
}

void clear_sums()
{
    maximum = vec2(NOTHING);
    total = vec2(0.0);
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        bias_sums[s] = vec2(0.0);
        scale_top[s] = 0.0;
    }
    UNROLLED for (uint i = 0; i < SEGMENTS * STEPS; i++)
        sums[i] = SUMS(0.0);
}

/* --- a tile --- */

/* Computes scores of block b: positions 2 g and 2 g + 1, columns 2 t and 2 t + 1. */
void find_scores(uint b)
{
    scores[2 * b] = scores[2 * b + 1] = vec2(0.0);
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        SUMS products = SUMS(0.0);
        UNROLLED for (uint h = 0; h < HALVES; h++) {
            uint part = s * HALVES + h, bits = segment_bits(KEY_HALF_BITS, part);
            uint low = (b * 2 * SEGMENTS + part) * KEY_WORDS, high = low + SEGMENTS * KEY_WORDS;
            UNROLLED for (uint i = 0; i < STEPS; i++)
                multiply(uvec4(key_pair(bits, low, 2 * i), key_pair(bits, low, 2 * i + 1),
                               key_pair(bits, high, 2 * i), key_pair(bits, high, 2 * i + 1)),
                         shared_query[(part * STEPS + i) * 32 + LANE], products);
        }
        vec2 scale = unpackHalf2x16(key_scales[(b * GROUPS + s) * 2]);
        vec2 bias = unpackHalf2x16(key_scales[(b * GROUPS + s) * 2 + 1]);
        UNROLLED for (uint i = 0; i < 2; i++) {
            scores[2 * b + i] +=
                vec2(products[2 * i], products[2 * i + 1]) * (query_factors * scale[i]);
            if (!ROTATED)
                scores[2 * b + i] += query_sums[s] * bias[i];
        }
    }
}

bool sees(uint position)
{
    return position >= begin && position < end;
}

/* Scales (0) or biases (1) of the lane's two values of block b; 0 for positions that are not seen. */
vec2 value_scale(uint b, uint s, uint which, uint first)
{
    vec2 two = unpackHalf2x16(value_scales[(b * GROUPS + s) * 2 + which]);
    uint position = first + KV_BLOCK_TOKENS * b + 2 * g;
    return vec2(sees(position) ? two.x : 0.0, sees(position + 1) ? two.y : 0.0);
}

/* Rescales the sums to a larger maximum or larger scales. */
void raise(vec2 top)
{
    top = max(maximum, positions_max(top));
    vec2 shrink = exp2(maximum - top);
    maximum = top;
    total *= shrink;
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        float most = positions_max(vec2(scale_most[s])).x, was = scale_top[s];
        scale_top[s] = most > was ? 2.0 * most : was;
        vec2 factor = shrink * (was > 0.0 ? was / scale_top[s] : 0.0);
        bias_sums[s] *= shrink;
        UNROLLED for (uint i = 0; i < HALVES * STEPS; i++)
            UNROLLED for (uint e = 0; e < 4; e++)
                sums[s * HALVES * STEPS + i][e] *= factor[e % 2];
    }
}

/* Turns the scores of the tile's blocks into weights. */
void weigh(uint first)
{
    vec2 top = vec2(MASKED);
    bool grows = false;
    UNROLLED for (uint i = 0; i < TILE_BLOCKS * 2; i++) {
        if (SOFT_CAP > 0.0) {
            scores[i].x = cap_score(scores[i].x, SOFT_CAP);
            scores[i].y = cap_score(scores[i].y, SOFT_CAP);
        }
        uint position = first + KV_BLOCK_TOKENS * (i / 2) + 2 * g + i % 2;
        scores[i] = sees(position) ? scores[i] : vec2(MASKED);
        top = max(top, scores[i]);
    }
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        scale_most[s] = 0.0;
        UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++) {
            vec2 two = value_scale(b, s, 0, first);
            scale_most[s] = max(scale_most[s], max(two.x, two.y));
        }
        grows = grows || scale_most[s] > scale_top[s];
    }
    if (any_lane(grows || top.x > maximum.x + SLACK || top.y > maximum.y + SLACK))
        raise(top);
    UNROLLED for (uint i = 0; i < TILE_BLOCKS * 2; i++) {
        scores[i] = exp2(scores[i] - maximum);
        total += scores[i];
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

void add_values(uint first, uint b)
{
    vec2 low = scores[2 * b], high = scores[2 * b + 1];
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        vec2 scale = value_scale(b, s, 0, first);
        float factor = WEIGHT_TOP / max(scale_top[s], 1e-30);
        uvec2 weights =
            turn_weights(packFloat2x16(f16vec2(low * (scale.x * factor))),
                         packFloat2x16(f16vec2(high * (scale.y * factor))));
        if (!ROTATED) {
            vec2 bias = value_scale(b, s, 1, first);
            bias_sums[s] += low * bias.x + high * bias.y;
        }
        const uint row = SEGMENTS * VALUE_WORDS;
        UNROLLED for (uint h = 0; h < HALVES; h++) {
            uint part = s * HALVES + h, bits = segment_bits(VALUE_HALF_BITS, part);
            uint p = (b * 4 * SEGMENTS + part) * VALUE_WORDS;
            UNROLLED for (uint i = 0; i < STEPS; i++)
                multiply(uvec4(value_pair(bits, p, p + row, 2 * i),
                               value_pair(bits, p + 2 * row, p + 3 * row, 2 * i),
                               value_pair(bits, p, p + row, 2 * i + 1),
                               value_pair(bits, p + 2 * row, p + 3 * row, 2 * i + 1)),
                         weights, sums[part * STEPS + i]);
        }
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
    UNROLLED for (uint s = 0; s < GROUPS; s++) {
        vec2 biases = ROTATED ? vec2(0.0) : positions_sum(bias_sums[s]);
        UNROLLED for (uint i = 0; i < HALVES * STEPS; i++)
            UNROLLED for (uint e = 0; e < 4; e++)
        {
            uint n = 2 * (i % STEPS) + e / 2, q = 2 * t + e % 2;
            uint d = (s * HALVES + i / STEPS) * SEGMENT + g * VALUE_DIMS + n;
            float sum = sums[s * HALVES * STEPS + i][e] * (scale_top[s] / WEIGHT_TOP * value_factor(n));
            if (q < QUERIES)
                shared_heads[(SUBGROUP * QUERIES + q) * QUADS + d / 4][d % 4] = sum + biases[e % 2];
        }
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
    if (ROTATED)
        take_levels();
    load_keys();
    load_values();
    find_blocks(1);
    put_queries(raw);
    barrier();
    if (ROTATED) {
        rotate_heads(0);
        make_level_pairs();
        barrier();
    }
    take_queries();
    barrier();
    clear_sums();
    for (uint tile = 0; tile < tiles; tile++) {
        uint first = (first_block + (tile * SUBGROUPS + SUBGROUP) * TILE_BLOCKS) * KV_BLOCK_TOKENS;
        UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++)
            find_scores(b);
        if (tile + 1 < tiles)
            load_keys();
        weigh(first);
        UNROLLED for (uint b = 0; b < TILE_BLOCKS; b++)
            add_values(first, b);
        if (tile + 1 < tiles) {
            load_values();
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
    if (ROTATED)
        rotate_back();
    write_outputs();
}
