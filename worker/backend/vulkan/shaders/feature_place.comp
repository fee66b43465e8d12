#version 450
/*
 * Rows of mosaics and frames in the feature pool, those of one kind: sums of up to four rows of x, each times
 * its weight, or the learned row after a line.
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
    uint64_t x;        /* f32 [features, columns] */
    uint64_t newline;  /* f32 [columns] */
    uint64_t mixes;    /* struct feature_mix [rows] */
    uint64_t features; /* f32 [pool rows, feature_columns] */
    uint columns;
    uint feature_columns;
    uint kind;
    uint unused;
} push;

const uint NONE = 0xFFFFFFFFu; /* PATCH_FEATURE_NONE */
const uint MIX_WORDS = 10, MIX_ROWS = 4;

void main()
{
    uint mix_at = gl_WorkGroupID.x * MIX_WORDS;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    StepWords words = StepWords(push.mixes);
    vec4 v = vec4(0.0);
    if (words.at[mix_at + 1] != push.kind)
        return;
    if (words.at[mix_at + 2] == NONE) {
        v = row_load(push.newline, 0, column, push.columns);
    } else {
        for (uint k = 0; k < MIX_ROWS; k++) {
            float weight = uintBitsToFloat(words.at[mix_at + 2 + MIX_ROWS + k]);
            if (weight != 0.0)
                v += weight * row_load(push.x, words.at[mix_at + 2 + k], column, push.columns);
        }
    }
    uint64_t target = push.features + 4 * row_index(words.at[mix_at], 0, push.feature_columns);
    row_store_f32(target, 0, column, push.columns, v);
}
