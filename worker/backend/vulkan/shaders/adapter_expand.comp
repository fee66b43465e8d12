#version 450
/*
 * out[row, column + n] += low[place, slot, :] . B[n, :] for the rows of a tile, which share an adapter. An invocation has
 * two columns of all rows of the tile; each sum is in the order of the rank, so a row's numbers do not depend on
 * other rows.
 *
 * Grid: (tiles, runs of 2 * INVOCATIONS columns of the widest weight, weights of the op).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "adapter.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;

layout(push_constant) uniform Push
{
    uint64_t out_f32;  /* f32 [rows, stride] */
    uint64_t low;      /* f32 [places, 3, low_columns] */
    uint64_t order;    /* u32 [places] */
    uint64_t tiles;    /* AdapterTile [] */
    uint64_t pairs[3]; /* of each weight of the op: AdapterPair [adapters] */
    uint columns[3];   /* where each weight's outputs begin */
    uint stride;
    uint low_columns;
} push;

shared float low[ADAPTER_TILE_ROWS * ADAPTER_RANK_MAX];

void main()
{
    AdapterTile tile = AdapterTiles(push.tiles).at[gl_WorkGroupID.x];
    if (tile.count == 0)
        return;
    uint slot = gl_WorkGroupID.z;
    AdapterPair pair = AdapterPairs(push.pairs[slot]).at[tile.adapter];
    if (pair.rank == 0 || 2 * INVOCATIONS * gl_WorkGroupID.y >= pair.rows)
        return;
    for (uint i = gl_LocalInvocationIndex; i < ADAPTER_TILE_ROWS * pair.rank; i += INVOCATIONS) {
        uint r = i / pair.rank, j = i % pair.rank;
        low[r * ADAPTER_RANK_MAX + j] =
            r < tile.count ? AdapterFloats(push.low).at[((tile.first + r) * 3 + slot) * push.low_columns + j] : 0.0;
    }
    barrier();
    uint column = 2 * (gl_WorkGroupID.y * INVOCATIONS + gl_LocalInvocationIndex);
    if (column >= pair.rows)
        return;
    uint b_columns = (pair.rows + 1) & ~1u, kind = pair.kinds >> 8;
    vec2 sums[ADAPTER_TILE_ROWS];
    [[unroll]] for (uint r = 0; r < ADAPTER_TILE_ROWS; r++)
        sums[r] = vec2(0.0);
    for (uint j = 0; j < pair.rank; j++) {
        vec2 b = adapter_pair_at(pair.b, kind, uint64_t(j) * b_columns + column);
        [[unroll]] for (uint r = 0; r < ADAPTER_TILE_ROWS; r++)
            sums[r] += low[r * ADAPTER_RANK_MAX + j] * b;
    }
    [[unroll]] for (uint r = 0; r < ADAPTER_TILE_ROWS; r++) {
        if (r >= tile.count)
            break;
        uint row = AdapterWords(push.order).at[tile.first + r];
        AdapterFloats floats = AdapterFloats(push.out_f32 + 4 * (uint64_t(row) * push.stride + push.columns[slot] + column));
        floats.at[0] += sums[r].x;
        if (column + 1 < pair.rows)
            floats.at[1] += sums[r].y;
    }
}
