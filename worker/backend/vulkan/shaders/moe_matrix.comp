#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[p, n] = x(p) . W[expert(p), n, :] for many pairs p of row and expert, in the matrix units that
 * a subgroup reaches: prompts through mixtures.
 *
 * A workgroup takes TILE_COLUMNS of the expert's rows of W and a tile of up to TILE_ROWS of its pairs
 * (moe_groups.glsl; matrix_tile.glsl does the rest): their rows of x are gathered by number as they
 * are staged, and results go to the rows of the pairs. Experts are consecutive in W, so a
 * tile only adds its expert's first row.
 *
 * Only the device knows the number of tiles, so the grid has the maximum, and workgroups without a
 * tile return at once. Gated: gate and up lie in two stacks or in one. x is f16 and
 * k a multiple of 32.
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

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [experts * expert_rows, k]; gated: of the gate */
    WeightMatrix up;      /* gated: of the up */
    uint64_t x;           /* f16 [rows or pairs, k] */
    uint64_t out_f32;     /* [pairs, out_stride] */
    uint64_t out_f16;
    uint64_t groups;
    uint n; /* columns of out */
    uint k;
    uint expert_rows; /* of an expert in its stack */
    uint up_row;      /* of the up's first row in its stack */
    uint row_stride;  /* from a column's row of W to the next column's */
    uint out_stride;
    uint pairs_per_x;
    uint pairs_offset; /* of MoePairs, bytes from groups */
} push;

#include "matrix_tile.glsl"

shared uint pairs[TILE_ROWS];

uint count; /* of the tile's pairs */
uint first_weight_row;
uint first_column; /* of out */

uint x_row(uint r)
{
    return pairs[r] / push.pairs_per_x;
}

WeightMatrix weight_matrix(uint c)
{
    WeightMatrix matrix = push.weights;
    if (GATED && c / UNIT_COLUMNS % 2 == 1)
        matrix = push.up;
    return matrix;
}

uint weight_row(uint c)
{
    uint column = first_column + c, up = 0;
    if (GATED) {
        column = first_column + c / (2 * UNIT_COLUMNS) * UNIT_COLUMNS + c % UNIT_COLUMNS;
        up = c / UNIT_COLUMNS % 2 * push.up_row;
    }
    return first_weight_row + min(column, push.n - 1) * push.row_stride + up;
}

void write_result(uint r, uint c, float value)
{
    if (r < count && first_column + c < push.n)
        write_output(pairs[r], first_column + c, value);
}

void main()
{
    MoeGroups groups = MoeGroups(push.groups);
    if (gl_WorkGroupID.y >= groups.tile_count)
        return;
    MoeTile tile = groups.tiles[gl_WorkGroupID.y];
    count = tile.count;
    first_weight_row = tile.expert * push.expert_rows;
    first_column = gl_WorkGroupID.x * (GATED ? TILE_COLUMNS / 2 : TILE_COLUMNS);
    for (uint r = gl_LocalInvocationIndex; r < TILE_ROWS; r += INVOCATIONS)
        pairs[r] = MoePairs(push.groups + push.pairs_offset).at[tile.first + min(r, count - 1)];
    barrier();
    uint part_row = gl_SubgroupID % (TILE_ROWS / PART_ROWS) * PART_ROWS;
    uint part_column = gl_SubgroupID / (TILE_ROWS / PART_ROWS) * PART_COLUMNS;
    multiply_columns(0, push.k, part_row, part_column, part_row < count);
    write_part(part_row, part_column);
}
