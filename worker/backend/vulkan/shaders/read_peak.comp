#version 450
/*
 * Reads a range of memory once, as fast as the device can, to measure its bandwidth. The sum of the
 * numbers is stored only so that compilers keep the reads.
 *
 * Grid: (workgroups), which share the range.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Pieces { uvec4 at[]; };

layout(push_constant) uniform Push
{
    Pieces memory;
    uint pieces; /* of 16 bytes */
} push;

const uint UNROLL = 8;

void main()
{
    uvec4 sum = uvec4(0);
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < push.pieces; i += UNROLL * stride) {
        [[unroll]] for (uint u = 0; u < UNROLL; u++)
            if (i + u * stride < push.pieces)
                sum ^= push.memory.at[i + u * stride];
    }
    if (sum != uvec4(0)) /* the memory is zeros, which the compiler cannot know */
        push.memory.at[0] = sum;
}
