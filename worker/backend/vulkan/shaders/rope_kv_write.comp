#version 450
/*
 * All ops on a row's q|k|v between projection and attention, in one dispatch: rms norm of each query
 * and key head (NORM), rotation of both by the row's position (ROPE), writing of keys and values to the
 * paged cache as f16 (WRITE). Values may be normed too, without weights (NORM_VALUES). Queries are
 * written in place, or to a separate f16 tensor [rows, HEADS * HEAD_DIM] (QUERIES_F16). If rows have
 * several positions (AXES), each pair of elements uses one of them, listed after the frequencies, or each element of a
 * pair one of its own.
 *
 * If the cache is quantized (kv_codes.glsl), a head is gathered in shared memory, rotated if its scheme
 * requires it, and written in runs of elements whose codes fill whole 16-bit words, or bytes, alone.
 *
 * With parts switched off it is each of the ops alone: head_norm and rope are HEADS heads and no KV
 * heads; kv_write is KV heads only.
 *
 * A subgroup takes a head of a row, lanes go over pairs of its elements: computing an angle again for
 * every head is cheaper than fewer subgroups that share it. Each lane reads only what it writes
 * itself.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "kv_blocks.glsl"
#include "rope_angle.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 1) const uint PARTS = 7; /* enum vulkan_heads_part */
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const uint HEADS = 32;
layout(constant_id = 4) const uint KV_HEADS = 8;
layout(constant_id = 5) const uint PAIRING = 0;
layout(constant_id = 6) const uint ROPE_DIMS = 128;
layout(constant_id = 7) const uint KV_GROUP = 0; /* which of a sequence's block tables */
layout(constant_id = 8) const uint KV_SCHEME = 0; /* kv_codes.glsl, as the next */
layout(constant_id = 9) const uint KEY_HALF_BITS = 16;
layout(constant_id = 10) const uint VALUE_HALF_BITS = 16;
layout(constant_id = 11) const uint GROUP_DIMS = 64;
layout(constant_id = 12) const uint SUBGROUPS = 1; /* heads of a workgroup */
#include "kv_codes.glsl"

const bool NORM = (PARTS & 1) != 0, ROPE = (PARTS & 2) != 0, WRITE = (PARTS & 4) != 0;
const bool QUERIES_F16 = (PARTS & 8) != 0, NORM_VALUES = (PARTS & 16) != 0;
const bool AXES = (PARTS & 32) != 0;
const uint TOTAL_HEADS = HEADS + 2 * KV_HEADS;
const uint PAIRS = (HEAD_DIM + 1) / 2;
const uint DIMS = ROPE ? ROPE_DIMS : 0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer KvBytes { uint8_t at[]; };

layout(push_constant) uniform Push
{
    uint64_t qkv;          /* f32 [rows, stride], in and out */
    uint64_t queries_f16;  /* f16 [rows, HEADS * HEAD_DIM] */
    uint64_t frequencies;  /* f32 [ROPE_DIMS / 2]: radians per position; u32 [ROPE_DIMS]: axes of first, then second elements */
    uint64_t query_norm;   /* f32 [HEAD_DIM] */
    uint64_t key_norm;     /* f32 [HEAD_DIM] */
    uint64_t keys;         /* the layer's region */
    uint64_t values;
    uint64_t rows;         /* StepRow [] */
    uint64_t sequences;    /* StepSequence [] */
    uint64_t tables;
    uint stride;
    uint query_offset; /* columns */
    uint key_offset;
    uint value_offset;
    float magnitude;
    float epsilon;
    float weight_offset;
    uint opening; /* not with PACKED: positions from here on are not written; 0: all are */
    uint64_t codec;  /* ROTATED: KvTables */
    uint64_t sights; /* AXES: StepSight [rows] */
} push;

const uint GATHERED = PACKED && WRITE ? HEAD_DIM : 1;
/* Elements whose codes are RUN / 8 bytes for each of their bits: shorts but where half of a head ends in
 * the middle of one. */
const uint RUN = HEAD_DIM % 32 * ((KEY_HALF_BITS | VALUE_HALF_BITS) % 2) != 0 ? 8 : 16;
/* Of a head that is rotated by a matrix, in an invocation. */
const uint LANES = INVOCATIONS / SUBGROUPS;
const uint TURNED = MULTIPLIED ? (HEAD_DIM + LANES - 1) / LANES : 1;
shared float shared_head[SUBGROUPS * GATHERED];

/* Heads are numbered queries, keys, values. */
bool is_query(uint head)
{
    return head < HEADS;
}

