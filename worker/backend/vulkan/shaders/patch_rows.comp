#version 450
/*
 * out[r, :] are the pixels of patch r, each times its image's scale and plus its bias, then times
 * gain and plus shift: by channel, frame, line and column, or with CHANNELS_LAST by frame, line,
 * column and channel. Frames of a still image are all the same. Columns after the pixels are 0, and so are rows
 * that are no patches.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

layout(constant_id = 2) const bool CHANNELS_LAST = false;
const uint CHANNELS = 3;

layout(push_constant) uniform Push
{
    uint64_t places; /* PatchPlace [rows] */
    uint64_t images; /* PatchImage [tiles] */
    RowOutputs outputs;
    uint columns; /* at least CHANNELS * frames * side * side */
    uint side;    /* of a patch, pixels */
    uint frames;
    float gain;
    float shift;
    uint first_frame;
} push;

uint byte_at(uint64_t address)
{
    return StepWords(address & ~uint64_t(3)).at[0] >> 8 * uint(address & 3) & 0xFF;
}

float value_at(PatchPlace place, PatchImage image, uint column)
{
    uint pixels = push.side * push.side;
    uint channel = CHANNELS_LAST ? column % CHANNELS : column / (push.frames * pixels);
    uint frame = CHANNELS_LAST ? column / (CHANNELS * pixels) : column / pixels % push.frames;
    uint pixel = (CHANNELS_LAST ? column / CHANNELS : column) % pixels;
    uint line = place.line * push.side + pixel / push.side;
    uint x = place.column * push.side + pixel % push.side;
    uint64_t at = image.pixels + uint64_t(push.first_frame + frame) * image.frame_bytes +
                  uint64_t(line) * image.line_bytes + x * CHANNELS + channel;
    float scale = image.scale[channel] * push.gain;
    float bias = image.bias[channel] * push.gain + push.shift;
    return float(byte_at(at)) * scale + bias;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row];
    PatchImage image = PatchImages(push.images).at[place.tile];
    uint values = CHANNELS * push.frames * push.side * push.side;
    vec4 v = vec4(0.0);
    for (uint i = 0; i < 4; i++)
        if (column + i < values && place.time == 0)
            v[i] = value_at(place, image, column + i);
    row_store(push.outputs, row, column, push.columns, v);
}
