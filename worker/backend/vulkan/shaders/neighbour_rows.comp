#version 450
/*
 * out[r, :] = the nine rows of x around r's patch, `step` lines and columns apart, zeros beyond the tile and for rows that are
 * no patch (worker/plan/op_list.h, neighbour_rows).
 *
 * Grid: (rows of out, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows of patches, columns / 9] */
    RowOutputs outputs;
    uint64_t places; /* PatchPlace [rows of patches] */
    uint64_t images; /* PatchImage [tiles] */
    uint columns;
    uint merge;
    uint lead;
    uint square; /* patches of a row of out */
    uint step;
} push;

/* Column `column` of the joined row. */
float load(PatchPlace place, uint column)
{
    uint wide = push.columns / 9, tap = column / wide;
    PatchImage image = PatchImages(push.images).at[place.tile];
    int y = int(place.line) + (int(tap / 3) - 1) * int(push.step);
    int x = int(place.column) + (int(tap % 3) - 1) * int(push.step);
    if (column >= push.columns || place.time == 1 || y < 0 || x < 0 || y >= int(image.height) || x >= int(image.width))
        return 0.0;
    uint row = place.begin + push.lead + patch_row(uint(y), uint(x), image.width, push.merge);
    return RowFloat(push.x + 4 * row_index(row, column % wide, wide)).value;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row * push.square];
    vec4 v;
    for (uint i = 0; i < 4; i++)
        v[i] = load(place, column + i);
    row_store(push.outputs, row, column, push.columns, v);
}
