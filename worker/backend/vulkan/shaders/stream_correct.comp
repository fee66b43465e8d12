#version 450
/*
 * out[r, j, :] += (1 + y[r, j]) * (x[r, :] - out[r, active, :]), with out[r, active, :] before the
 * kernel; active is out_stream.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "streams.glsl"

layout(constant_id = 2) const uint STREAMS = 4;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = stream_column();
    vec4 news = stream_load(push.x, row, 1, 0, column) -
                stream_load(push.out_rows, row, STREAMS, push.out_stream, column);
    [[unroll]] for (uint j = 0; j < STREAMS; j++)
        stream_store(row, j, column,
                     stream_load(push.out_rows, row, STREAMS, j, column) +
                         (1.0 + stream_number(push.y, row * STREAMS + j)) * news);
}
