#version 450
/* conv_2d: a column of the output is one channel of one cell, a sum over all channels of the cells around it. */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "feature_map.glsl"

float tap_product(MapFloats kernel, uint channel, uint tap, MapFloats point)
{
    uint begin = (channel * push.taps_y * push.taps_x + tap) * push.in_channels;
    float sum = 0.0;
    for (uint c = 0; c < push.in_channels; c++)
        sum += kernel.at[begin + c] * point.at[c];
    return sum;
}
