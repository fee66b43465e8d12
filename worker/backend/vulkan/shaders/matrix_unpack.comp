#version 450
/*
 * Unpacks a packed matrix to f16 [n, k] in scratch memory, for kernels that multiply many rows:
 * unpacking once costs little compared with so many products, and the product then needs only the
 * matrix units. One invocation unpacks eight columns.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Chunks { uvec4 at[]; };

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [n, k], k a multiple of 32 */
    uint64_t halves;      /* f16 [n, k] */
    uint chunks;          /* n * k / 8 */
} push;

const float HALF_LARGEST = 65504.0;

uint rounded_pair(vec2 values)
{
    return packFloat2x16(f16vec2(clamp(values, -HALF_LARGEST, HALF_LARGEST)));
}

uvec4 unpack_floats(uint chunk)
{
    vec4 low, high;
    if (WEIGHT_KIND == WEIGHT_F32) {
        low = weight_floats(weight_load_floats(push.weights, 2 * chunk), 0);
        high = weight_floats(weight_load_floats(push.weights, 2 * chunk + 1), 0);
    } else {
        uvec4 both = weight_load_floats(push.weights, chunk);
        low = weight_floats(both, 0);
        high = weight_floats(both, 1);
    }
    return uvec4(rounded_pair(low.xy), rounded_pair(low.zw), rounded_pair(high.xy),
                 rounded_pair(high.zw));
}

uvec4 packed_halves(f16vec4 low, f16vec4 high)
{
    return uvec4(packFloat2x16(low.xy), packFloat2x16(low.zw), packFloat2x16(high.xy),
                 packFloat2x16(high.zw));
}

void main()
{
    /* Neighbours write side by side; the four that share a block read the same. */
    uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x;
    uint chunk = first + gl_LocalInvocationIndex;
    if (chunk >= push.chunks)
        return;
    uvec4 halves;
    if (WEIGHT_QUANTIZED) {
        WeightBlock w = weight_load(push.weights, chunk / 4);
        halves = packed_halves(weight_halves(w, chunk % 4 * 2), weight_halves(w, chunk % 4 * 2 + 1));
    } else {
        halves = unpack_floats(chunk);
    }
    Chunks(push.halves).at[chunk] = halves;
}
