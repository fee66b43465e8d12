#version 450
/*
 * Sorts a step's pairs whose weight is not 0 by expert and divides each expert's pairs into tiles of at most TILE_ROWS: a
 * counting sort by one workgroup. The order of an expert's pairs is not deterministic; no result
 * depends on it.
 *
 * Grid: one workgroup.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 256; /* whole subgroups */
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
shared uvec3 subgroup_sums[INVOCATIONS / 2]; /* of pairs, of tiles, of places */

uint tiles_of(uint count)
{
    return (count + TILE_ROWS - 1) / TILE_ROWS;
}

/* Pairs, tiles and places of the experts before this invocation's, among INVOCATIONS neighbours. */
uvec3 sums_before(uvec3 own, out uvec3 total)
{
    uvec3 before = subgroupExclusiveAdd(own);
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1)
        subgroup_sums[gl_SubgroupID] = before + own;
    barrier();
    total = uvec3(0);
    for (uint s = 0; s < gl_NumSubgroups; s++) {
        before += s < gl_SubgroupID ? subgroup_sums[s] : uvec3(0);
        total += subgroup_sums[s];
    }
    barrier();
    return before;
}

void list_tiles()
{
    MoeGroups groups = MoeGroups(push.groups);
    uvec3 base = uvec3(0), total;
    for (uint first = 0; first < push.experts; first += INVOCATIONS) {
        uint e = first + gl_LocalInvocationIndex;
        uint count = e < push.experts ? counts[e] : 0;
        uint places = (count + MOE_ALIGN - 1) / MOE_ALIGN * MOE_ALIGN;
        uvec3 before = base + sums_before(uvec3(count, tiles_of(count), places), total);
        if (e < push.experts)
            next[e] = before.x;
        uint tile = before.y;
        for (uint done = 0; done < count; done += TILE_ROWS)
            groups.tiles[tile++] =
                MoeTile(e, before.x + done, min(count - done, TILE_ROWS), before.z + done);
        base += total;
    }
    if (gl_LocalInvocationIndex == 0)
        groups.tile_count = base.y;
}

void main()
{
    for (uint e = gl_LocalInvocationIndex; e < push.experts; e += INVOCATIONS)
        counts[e] = 0;
    barrier();
    for (uint p = gl_LocalInvocationIndex; p < push.pair_count; p += INVOCATIONS)
        if (moe_weight(push.route, p, push.chosen) != 0.0)
            atomicAdd(counts[moe_expert(push.route, p, push.chosen)], 1);
    barrier();
    list_tiles();
    barrier();
    for (uint p = gl_LocalInvocationIndex; p < push.pair_count; p += INVOCATIONS) {
        if (moe_weight(push.route, p, push.chosen) == 0.0)
            continue;
        uint place = atomicAdd(next[moe_expert(push.route, p, push.chosen)], 1);
        MoePairs(push.pairs).at[place] = p;
    }
}
