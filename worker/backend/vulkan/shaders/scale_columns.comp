#version 450
/*
 * out[r, c] = x[r, c] * w[c], or w[0] where there is one weight for all columns. `out` may be x.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t weights; /* f32 [weight_columns] */
    RowOutputs outputs;
    uint columns;
    uint weight_columns; /* 1 or columns */
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 weights = push.weight_columns == 1 ? vec4(RowFloat(push.weights).value)
                                            : row_load(push.weights, 0, column, push.columns);
    row_store(push.outputs, row, column, push.columns,
              row_load(push.x, row, column, push.columns) * weights);
}