bool is_value(uint head)
{
    return head >= HEADS + KV_HEADS;
}

uint64_t head_address(uint row, uint head)
{
    uint column = is_query(head)   ? push.query_offset + head * HEAD_DIM
                  : is_value(head) ? push.value_offset + (head - HEADS - KV_HEADS) * HEAD_DIM
                                   : push.key_offset + (head - HEADS) * HEAD_DIM;
    return push.qkv + 4 * (uint64_t(row) * push.stride + column);
}

float norm_factor(Floats head)
{
    float squares = 0.0;
    for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += gl_SubgroupSize)
        squares += head.at[d] * head.at[d];
    return inversesqrt(subgroupAdd(squares) / float(HEAD_DIM) + push.epsilon);
}

bool is_normed(uint head)
{
    return NORM && (NORM_VALUES || !is_value(head));
}

float norm_weight(uint head, uint d)
{
    if (is_value(head))
        return 1.0;
    Floats weights = Floats(is_query(head) ? push.query_norm : push.key_norm);
    return weights.at[d] + push.weight_offset;
}

/* Address of the row's key (or value) of `head` in the cache. */
uint64_t cache_address(StepRow row, uint head)
{
    uint table = StepSequences(push.sequences).at[row.sequence].table[KV_GROUP];
    uint block = StepWords(push.tables).at[table + row.position / KV_BLOCK_TOKENS];
    return kv_address(is_value(head) ? push.values : push.keys, block, KV_HEADS,
                      is_value(head) ? head - HEADS - KV_HEADS : head - HEADS,
                      row.position % KV_BLOCK_TOKENS, HEAD_DIM);
}

void store_halves(uint64_t address, uvec2 elements, vec2 x)
{
    KvElements out_elements = KvElements(address);
    out_elements.at[elements.x] = float16_t(kv_hold(x.x));
    if (elements.y < HEAD_DIM)
        out_elements.at[elements.y] = float16_t(kv_hold(x.y));
}

void store_floats(uint64_t address, uvec2 elements, vec2 x)
{
    Floats out_elements = Floats(address);
    out_elements.at[elements.x] = x.x;
    if (elements.y < HEAD_DIM)
        out_elements.at[elements.y] = x.y;
}

/* --- quantized heads --- */

/* Squares of it, too, are finite. */
float kv_finite(float x)
{
    float held = min(max(x, -1e17), 1e17);
    return held == held ? held : 0.0;
}

/* Index of element d of the subgroup's head. */
uint gathered(uint d)
{
    return gl_SubgroupID * GATHERED + d;
}

void gather(uvec2 elements, vec2 x)
{
    shared_head[gathered(elements.x)] = kv_finite(x.x);
    if (elements.y < HEAD_DIM)
        shared_head[gathered(elements.y)] = kv_finite(x.y);
}

void store_short(uint64_t side, uint at, uint x)
{
    KvShorts(side).at[at] = uint16_t(x & 0xffff);
}

/* Rounds to the nearest f16, ties to even, on every device: codes are chosen for the rounded scale,
 * and the rounding of a device's own conversion is unspecified. */
uint half_of(float x)
{
    uint bits = floatBitsToUint(kv_hold(x)), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits < 0x38800000) /* below 2^-14: a multiple of 2^-24 */
        return sign | uint(roundEven(uintBitsToFloat(bits) * 16777216.0));
    return sign | ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10);
}

/* a / b rounded to the nearest float on every device: a device's own division may be off by some
 * units, and quotients often lie exactly between two codes. b is not 0. */
float divided(float a, float b)
{
    precise float near = a / b;
    precise float left = fma(-near, b, a);
    precise float nearest = near + left / b;
    return nearest;
}

/* Called by the whole workgroup. */
void transform_gathered()
{
    for (uint half_size = 1; half_size < HEAD_DIM; half_size *= 2) {
        barrier();
        for (uint i = gl_SubgroupInvocationID; i < HEAD_DIM / 2; i += gl_SubgroupSize) {
            uint at = i / half_size * 2 * half_size + i % half_size;
            float a = shared_head[gathered(at)], b = shared_head[gathered(at + half_size)];
            shared_head[gathered(at)] = a + b;
            shared_head[gathered(at + half_size)] = a - b;
        }
    }
    barrier();
}

