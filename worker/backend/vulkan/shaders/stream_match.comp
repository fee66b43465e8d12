#version 450
/*
 * v = x[r, x_stream, :] * rms(y[r, :]) / max(rms(x[r, x_stream, :]), sqrt(1e-5)); out[r, out_stream,
 * :] = v, or += v with ADD.
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "streams.glsl"
#include "workgroup_sum.glsl"

layout(constant_id = 2) const bool ADD = false;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * gl_LocalInvocationID.x, tile = 4 * gl_WorkGroupSize.x;
    float have = 0.0, wanted = 0.0;
    for (uint column = first; column < push.columns; column += tile) {
        vec4 x = stream_load(push.x, row, push.x_streams, push.x_stream, column);
        vec4 y = stream_load(push.y, row, 1, 0, column);
        have += dot(x, x);
        wanted += dot(y, y);
    }
    have = workgroup_sum(have) / float(push.columns);
    wanted = workgroup_sum(wanted) / float(push.columns);
    float factor = sqrt(wanted / max(have, 1e-5));
    for (uint column = first; column < push.columns; column += tile) {
        vec4 v = factor * stream_load(push.x, row, push.x_streams, push.x_stream, column);
        if (ADD)
            v += stream_load(push.out_rows, row, push.out_streams, push.out_stream, column);
        stream_store(row, push.out_stream, column, v);
    }
}
