#version 450
/*
 * x[r, :] += scale * W[i, :], from the packed matrix, in rows of canvases that take part; i is the row's square times
 * the places of a tile plus its place, or one of the two (worker/plan/op_list.h).
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#define WEIGHT_KIND_CONSTANT 2
#include "row_forms.glsl"
#include "patches.glsl"
#include "weight_blocks.glsl"

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [tiles * places, columns] */
    uint64_t x;           /* f32 [rows, row_columns], in place */
    uint64_t places;      /* PatchPlace [rows] */
    uint columns;
    uint row_columns;
    uint tiles;       /* 1: the square counts */
    uint tile_places; /* 0: the place does not count */
    uint taking_part; /* LEADS, PATCHES, PADS */
    float scale;
} push;

const uint LEADS = 1, PATCHES = 2, PADS = 4, PADDING = 0xFFFFFFFFu;

vec4 values(uint place, uint column)
{
    if (column >= push.columns)
        return vec4(0.0);
    if (WEIGHT_QUANTIZED) {
        uint block = place * (push.columns / WEIGHT_BLOCK) + column / WEIGHT_BLOCK;
        return weight_values(weight_load(push.weights, block), column % WEIGHT_BLOCK / 4);
    }
    uint index = place * weight_float_stride(push.columns) + column / WEIGHT_FLOATS;
    return weight_floats(weight_load_floats(push.weights, index), column % WEIGHT_FLOATS / 4);
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row];
    uint kind = place.place == PADDING ? PADS : place.place == 0 ? LEADS : PATCHES;
    if ((push.taking_part & kind) == 0)
        return;
    uint at = push.tiles * place.square;
    if (push.tile_places > 0)
        at = at * push.tile_places + place.place;
    vec4 x = row_load(push.x, row, column, push.row_columns);
    row_store_f32(push.x, row, column, push.row_columns, x + push.scale * values(at, column));
}
