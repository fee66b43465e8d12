#version 450
/*
 * out[r, :] = x[r, x_stream, :].
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
    stream_store(row, 0, column, stream_load(push.x, row, push.x_streams, push.x_stream, column));
}
