#version 450
/*
 * past_norm in place: every invocation goes through the moments of the lines before its own, then norms four columns.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer PastFloats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t moments; /* f32 [rows, moment_columns] */
    uint64_t weights; /* f32 [channels] */
    uint64_t places;  /* PatchPlace [rows] */
    uint columns;
    uint moment_columns;
    uint lines;
    uint values; /* of a line */
    uint channels;
    float epsilon;
} push;

/* The mean and variance of all lines up to `line` of the row. */
vec2 past_of(uint row, uint line)
{
    uint y = PatchPlaces(push.places).at[row].line, count = y * push.lines + line + 1;
    float mean = 0.0, variance = 0.0;
    for (uint i = 0; i < count; i++) {
        uint64_t at = push.moments + 4 * row_index(row - y + i / push.lines, 2 * (i % push.lines), push.moment_columns);
        vec2 moments = vec2(PastFloats(at).at[0], PastFloats(at).at[1]);
        mean += (moments.x - mean) / float(i + 1);
        float away = moments.x - mean;
        variance += (moments.y + away * away - variance) / float(i + 1);
    }
    return vec2(mean, variance);
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PastFloats x = PastFloats(push.x + 4 * row_index(row, 0, push.columns));
    PastFloats weights = PastFloats(push.weights);
    uint line = push.lines;
    vec2 past = vec2(0.0);
    for (uint c = column; c < min(column + 4, push.lines * push.values); c++) {
        if (c / push.values != line) {
            line = c / push.values;
            past = past_of(row, line);
        }
        x.at[c] = (x.at[c] - past.x) / sqrt(past.y + push.epsilon) * weights.at[c % push.channels];
    }
}
