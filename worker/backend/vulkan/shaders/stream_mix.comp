#version 450
/*
 * out[r, j, :] = x[r, j, :] + sum_i y[r, j * STREAMS + i] * x[r, i, :].
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
    vec4 streams[STREAMS];
    [[unroll]] for (uint i = 0; i < STREAMS; i++)
        streams[i] = stream_load(push.x, row, STREAMS, i, column);
    [[unroll]] for (uint j = 0; j < STREAMS; j++) {
        vec4 mixed = streams[j];
        [[unroll]] for (uint i = 0; i < STREAMS; i++)
            mixed += stream_number(push.y, (row * STREAMS + j) * STREAMS + i) * streams[i];
        stream_store(row, j, column, mixed);
    }
}
