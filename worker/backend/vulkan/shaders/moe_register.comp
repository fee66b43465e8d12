#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[p, n] = x(p) . W[expert(p), n, :] for tiles of up to ROWS pairs of one expert
 * (moe_groups.glsl), in matrix units whose registers are filled by hand (register_tile.glsl, on
 * devices with the layout that linear_register_probe.comp checks): the expert's packed rows of W are
 * read once for all pairs of the tile, whose rows of x are gathered by number.
 *
 * Only the device knows the number of tiles, so the grid has the maximum, and workgroups without a
 * tile return at once. Gated: gate and up lie in two stacks or in one. x is f16, k a
 * multiple of 32, weights are quantized.
 *
 * Grid: (columns of out, tiles).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEIGHT_KIND_CONSTANT 1
#include "moe_groups.glsl"
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t at[]; };

/* The push constants of moe_matrix. */
layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [experts * expert_rows, k]; gated: of the gate */
    WeightMatrix up;      /* gated: of the up */
    uint64_t x;           /* f16 [rows or pairs, k] */
    uint64_t out_f32;     /* [pairs, out_stride] */
    uint64_t out_f16;
    uint64_t groups;
    uint n; /* columns of out */
    uint k_count;
    uint expert_rows; /* of an expert in its stack */
    uint up_row;      /* of the up's first row in its stack */
    uint row_stride;  /* from a column's row of W to the next column's */
    uint out_stride;
    uint pairs_per_x;
    uint pairs_offset; /* of MoePairs, bytes from groups */
} push;

const bool TILED = false;
#include "register_tile.glsl"

MoeTile tile;
uint x_rows[ROW_TILES]; /* of this lane */

uint pair_of(uint r)
{
    return MoePairs(push.groups + push.pairs_offset).at[tile.first + min(r, tile.count - 1)];
}

uvec4 x_piece(uint r, uint g, uint block, uint i)
{
    return Halves8(push.x).at[(x_rows[r] * (push.k_count / WEIGHT_BLOCK) + block) * 4 + i];
}

WeightMatrix weight_matrix(bool upper)
{
    if (GATED && upper)
        return push.up;
    return push.weights;
}

uint weight_row(uint m, uint g, bool upper)
{
    uint column = gl_WorkGroupID.x * RESULTS + (GATED ? 8 * m + g : 16 * m + g + (upper ? 8 : 0));
    return tile.expert * push.expert_rows + min(column, push.n - 1) * push.row_stride +
           (GATED && upper ? push.up_row : 0);
}

void store(uint pair, uint column, float value)
{
    uint at = pair * push.out_stride + column;
    if ((FORMS & FORM_F32) != 0)
        Floats(push.out_f32).at[at] = value;
    if ((FORMS & FORM_F16) != 0)
        Halves(push.out_f16).at[at] = float16_t(clamp(value, -65504.0, 65504.0));
}

void main()
{
    MoeGroups groups = MoeGroups(push.groups);
    if (gl_WorkGroupID.y >= groups.tile_count)
        return;
    tile = groups.tiles[gl_WorkGroupID.y];
    [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
        x_rows[r] = pair_of(8 * r + gl_SubgroupInvocationID / 4) / push.pairs_per_x;
    multiply_columns();
    for (uint i = gl_LocalInvocationIndex; i < RESULTS * tile.count; i += gl_WorkGroupSize.x) {
        uint row = i / RESULTS, place = i % RESULTS, column = gl_WorkGroupID.x * RESULTS + place;
        float value;
        if (GATED)
            value = activate(total(0, row, 2 * place)) * total(0, row, 2 * place + 1);
        else
            value = total(0, row, place);
        if (column < push.n)
            store(pair_of(row), column, value);
    }
}
