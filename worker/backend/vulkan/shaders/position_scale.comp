#version 450
/*
 * x[r, offset .. offset + columns) *= 1 + beta * log(1 + floor(position(r) / period)).
 *
 * Grid: (rows, column tiles of 4 * invocations). Neighbouring invocations take neighbouring columns,
 * and their next ones a workgroup's width further, because the slice may begin at any column.
 */
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;    /* f32 [rows, stride] */
    uint64_t rows; /* StepRow [] */
    uint stride;
    uint offset;
    uint columns;
    uint period_tokens;
    float beta;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint periods = StepRows(push.rows).at[row].position / push.period_tokens;
    float factor = 1.0 + push.beta * log(1.0 + float(periods));
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.stride + push.offset));
    uint column = 4 * gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    for (uint i = 0; i < 4 && column < push.columns; i++, column += gl_WorkGroupSize.x)
        x.at[column] *= factor;
}
