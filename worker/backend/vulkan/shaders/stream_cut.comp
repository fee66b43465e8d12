#version 450
/*
 * Stream 0 of out, in place: v = max(0, v - mean(v) - value * std(v)).
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "streams.glsl"
#include "workgroup_sum.glsl"

/* v minus the mean; columns past the end stay 0. */
vec4 centred(vec4 v, uint column, float mean)
{
    uvec4 columns = column + uvec4(0, 1, 2, 3);
    return mix(vec4(0.0), v - mean, lessThan(columns, uvec4(push.columns)));
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * gl_LocalInvocationID.x, tile = 4 * gl_WorkGroupSize.x;
    vec4 sums = vec4(0.0);
    float squares = 0.0;
    for (uint column = first; column < push.columns; column += tile)
        sums += stream_load(push.out_rows, row, push.out_streams, 0, column);
    float mean = workgroup_sum(dot(sums, vec4(1.0))) / float(push.columns);
    for (uint column = first; column < push.columns; column += tile) {
        vec4 v = centred(stream_load(push.out_rows, row, push.out_streams, 0, column), column, mean);
        squares += dot(v, v);
    }
    float cut = mean + push.deviations * sqrt(workgroup_sum(squares) / float(push.columns));
    for (uint column = first; column < push.columns; column += tile) {
        vec4 v = stream_load(push.out_rows, row, push.out_streams, 0, column);
        stream_store(row, 0, column, max(v - cut, vec4(0.0)));
    }
}
