#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[r, n] = x[r, :] . W[n, :] in the matrix units of a subgroup (KHR cooperative matrix), for a few
 * rows up to prompts, depending on the size of tiles.
 *
 * A workgroup computes a tile of TILE_ROWS x TILE_COLUMNS sums over a split of the columns of x
 * (matrix_tile.glsl).
 *
 * Splits: if there are too few tiles to fill the device, several workgroups share one, each with a part
 * of the columns. Each writes its sums to memory and increments a counter; the last one adds all of them
 * in the order of the splits, so that the result does not depend on which one is last.
 *
 * Edges: rows and outputs that do not exist are computed from existing ones and not written; columns
 * beyond k are zeros in x. x is f16 and k a multiple of 32.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 13) const bool SPLIT = false;

#include "matrix_push.glsl"
#include "matrix_tile.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counters { uint at[]; };

shared bool is_last;

uint first_row;    /* of the tile */
uint first_output; /* of the tile: of out's columns */

uint x_row(uint r)
{
    return min(first_row + r, push.rows - 1);
}

WeightMatrix weight_matrix(uint c)
{
    return push.weights;
}

uint weight_row(uint c)
{
    if (!GATED)
        return min(first_output + c, push.n - 1);
    uint half_n = push.n / 2;
    uint output_column = first_output + c / (2 * UNIT_COLUMNS) * UNIT_COLUMNS + c % UNIT_COLUMNS;
    return min(output_column, half_n - 1) + (c / UNIT_COLUMNS % 2) * half_n;
}

void write_result(uint r, uint c, float value)
{
    if (first_row + r < push.rows && first_output + c < push.n / (GATED ? 2 : 1))
        write_output(first_row + r, first_output + c, value);
}

/* Splits' sums of one element of the tile, in order. */
float total_sum(uint tile, uint element)
{
    float total = 0.0;
    for (uint s = 0; s < push.splits; s++)
        total += Partials(push.partials)
                     .at[(tile * push.splits + s) * (TILE_ROWS * TILE_COLUMNS) + element];
    return total;
}

void write_total(uint tile)
{
    const uint together = GATED ? 2 : 1;
    uint row_count = min(TILE_ROWS, push.rows - first_row);
    for (uint e = gl_LocalInvocationIndex; e < row_count * (TILE_COLUMNS / together);
         e += INVOCATIONS) {
        uint row = e / (TILE_COLUMNS / together), c = e % (TILE_COLUMNS / together);
        uint element = row * TILE_COLUMNS + c;
        if (GATED)
            element = row * TILE_COLUMNS + c / UNIT_COLUMNS * (2 * UNIT_COLUMNS) + c % UNIT_COLUMNS;
        float value = total_sum(tile, element);
        if (GATED)
            value = gated_value(value, total_sum(tile, element + UNIT_COLUMNS));
        if (first_output + c < push.n / together)
            write_output(first_row + row, first_output + c, value);
    }
}

/* Writes this split's sums; the last of the tile's splits writes the totals. */
void write_split(uint part_row, uint part_column)
{
    uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint base = (tile * push.splits + gl_WorkGroupID.z) * (TILE_ROWS * TILE_COLUMNS);
    Partials partials = Partials(push.partials);
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
            coopMatStore(sums[i * FRAGMENT_COLUMNS + j], partials.at,
                         base + (part_row + i * UNIT_ROWS) * TILE_COLUMNS + part_column +
                             j * UNIT_COLUMNS,
                         TILE_COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
    memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsRelease | gl_SemanticsMakeAvailable);
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        Counters counters = Counters(push.counters);
        uint before = atomicAdd(counters.at[tile], 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                                gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable |
                                    gl_SemanticsMakeVisible);
        is_last = before == push.splits - 1;
        if (is_last)
            counters.at[tile] = 0;
    }
    barrier();
    if (!is_last)
        return;
    memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsAcquire | gl_SemanticsMakeVisible);
    write_total(tile);
}

void main()
{
    first_row = gl_WorkGroupID.x * TILE_ROWS;
    first_output = gl_WorkGroupID.y * (GATED ? TILE_COLUMNS / 2 : TILE_COLUMNS);
    uint part_row = gl_SubgroupID % (TILE_ROWS / PART_ROWS) * PART_ROWS;
    uint part_column = gl_SubgroupID / (TILE_ROWS / PART_ROWS) * PART_COLUMNS;
    uint begin = SPLIT ? gl_WorkGroupID.z * push.split_steps * TILE_K : 0;
    uint end = SPLIT ? min(begin + push.split_steps * TILE_K, push.k) : push.k;
    multiply_columns(begin, end, part_row, part_column, true);
    if (SPLIT)
        write_split(part_row, part_column);
    else
        write_part(part_row, part_column);
}
