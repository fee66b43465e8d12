#version 450
/*
 * out[r, h, :] = y[r, h, :] * sigmoid(gate h of x[r]), x being heads of (query | gate).
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, stride] */
    uint64_t y; /* f32 [rows, columns] */
    RowOutputs outputs;
    uint columns;
    uint stride;
    uint head_dim;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.stride));
    vec4 v = row_load(push.y, row, first, push.columns);
    for (uint i = 0; i < 4 && first + i < push.columns; i++) {
        uint head = (first + i) / push.head_dim;
        v[i] /= 1.0 + exp(-x.at[first + i + (head + 1) * push.head_dim]);
    }
    row_store(push.outputs, row, first, push.columns, v);
}
