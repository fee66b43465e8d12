#version 450
/*
 * line_moments: an invocation computes the two moments of one line of a row.
 *
 * Grid: (rows, tiles of as many lines as there are invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer LineFloats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t out_f32; /* f32 [rows, out_columns] */
    uint columns;
    uint out_columns;
    uint lines;
    uint values; /* of a line */
} push;

void main()
{
    uint line = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (line >= push.lines)
        return;
    LineFloats x = LineFloats(push.x + 4 * row_index(gl_WorkGroupID.x, line * push.values, push.columns));
    float sum = 0.0, squares = 0.0;
    for (uint c = 0; c < push.values; c++)
        sum += x.at[c];
    float mean = sum / float(push.values);
    for (uint c = 0; c < push.values; c++)
        squares += (x.at[c] - mean) * (x.at[c] - mean);
    LineFloats target = LineFloats(push.out_f32 + 4 * row_index(gl_WorkGroupID.x, 2 * line, push.out_columns));
    target.at[0] = mean;
    target.at[1] = squares / float(push.values);
}
