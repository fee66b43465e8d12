#version 450
/*
 * Reads a layer's keys and values of a sequence into the cache, while the projection before its
 * attention runs. The weights of the step have replaced them in the cache since the previous step, and
 * attention, a chain of short reads, would wait for memory at each of them.
 *
 * A workgroup reads a word of every line of one block. The result is not used; it is stored if it equals
 * `wanted`, so that compilers cannot remove the reads.
 *
 * Grid: (blocks of a context, at most; sequences).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BLOCK_BYTES = 4096; /* of all KV heads' keys; as many of values */
layout(constant_id = 2) const uint WINDOW = 0;
layout(constant_id = 3) const uint KV_GROUP = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Marks { uint at[]; };

layout(push_constant) uniform Push
{
    uint64_t keys; /* the layer's regions */
    uint64_t values;
    uint64_t sequences; /* StepSequence [] */
    uint64_t tables;
    uint64_t marks; /* 0, or u32 per invocation of the grid */
    uint wanted;
} push;

const uint LINE_BYTES = 32;
const uint AT_ONCE = 4;

void main()
{
    StepSequence sequence = StepSequences(push.sequences).at[gl_WorkGroupID.y];
    uint position = sequence.first_position;
    uint first = WINDOW > 0 && position + 1 > WINDOW ? (position + 1 - WINDOW) / KV_BLOCK_TOKENS : 0;
    uint index = first + gl_WorkGroupID.x;
    if (sequence.row_count == 0 || index > position / KV_BLOCK_TOKENS)
        return;
    uint block = StepWords(push.tables).at[sequence.table[KV_GROUP] + index];
    uint64_t keys = push.keys + uint64_t(block) * BLOCK_BYTES;
    uint64_t values = push.values + uint64_t(block) * BLOCK_BYTES;
    uint sum = 0, stride = LINE_BYTES * gl_WorkGroupSize.x;
    for (uint i = gl_LocalInvocationIndex * LINE_BYTES; i < BLOCK_BYTES; i += AT_ONCE * stride) {
        uint words[2 * AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
            uint at = min(i + j * stride, BLOCK_BYTES - LINE_BYTES);
            words[2 * j] = StepWords(keys + at).at[0];
            words[2 * j + 1] = StepWords(values + at).at[0];
        }
        [[unroll]] for (uint j = 0; j < 2 * AT_ONCE; j++)
            sum += words[j];
    }
    if (sum == push.wanted && push.marks != 0)
        Marks(push.marks).at[gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationIndex] = 1;
}
