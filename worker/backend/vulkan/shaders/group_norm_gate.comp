#version 450
/*
 * out[r, g, :] = rms_norm(x[r, g, :] * silu(gates[r, g, :])) * weights[g, :], or with NORM_FIRST the
 * gates come after the norm, or without a norm there are the gates alone.
 *
 * A workgroup computes one group of one row. Gated columns are computed again after the sum rather
 * than kept: groups may be as wide as a row.
 *
 * Grid: (rows, groups).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OWN = 0; /* bit 0: there is a norm; bit 1: it comes first */
const bool NORMS = (OWN & 1) != 0, NORM_FIRST = (OWN & 2) != 0;

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "workgroup_sum.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t gates;   /* f32 [rows, gate_stride] */
    uint64_t weights; /* f32 [columns], with NORMS */
    uint64_t out_f32; /* [rows, columns] */
    uint columns;
    uint gate_stride;
    uint gate_offset;
    uint wide; /* columns of a group */
    float epsilon;
} push;

void main()
{
    uint row = gl_WorkGroupID.x, first = gl_WorkGroupID.y * push.wide;
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.columns + first));
    Floats gates =
        Floats(push.gates + 4 * (uint64_t(row) * push.gate_stride + push.gate_offset + first));
    Floats weights = Floats(push.weights + 4 * first);
    Floats gated = Floats(push.out_f32 + 4 * (uint64_t(row) * push.columns + first));
    float squares = 0.0;
    for (uint c = gl_LocalInvocationID.x; NORMS && c < push.wide; c += gl_WorkGroupSize.x) {
        float gate = gates.at[c];
        float element = NORM_FIRST ? x.at[c] : x.at[c] * gate / (1.0 + exp(-gate));
        squares += element * element;
    }
    float factor = 1.0;
    if (NORMS)
        factor = inversesqrt(workgroup_sum(squares) / float(push.wide) + push.epsilon);
    for (uint c = gl_LocalInvocationID.x; c < push.wide; c += gl_WorkGroupSize.x) {
        float gate = gates.at[c];
        float element = x.at[c] * gate / (1.0 + exp(-gate)) * factor;
        gated.at[c] = NORMS ? element * weights.at[c] : element;
    }
}
