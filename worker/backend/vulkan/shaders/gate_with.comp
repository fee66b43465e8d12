#version 450
/*
 * out[r, c] = activation(x[r, c]) * y[r, y_offset + c], y being [rows, y_stride]. `out` may be x.
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
    uint64_t x; /* f32 [rows, columns] */
    uint64_t y; /* f32 [rows, y_stride] */
    RowOutputs outputs;
    uint columns;
    uint y_stride;
    uint y_offset;
} push;

vec4 load_factors(uint row, uint column)
{
    vec4 v = vec4(0.0);
    uint64_t at = push.y + 4 * (row_index(row, column, push.y_stride) + push.y_offset);
    if ((push.columns | push.y_stride | push.y_offset) % 4 == 0) {
        if (column < push.columns)
            v = RowFloats(at).value;
        return v;
    }
    for (uint i = 0; i < 4; i++)
        if (column + i < push.columns)
            v[i] = RowFloat(at + 4 * i).value;
    return v;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 v = row_load(push.x, row, column, push.columns);
    row_store(push.outputs, row, column, push.columns, activation(v) * load_factors(row, column));
}
