#version 450
/*
 * out[r, :] += sigmoid(y[r, 0]) * x[r, :].
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
    float gate = 1.0 / (1.0 + exp(-stream_number(push.y, row)));
    stream_store(row, 0, column,
                 stream_load(push.out_rows, row, 1, 0, column) +
                     gate * stream_load(push.x, row, 1, 0, column));
}
