#version 450
/*
 * out[p, n] = x(p) . W[expert(p), n, :] for every pair p of row and expert, in plain f32 arithmetic.
 *
 * A workgroup takes one tile, up to TILE_ROWS pairs of one expert, and some of its outputs: the
 * expert's rows of W are read once for the tile, and an expert without pairs has no tile. Only
 * the device knows the number of tiles, so the grid has the maximum, and workgroups without a tile
 * return at once.
 *
 * A subgroup works on OUTPUTS rows of W. Its lanes take neighbouring blocks of 32 columns (of float
 * weights four columns), unpack them once, and multiply them with the columns of each pair's x. A
 * pair's sums are its own: they do not depend on the tile.
 *
 * Grid: (outputs, tiles).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define WEIGHT_KIND_CONSTANT 1
#include "moe_groups.glsl"
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint TILE_ROWS = 1;
layout(constant_id = 3) const uint OUTPUTS = 2; /* of a subgroup */

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [experts * n, k] */
    uint64_t x;           /* f32 [rows, k], or [rows * chosen, k] */
    uint64_t out_f32;     /* f32 [rows * chosen, out_stride], from the first column on */
    uint64_t groups;      /* MoeGroups */
    uint64_t pairs;       /* u32 */
    uint n;
    uint k;
    uint out_stride;
    uint pairs_per_x; /* chosen, or 1 when each pair has its own x */
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 at[]; };

uint64_t x_rows[TILE_ROWS];
float sums[TILE_ROWS * OUTPUTS];
uint count; /* pairs of the tile */

/* Columns column .. column + 3 of an x; 0 for those past the end. */
vec4 load_x(uint r, uint column)
{
    if (WEIGHT_QUANTIZED || push.k % 4 == 0)
        return Quads(x_rows[r]).at[column / 4];
    vec4 v = vec4(0.0);
    for (uint i = 0; i < 4 && column + i < push.k; i++)
        v[i] = Floats(x_rows[r]).at[column + i];
    return v;
}

void add_quad(uint o, uint column, vec4 w)
{
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
        if (r < count)
            sums[r * OUTPUTS + o] += dot(load_x(r, column), w);
}

void multiply_blocks(uint weight_rows[OUTPUTS])
{
    uint blocks = push.k / WEIGHT_BLOCK;
    for (uint b = gl_SubgroupInvocationID; b < blocks; b += gl_SubgroupSize) {
        WeightBlock block[OUTPUTS];
        [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
            block[o] = weight_load(push.weights, weight_rows[o] * blocks + b);
        [[unroll]] for (uint j = 0; j < WEIGHT_BLOCK / 4; j++)
            [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
                add_quad(o, WEIGHT_BLOCK * b + 4 * j, weight_values(block[o], j));
    }
}

void multiply_floats(uint weight_rows[OUTPUTS])
{
    for (uint column = 4 * gl_SubgroupInvocationID; column < push.k; column += 4 * gl_SubgroupSize)
        [[unroll]] for (uint o = 0; o < OUTPUTS; o++) {
            uint index = weight_rows[o] * weight_float_stride(push.k) + column / WEIGHT_FLOATS;
            add_quad(o, column, weight_floats(weight_load_floats(push.weights, index),
                                              column % WEIGHT_FLOATS / 4));
        }
}

void main()
{
    MoeGroups groups = MoeGroups(push.groups);
    if (gl_WorkGroupID.y >= groups.tile_count)
        return;
    MoeTile tile = groups.tiles[gl_WorkGroupID.y];
    count = tile.count;
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++) {
        uint pair = MoePairs(push.pairs).at[tile.first + min(r, count - 1)];
        x_rows[r] = push.x + 4 * uint64_t(pair / push.pairs_per_x) * push.k;
    }
    uint stride = gl_NumWorkGroups.x * gl_NumSubgroups * OUTPUTS;
    uint output_row = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * OUTPUTS;
    for (; output_row < push.n; output_row += stride) {
        uint weight_rows[OUTPUTS];
        [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
            weight_rows[o] = tile.expert * push.n + min(output_row + o, push.n - 1);
        [[unroll]] for (uint i = 0; i < TILE_ROWS * OUTPUTS; i++)
            sums[i] = 0.0;
        if (WEIGHT_QUANTIZED)
            multiply_blocks(weight_rows);
        else
            multiply_floats(weight_rows);
        [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
            [[unroll]] for (uint o = 0; o < OUTPUTS; o++) {
                float sum = subgroupAdd(sums[r * OUTPUTS + o]);
                if (gl_SubgroupInvocationID != 0 || r >= count || output_row + o >= push.n)
                    continue;
                uint pair = MoePairs(push.pairs).at[tile.first + r];
                Floats(push.out_f32 + 4 * uint64_t(pair) * push.out_stride).at[output_row + o] = sum;
            }
    }
}
