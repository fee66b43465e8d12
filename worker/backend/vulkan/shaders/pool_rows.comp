#version 450
/*
 * out[f, :] = scale * the sum of x[count * f, :] to x[count * f + count - 1, :].
 *
 * Grid: (rows of out, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows * count, columns] */
    RowOutputs outputs;
    uint columns;
    uint count;
    float scale;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 sum = vec4(0.0);
    for (uint i = 0; i < push.count; i++)
        sum += row_load(push.x, row * push.count + i, column, push.columns);
    row_store(push.outputs, row, column, push.columns, push.scale * sum);
}
