#version 450
/*
 * out[r, c] = activation(x[r, c]) * x[r, columns + c], x being [rows, 2 * columns]; 0 from `columns`
 * on.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "activation.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, 2 * columns] */
    RowOutputs outputs;
    uint out_columns; /* of its rows */
    uint columns;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    /* Row r of [rows, 2 * columns] is rows 2r and 2r + 1 of [2 * rows, columns]. */
    vec4 v = row_load(push.x, 2 * row, column, push.columns);
    vec4 up = row_load(push.x, 2 * row + 1, column, push.columns);
    row_store(push.outputs, row, column, push.out_columns, activation(v) * up);
}
