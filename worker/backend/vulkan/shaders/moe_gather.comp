#version 450
/*
 * Lays the rows of x of all pairs out for the kernel in PTX (../ptx/moe_wgmma.c), by tiles
 * (moe_groups.glsl): the pair in place p is row p of pieces of 32 columns of one sort,
 * [k / 32][x_rows][4 chunks][4 blocks][2], in the order of staged_halves.glsl. Places without a pair
 * keep what they hold.
 *
 * An invocation has a chunk of a row's piece: four of columns 8 q .. 8 q + 7, two and two, of each of the four
 * blocks of 128 columns.
 *
 * Grid: (k / 128, tiles).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Chunks { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer HalfQuads { uvec2 at[]; };

layout(push_constant) uniform Push
{
    uint64_t x; /* f16 [rows or pairs, k] */
    uint64_t gathered;
    uint64_t groups;
    uint k;
    uint pairs_per_x;
    uint pairs_offset; /* of MoePairs, bytes from groups */
    uint x_rows;
} push;

void main()
{
    MoeGroups groups = MoeGroups(push.groups);
    if (gl_WorkGroupID.y >= groups.tile_count)
        return;
    MoeTile tile = groups.tiles[gl_WorkGroupID.y];
    for (uint i = gl_LocalInvocationIndex; i < 16 * tile.count; i += gl_WorkGroupSize.x) {
        uint chunk = i % 4, q = i / 4 % 2 + i / 4 / (2 * tile.count) * 2;
        uint row = i / 8 % tile.count, place = tile.place + row;
        uint pair = MoePairs(push.groups + push.pairs_offset).at[tile.first + row];
        uint64_t from = push.x + 2 * uint64_t(pair / push.pairs_per_x) * push.k;
        uvec4 halves; /* columns 0 2, 1 3, 4 6 or 5 7 of the four blocks */
        [[unroll]] for (uint t = 0; t < 4; t++) {
            uvec2 x = HalfQuads(from).at[gl_WorkGroupID.x * 32 + 8 * t + 2 * q + chunk / 2];
            halves[t] = chunk % 2 == 0 ? x.x & 0xFFFFu | x.y << 16 : x.x >> 16 | x.y & 0xFFFF0000u;
        }
        uint64_t piece = uint64_t(gl_WorkGroupID.x * 4 + q) * push.x_rows + place;
        Chunks(push.gathered + 64 * piece).at[chunk ^ place / 2 % 4] = halves;
    }
}
