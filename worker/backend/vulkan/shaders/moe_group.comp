#version 450
/*
 * Sorts a step's pairs by expert and cuts each expert's into tiles of at most TILE_ROWS: a counting
 * sort by one workgroup. In which order an expert's pairs come is left to chance; no result depends
 * on it.
 *
 * Grid: one workgroup.
 */
#extension GL_GOOGLE_include_directive : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TILE_ROWS = 1;

layout(push_constant) uniform Push
{
    uint64_t route;  /* f32 [rows, 2 * chosen] */
    uint64_t groups; /* MoeGroups */
    uint64_t pairs;  /* u32 [pair_count] */
    uint pair_count;
    uint chosen;
    uint experts;
} push;

const uint EXPERTS_MAX = 1024; /* proto/limits.h */
shared uint counts[EXPERTS_MAX];
shared uint next[EXPERTS_MAX]; /* where the expert's next pair goes */

uint tiles_of(uint count)
{
    return (count + TILE_ROWS - 1) / TILE_ROWS;
}

void list_tiles(uint e)
{
    uint first = 0, tile = 0;
    for (uint before = 0; before < e; before++) {
        first += counts[before];
        tile += tiles_of(counts[before]);
    }
    next[e] = first;
    MoeGroups groups = MoeGroups(push.groups);
    for (uint done = 0; done < counts[e]; done += TILE_ROWS)
        groups.tiles[tile++] = MoeTile(e, first + done, min(counts[e] - done, TILE_ROWS), 0);
    if (e + 1 == push.experts)
        groups.tile_count = tile;
}

void main()
{
    for (uint e = gl_LocalInvocationID.x; e < push.experts; e += gl_WorkGroupSize.x)
        counts[e] = 0;
    barrier();
    for (uint p = gl_LocalInvocationID.x; p < push.pair_count; p += gl_WorkGroupSize.x)
        atomicAdd(counts[moe_expert(push.route, p, push.chosen)], 1);
    barrier();
    for (uint e = gl_LocalInvocationID.x; e < push.experts; e += gl_WorkGroupSize.x)
        list_tiles(e);
    barrier();
    for (uint p = gl_LocalInvocationID.x; p < push.pair_count; p += gl_WorkGroupSize.x) {
        uint place = atomicAdd(next[moe_expert(push.route, p, push.chosen)], 1);
        MoePairs(push.pairs).at[place] = p;
    }
}
