#version 450
/*
 * x[r, :] += part of the feature of row r; rows without a feature stay as they are.
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
    uint64_t x;        /* f32 [rows, columns], in place */
    uint64_t sights;   /* StepSight [rows] */
    uint64_t features; /* f32 [pool rows, feature_columns], from the part's first column on */
    uint columns;
    uint feature_columns;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint feature = StepSights(push.sights).at[row].feature;
    if (feature == SIGHT_BLIND)
        return;
    uint64_t added = push.features + 4 * row_index(feature, 0, push.feature_columns);
    row_store_f32(push.x, row, column, push.columns,
                  row_load(push.x, row, column, push.columns) +
                      row_load(added, 0, column, push.columns));
}
