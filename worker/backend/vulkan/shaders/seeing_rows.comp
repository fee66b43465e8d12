#version 450
/*
 * x[r, :] = 0 in rows that see no features (worker/plan/op_list.h).
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "step.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;      /* f32 [rows, columns], in place */
    uint64_t sights; /* StepSight [rows] */
    uint columns;
    uint unused;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint count = StepSights(push.sights).at[row].crossed_count;
    if (count == 0 || (count & SIGHT_UNSEEING) != 0)
        row_store_f32(push.x, row, column, push.columns, vec4(0.0));
}
