#version 450
/*
 * out[r, c] = scale * (x[r, c] + y[r, c]). `out` may be x or y.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, columns] */
    uint64_t y;
    RowOutputs outputs;
    uint columns;
    float scale;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 x = row_load(push.x, row, column, push.columns);
    vec4 y = row_load(push.y, row, column, push.columns);
    row_store(push.outputs, row, column, push.columns, push.scale * (x + y));
}