/* The same for a head times a matrix of orthonormal rows. */
void multiply_gathered(uint which)
{
    KvTables tables = KvTables(push.codec);
    float turned[TURNED];
    barrier();
    [[unroll]] for (uint i = 0; i < TURNED; i++) {
        uint to = i * LANES + gl_SubgroupInvocationID;
        turned[i] = 0.0;
        for (uint from = 0; to < HEAD_DIM && from < HEAD_DIM; from++)
            turned[i] += shared_head[gathered(from)] * kv_turn_factor(tables, which, from, to);
    }
    barrier();
    [[unroll]] for (uint i = 0; i < TURNED; i++) {
        uint to = i * LANES + gl_SubgroupInvocationID;
        if (to < HEAD_DIM)
            shared_head[gathered(to)] = turned[i];
    }
    barrier();
}

/* Stores the head's norm, divides the head by it and rotates it. Called by the whole workgroup. */
void rotate_gathered(uint which, uint64_t side, uint slot, uint half_bits, bool keeps)
{
    KvTables tables = KvTables(push.codec);
    float squares = 0.0;
    for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += gl_SubgroupSize)
        squares += shared_head[gathered(d)] * shared_head[gathered(d)];
    float norm = sqrt(subgroupAdd(squares));
    if (keeps && gl_SubgroupInvocationID == 0)
        store_short(side, kv_row_bytes(half_bits) * KV_BLOCK_TOKENS / 2 + slot, half_of(norm));
    barrier();
    for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += gl_SubgroupSize) {
        float sign = MULTIPLIED ? 1.0 : tables.rotations[which * HEAD_DIM + d];
        shared_head[gathered(d)] *= sign / max(norm, 1e-6);
    }
    if (MULTIPLIED)
        multiply_gathered(which);
    else
        transform_gathered();
}

/* The group's {bias, scale}, rounded as stored; `bits`: whole bits of a code. */
vec2 measure_group(uint64_t side, uint slot, uint bits, uint group, bool keeps)
{
    float low = shared_head[gathered(group * GROUP_DIMS)], high = low;
    for (uint d = group * GROUP_DIMS; d < (group + 1) * GROUP_DIMS; d++) {
        low = min(low, shared_head[gathered(d)]);
        high = max(high, shared_head[gathered(d)]);
    }
    float most = float((1 << bits) - 1);
    uint bias = half_of(low), scale = half_of(divided(high, most) - divided(low, most));
    uint at = kv_row_bytes(2 * bits) * KV_BLOCK_TOKENS / 2 + group * KV_BLOCK_TOKENS + slot;
    if (keeps) {
        store_short(side, at, scale);
        store_short(side, at + KV_SCALE_BYTES / 2, bias);
    }
    return unpackHalf2x16(bias | scale << 16);
}

/* Replaces the gathered head's elements by the numbers of their levels. Called by the whole
 * workgroup. */
void find_levels(uint half_bits)
{
    KvTables tables = KvTables(push.codec);
    const float scale = MULTIPLIED ? 1.0 : inversesqrt(float(HEAD_DIM));
    for (uint d = gl_SubgroupInvocationID; d < HEAD_DIM; d += gl_SubgroupSize) {
        uint bits = kv_piece_bits(half_bits, d / 8);
        float y = shared_head[gathered(d)] * scale, code = 0.0;
        for (uint i = 0; i < (1 << bits) - 1; i++)
            code += y > tables.bounds[bits - 1][i] ? 1.0 : 0.0;
        shared_head[gathered(d)] = code;
    }
    barrier();
}

uint find_code(uint bits, float x, vec2 group)
{
    if (ROTATED)
        return uint(x);
    float code = group.y > 0.0 ? roundEven(divided(x - group.x, group.y)) : 0.0;
    return uint(clamp(code, 0.0, float((1 << bits) - 1)));
}

/* The lowest RUN bits. */
void store_unit(uint64_t side, uint at, uint string)
{
    if (RUN == 16)
        store_short(side, at, string);
    else
        KvBytes(side).at[at] = uint8_t(string & 0xff);
}

/* Writes the gathered head to its slot. A lane has a run of elements at a time, whose codes are `bits` units of
 * RUN bits. */
void store_codes(uint64_t side, uint slot, uint half_bits)
{
    for (uint first = RUN * gl_SubgroupInvocationID; first < HEAD_DIM; first += RUN * gl_SubgroupSize) {
        uint bits = kv_piece_bits(half_bits, first / 8);
        vec2 group = vec2(0.0);
        if (!ROTATED)
            group = measure_group(side, slot, bits, first / GROUP_DIMS, first % GROUP_DIMS == 0);
        uint at = (slot * kv_row_bytes(half_bits) + kv_piece_offset(half_bits, first / 8)) / (RUN / 8);
        uint string = 0, held = 0;
        for (uint i = 0; i < RUN; i++) {
            string |= find_code(bits, shared_head[gathered(first + i)], group) << held;
            held += bits;
            if (held >= RUN) {
                store_unit(side, at++, string);
                string >>= RUN;
                held -= RUN;
            }
        }
    }
}

