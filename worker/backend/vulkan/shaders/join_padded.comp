#version 450
/*
 * out[f, :] = the join * join rows of x that are square f of its tile, line by line, with zeros for rows beyond the tile
 * (worker/plan/op_list.h, join_padded).
 *
 * Grid: (rows of out, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, columns / (join * join)] */
    RowOutputs outputs;
    uint columns;
    uint side; /* of a tile, rows of x */
    uint join;
} push;

/* Column `column` of the joined row. */
float load(uint tile, uint square, uint column)
{
    uint across = (push.side + push.join - 1) / push.join, wide = push.columns / (push.join * push.join);
    uint i = column / wide;
    uint y = square / across * push.join + i / push.join, x = square % across * push.join + i % push.join;
    if (column >= push.columns || square >= across * across || y >= push.side || x >= push.side)
        return 0.0;
    return RowFloat(push.x + 4 * row_index(tile + y * push.side + x, column % wide, wide)).value;
}

void main()
{
    uint row = gl_WorkGroupID.x, rows = push.side * push.side, tile = row / rows * rows;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 v;
    for (uint i = 0; i < 4; i++)
        v[i] = load(tile, row - tile, column + i);
    row_store(push.outputs, row, column, push.columns, v);
}
