#version 450
/*
 * low[place, slot, j] = scale * (x[row, :] . A[j, :]) for the rows of a tile, which share an adapter, and RANKS rows of
 * its A. The workgroup divides the columns; sums are added in an order that depends on its size only, so a row's
 * numbers do not depend on other rows.
 *
 * Grid: (tiles, runs of RANKS rows of A, weights of the op).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "adapter.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;

layout(push_constant) uniform Push
{
    uint64_t x;        /* f32 [rows, k] */
    uint64_t low;      /* f32 [places, 3, low_columns] */
    uint64_t order;    /* u32 [places] */
    uint64_t tiles;    /* AdapterTile [] */
    uint64_t pairs[3]; /* of each weight of the op: AdapterPair [adapters] */
    uint k;            /* a multiple of 4 */
    uint low_columns;
} push;

const uint RANKS = 4;
const uint SUMS = ADAPTER_TILE_ROWS * RANKS;
const uint SUBGROUPS_MOST = INVOCATIONS / 4;

shared float sums_of[SUBGROUPS_MOST * SUMS];

void main()
{
    AdapterTile tile = AdapterTiles(push.tiles).at[gl_WorkGroupID.x];
    if (tile.count == 0)
        return;
    AdapterPair pair = AdapterPairs(push.pairs[gl_WorkGroupID.z]).at[tile.adapter];
    uint first = gl_WorkGroupID.y * RANKS, kind = pair.kinds & 0xFF;
    if (first >= pair.rank)
        return;
    float sums[SUMS];
    uint64_t rows[ADAPTER_TILE_ROWS];
    [[unroll]] for (uint i = 0; i < SUMS; i++)
        sums[i] = 0.0;
    [[unroll]] for (uint r = 0; r < ADAPTER_TILE_ROWS; r++) {
        uint row = AdapterWords(push.order).at[tile.first + min(r, tile.count - 1)];
        rows[r] = push.x + 4 * (uint64_t(row) * push.k);
    }
    for (uint column = 4 * gl_LocalInvocationIndex; column < push.k; column += 4 * INVOCATIONS) {
        vec4 a[RANKS];
        [[unroll]] for (uint j = 0; j < RANKS; j++) {
            uint64_t at = uint64_t(min(first + j, pair.rank - 1)) * push.k + column;
            a[j] = vec4(adapter_pair_at(pair.a, kind, at), adapter_pair_at(pair.a, kind, at + 2));
        }
        [[unroll]] for (uint r = 0; r < ADAPTER_TILE_ROWS; r++) {
            vec4 x = AdapterVectors(rows[r] + 4 * column).at[0];
            [[unroll]] for (uint j = 0; j < RANKS; j++)
                sums[r * RANKS + j] += dot(a[j], x);
        }
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = subgroupAdd(sums[i]);
        if (gl_SubgroupInvocationID == 0)
            sums_of[gl_SubgroupID * SUMS + i] = sum;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < SUMS; i += INVOCATIONS) {
        uint r = i / RANKS, j = i % RANKS;
        float total = 0.0;
        for (uint s = 0; s < gl_NumSubgroups; s++)
            total += sums_of[s * SUMS + i];
        if (r < tile.count && first + j < pair.rank)
            AdapterFloats(push.low).at[((tile.first + r) * 3 + gl_WorkGroupID.z) * push.low_columns + first + j] =
                pair.scale * total;
    }
}