void write_codes(StepRow row, uint head)
{
    bool stores = head >= HEADS && head < TOTAL_HEADS;
    uint which = is_value(head) ? 1 : 0;
    uint half_bits = which == 0 ? KEY_HALF_BITS : VALUE_HALF_BITS;
    uint slot = row.position % KV_BLOCK_TOKENS;
    uint64_t side = 0;
    if (stores) {
        uint table = StepSequences(push.sequences).at[row.sequence].table[KV_GROUP];
        uint block = StepWords(push.tables).at[table + row.position / KV_BLOCK_TOKENS];
        side = kv_side_address(which == 0 ? push.keys : push.values, half_bits, block, KV_HEADS,
                               which == 0 ? head - HEADS : head - HEADS - KV_HEADS);
    }
    barrier();
    if (ROTATED) {
        rotate_gathered(which, side, slot, half_bits, stores);
        find_levels(half_bits);
    }
    if (stores)
        store_codes(side, slot, half_bits);
}

/* The row's positions for the elements of a rotated pair. */
uvec2 pair_positions(StepRow row, StepSight sight, uint pair)
{
    if (!AXES)
        return uvec2(row.position);
    StepWords words = StepWords(push.frequencies);
    uint first = words.at[ROPE_DIMS / 2 + pair], second = words.at[ROPE_DIMS + pair];
    return uvec2(first == ROPE_ROW ? row.position : sight_position(sight, first),
                 second == ROPE_ROW ? row.position : sight_position(sight, second));
}

vec2 rotate_pair(StepRow row, StepSight sight, uint pair, vec2 x)
{
    uvec2 at = pair_positions(row, sight, pair);
    float frequency = Floats(push.frequencies).at[pair];
    precise float angle = float(at.x) * frequency;
    vec2 cs = rope_cos_sin(angle) * push.magnitude;
    if (!AXES || at.x == at.y)
        return rope_rotate(x, cs);
    precise float second = float(at.y) * frequency;
    return rope_rotate_divided(x, cs, rope_cos_sin(second) * push.magnitude);
}

void write_head(uint head, uint row, StepRow step_row, StepSight sight)
{
    if (head >= TOTAL_HEADS)
        return;
    Floats source = Floats(head_address(row, head));
    float factor = is_normed(head) ? norm_factor(source) : 1.0;
    uint64_t target = head_address(row, head);
    if (!is_query(head))
        target = WRITE && !PACKED ? cache_address(step_row, head) : 0;
    else if (QUERIES_F16)
        target = push.queries_f16 + 2 * ((uint64_t(row) * HEADS + head) * HEAD_DIM);
    for (uint pair = gl_SubgroupInvocationID; pair < PAIRS; pair += gl_SubgroupSize) {
        uvec2 elements = rope_pair_elements(pair, DIMS, PAIRING);
        bool both = elements.y < HEAD_DIM;
        vec2 x = vec2(source.at[elements.x], both ? source.at[elements.y] : 0.0);
        if (is_normed(head)) {
            x.x *= factor * norm_weight(head, elements.x);
            x.y *= both ? factor * norm_weight(head, elements.y) : 0.0;
        }
        if (pair < DIMS / 2 && !is_value(head))
            x = rotate_pair(step_row, sight, pair, x);
        if (is_query(head) && !QUERIES_F16)
            store_floats(target, elements, x);
        else if (!is_query(head) && WRITE && PACKED)
            gather(elements, x);
        else if (is_query(head) || WRITE)
            store_halves(target, elements, x);
    }
}

void main()
{
    uint head = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    uint row = gl_WorkGroupID.y;
    StepRow step_row = StepRow(0, 0, 0, 0);
    if (ROPE || WRITE)
        step_row = StepRows(push.rows).at[row];
    if (WRITE && !PACKED && push.opening > 0 && step_row.position >= push.opening)
        return;
    StepSight sight = StepSight(0, 0, 0, 0, 0, 0, 0, 0);
    if (AXES)
        sight = StepSights(push.sights).at[row];
    write_head(head, row, step_row, sight);
    if (WRITE && PACKED)
        write_codes(step_row, head);
}
