#version 450
/*
 * out[r, 3 * c + tap] = x[r, c], or 0 where mel row 2 * line + tap - 1 lies beyond the sound of row r.
 *
 * Grid: (rows, column tiles of 4 * invocations) of x.
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

const uint TAPS = 3;

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t out_f32; /* f32 [rows, out_columns] */
    uint64_t places;  /* PatchPlace [rows] */
    uint64_t images;  /* PatchImage [sounds] */
    uint columns;
    uint out_columns; /* at least TAPS * columns */
    uint tap;
    uint unused;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row];
    int line = int(2 * place.line + push.tap) - 1;
    bool heard = line >= 0 && line < int(PatchImages(push.images).at[place.tile].height);
    uint64_t target = push.out_f32 + 4 * row_index(row, 0, push.out_columns);
    vec4 v = row_load(push.x, row, column, push.columns);
    for (uint i = 0; i < 4; i++)
        if (column + i < push.columns)
            RowFloat(target + 4 * (TAPS * (column + i) + push.tap)).value = heard ? v[i] : 0.0;
}
