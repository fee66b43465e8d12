#version 450
/*
 * Row f of x becomes part of row feature_rows[f] of the feature pool, unless that is NONE.
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
    uint64_t x;            /* f32 [rows, columns] */
    uint64_t feature_rows; /* u32 [rows] */
    uint64_t features;     /* f32 [pool rows, feature_columns], from the part's first column on */
    uint columns;
    uint feature_columns;
} push;

const uint NONE = 0xFFFFFFFFu; /* PATCH_FEATURE_NONE */

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint feature = StepWords(push.feature_rows).at[row];
    if (feature != NONE) {
        uint64_t target = push.features + 4 * row_index(feature, 0, push.feature_columns);
        row_store_f32(target, 0, column, push.columns, row_load(push.x, row, column, push.columns));
    }
}
