#version 450
/*
 * What happens to a row's q|k|v between projection and attention, in one dispatch: rms norm of each
 * query and key head (NORM), rotation of both by the row's position (ROPE), keys and values into
 * the paged cache as f16 (WRITE). Values may be normed too, without weights (NORM_VALUES). Queries go
 * back where they were, or to an f16 tensor of their own
 * [rows, HEADS * HEAD_DIM] (QUERIES_F16).
 *
 * With parts switched off it is each of the ops alone: head_norm and rope are HEADS heads and no KV
 * heads; kv_write is KV heads only.
 *
 * A subgroup takes a head of a row, lanes go over pairs of its elements: working out an angle anew
 * for every head is cheaper than fewer subgroups that share it. Each lane reads only what it writes
 * itself.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "kv_blocks.glsl"
#include "rope_angle.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PARTS = 7; /* enum vulkan_heads_part */
layout(constant_id = 2) const uint HEAD_DIM = 128;
layout(constant_id = 3) const uint HEADS = 32;
layout(constant_id = 4) const uint KV_HEADS = 8;
layout(constant_id = 5) const uint PAIRING = 0;
layout(constant_id = 6) const uint ROPE_DIMS = 128;
layout(constant_id = 7) const uint KV_GROUP = 0; /* which of a sequence's block tables */

const bool NORM = (PARTS & 1) != 0, ROPE = (PARTS & 2) != 0, WRITE = (PARTS & 4) != 0;
const bool QUERIES_F16 = (PARTS & 8) != 0, NORM_VALUES = (PARTS & 16) != 0;
const uint TOTAL_HEADS = HEADS + 2 * KV_HEADS;
const uint PAIRS = (HEAD_DIM + 1) / 2;
const uint DIMS = ROPE ? ROPE_DIMS : 0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t qkv;          /* f32 [rows, stride], in and out */
    uint64_t queries_f16;  /* f16 [rows, HEADS * HEAD_DIM] */
    uint64_t frequencies;  /* f32 [ROPE_DIMS / 2]: radians per position */
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
} push;

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

/* Where the row's key (or value) of `head` lies in the cache. */
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

void main()
{
    uint head = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    uint row = gl_WorkGroupID.y;
    if (head >= TOTAL_HEADS)
        return;
    StepRow step_row = StepRow(0, 0, 0, 0);
    if (ROPE || WRITE)
        step_row = StepRows(push.rows).at[row];
    Floats source = Floats(head_address(row, head));
    float factor = is_normed(head) ? norm_factor(source) : 1.0;
    uint64_t target = head_address(row, head);
    if (!is_query(head))
        target = WRITE ? cache_address(step_row, head) : 0;
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
        if (pair < DIMS / 2 && !is_value(head)) {
            precise float angle = float(step_row.position) * Floats(push.frequencies).at[pair];
            x = rope_rotate(x, rope_cos_sin(angle) * push.magnitude);
        }
        if (is_query(head) && !QUERIES_F16)
            store_floats(target, elements, x);
        else if (is_query(head) || WRITE)
            store_halves(target, elements, x);
    }
}
