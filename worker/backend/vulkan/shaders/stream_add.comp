#version 450
/*
 * out[r, j, :] += x[r, :] for j from out_stream on.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "streams.glsl"

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = stream_column();
    vec4 x = stream_load(push.x, row, 1, 0, column);
    for (uint j = push.out_stream; j < push.out_streams; j++)
        stream_store(row, j, column,
                     stream_load(push.out_rows, row, push.out_streams, j, column) + x);
}
