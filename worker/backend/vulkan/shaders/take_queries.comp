#version 450
/*
 * x is heads of (query | gate), then other columns; out is the queries, then the other columns.
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
    uint64_t x; /* f32 [rows, columns + queries] */
    RowOutputs outputs;
    uint columns;
    uint queries; /* columns of all heads' */
    uint head_dim;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(row) * (push.columns + push.queries)));
    vec4 v = vec4(0.0);
    for (uint i = 0; i < 4 && first + i < push.columns; i++) {
        uint column = first + i;
        uint before = column / push.head_dim * push.head_dim; /* gates, of the heads before it */
        v[i] = x.at[column + (column < push.queries ? before : push.queries)];
    }
    row_store(push.outputs, row, first, push.columns, v);
}
