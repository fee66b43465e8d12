#version 450
/*
 * out[l, :] = x[logit_rows[l], :], in the forms that the output matrix reads.
 *
 * Grid: (logit rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "step.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;          /* f32 [step rows, columns] */
    uint64_t logit_rows; /* u32 [logit rows] */
    RowOutputs outputs;  /* [logit rows, columns] */
    uint columns;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint source = StepWords(push.logit_rows).at[row];
    row_store(push.outputs, row, column, push.columns,
              row_load(push.x, source, column, push.columns));
}
