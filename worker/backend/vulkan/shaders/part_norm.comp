#version 450
/*
 * part_norm in place: an invocation norms one part of a row, in two sums as layer_norm.comp.
 *
 * Grid: (rows, tiles of as many parts as there are invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer PartFloats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t weights; /* f32 [part_columns] */
    uint columns;
    uint parts;
    uint part_columns;
    float epsilon;
} push;

void main()
{
    uint part = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (part >= push.parts)
        return;
    PartFloats x = PartFloats(push.x + 4 * row_index(gl_WorkGroupID.x, part * push.part_columns, push.columns));
    PartFloats weights = PartFloats(push.weights);
    float sum = 0.0, squares = 0.0;
    for (uint c = 0; c < push.part_columns; c++)
        sum += x.at[c];
    float mean = sum / float(push.part_columns);
    for (uint c = 0; c < push.part_columns; c++)
        squares += (x.at[c] - mean) * (x.at[c] - mean);
    float factor = 1.0 / sqrt(squares / float(push.part_columns) + push.epsilon);
    for (uint c = 0; c < push.part_columns; c++)
        x.at[c] = (x.at[c] - mean) * factor * weights.at[c];
}
