#version 450
/* conv_depthwise: a column of the output is one channel of one cell, a sum over that channel of the cells around it. */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "feature_map.glsl"

float tap_product(MapFloats kernel, uint channel, uint tap, MapFloats point)
{
    return kernel.at[channel * push.taps_y * push.taps_x + tap] * point.at[channel];
}
