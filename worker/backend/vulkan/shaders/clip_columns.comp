#version 450
/*
 * out[r, offset + stride * c] = min(max(x[r, c], least), most). `out` may be x.
 *
 * Grid: (rows, column tiles of 4 * invocations) of x.
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t out_f32; /* f32 [rows, out_columns], from the first column on that is written */
    uint columns;
    uint out_columns;
    float least; /* may be infinite, as the other */
    float most;
    uint stride;
    uint unused;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint64_t target = push.out_f32 + 4 * row_index(row, 0, push.out_columns);
    vec4 v = row_load(push.x, row, column, push.columns);
    for (uint i = 0; i < 4; i++)
        if (column + i < push.columns)
            RowFloat(target + 4 * push.stride * (column + i)).value = min(max(v[i], push.least), push.most);
}
