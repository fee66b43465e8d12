#version 450
/*
 * out[r, :] = x[r, :] + bias, where the f32 form of out is x itself; with BIAS_ALONE, out is the bias alone,
 * for a matrix product that adds to it.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(constant_id = 2) const bool BIAS_ALONE = false;

layout(push_constant) uniform Push
{
    uint64_t x;    /* f32 [rows, columns] */
    uint64_t bias; /* f32 [columns] */
    RowOutputs outputs;
    uint columns;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 v = BIAS_ALONE ? vec4(0.0) : row_load(push.x, row, column, push.columns);
    row_store(push.outputs, row, column, push.columns,
              v + row_load(push.bias, 0, column, push.columns));
}
