#version 450
/*
 * out[r, h, :] = x[r, h, first : first + part].
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
    uint64_t x; /* f32 [rows, heads * head_columns] */
    RowOutputs outputs;
    uint columns; /* heads * part */
    uint part;
    uint head_columns;
    uint heads;
    uint first;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.heads * push.head_columns));
    vec4 v = vec4(0.0);
    for (uint i = 0; i < 4 && first + i < push.columns; i++) {
        uint head = (first + i) / push.part;
        v[i] = x.at[head * push.head_columns + push.first + (first + i) % push.part];
    }
    row_store(push.outputs, row, first, push.columns, v);
}
