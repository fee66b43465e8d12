#version 450
/*
 * out[r, 3 * m + i] is mel m of mel row 2 * line + tap + i - 2 of the sound of row r, and 0 beyond the
 * sound and from column 3 * mels on. With `lines` n, out[r, i * mels + m] is mel m of mel row n * line + i, i < n.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

const uint TAPS = 3;

layout(push_constant) uniform Push
{
    uint64_t places; /* PatchPlace [rows] */
    uint64_t images; /* PatchImage [sounds] */
    RowOutputs outputs;
    uint columns; /* at least TAPS * mels, or lines * mels */
    uint mels;
    uint tap;
    uint lines; /* 0: the form with a tap */
} push;

float value_at(PatchPlace place, PatchImage sound, uint column)
{
    uint mel = column / TAPS;
    int line = int(2 * place.line + push.tap + column % TAPS) - 2;
    if (push.lines > 0) {
        line = int(push.lines * place.line + column / push.mels);
        mel = column % push.mels;
    }
    if (line < 0 || line >= int(sound.height))
        return 0.0;
    return RowFloat(sound.pixels + 4 * (uint64_t(line) * push.mels + mel)).value;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row];
    PatchImage sound = PatchImages(push.images).at[place.tile];
    vec4 v = vec4(0.0);
    for (uint i = 0; i < 4; i++)
        if (column + i < (push.lines > 0 ? push.lines : TAPS) * push.mels)
            v[i] = value_at(place, sound, column + i);
    row_store(push.outputs, row, column, push.columns, v);
}
