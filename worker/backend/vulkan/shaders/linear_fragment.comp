#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[r, n] = x[r, :] . W[n, :] for tens of rows r, in matrix units of 16 x 8 x 16 that hold their
 * factors in a subgroup's registers in a known way (vulkan_register_probe.h asks the device). Weights
 * go from memory to registers, are unpacked there to f16 and multiplied. They do not pass through
 * shared memory, which is too slow for them at full memory bandwidth.
 *
 * Lane l holds, of a fragment's 16 (k) x 8 (n) weights, n = l / 4 and k 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 * with t = l % 4. The sum does not depend on which columns of x the sixteen k are: here, of 128 columns
 * (a slab), lane t reads block t of its row of W, 16 bytes, and uses four columns of it in each of eight
 * products. The activations lie in shared memory in that order: product f's columns are
 * 32 t + 4 f + {0, 2} for all t, then 32 t + 4 f + {1, 3}.
 *
 * A workgroup's tile is TILE_ROWS x TILE_COLUMNS, of which each subgroup owns PART_ROWS x PART_COLUMNS.
 * Each lane has the loads of one slab of weights in flight. Splits of the columns and gated outputs are
 * as in linear_matrix; sums are written from registers.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(constant_id = 3) const uint FORMS = 1;
layout(constant_id = 4) const uint TILE_ROWS = 16;
layout(constant_id = 5) const uint TILE_COLUMNS = 128;
layout(constant_id = 6) const uint TILE_K = 256; /* columns of x that are staged at once */
layout(constant_id = 7) const uint PART_ROWS = 16;
layout(constant_id = 8) const uint PART_COLUMNS = 32;
layout(constant_id = 9) const uint FENCE = 1;
layout(constant_id = 12) const uint SLOTS = 1;
layout(constant_id = 13) const bool SPLIT = false;

#include "matrix_push.glsl"
#include "matrix_outputs.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Chunks { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Counters { uint at[]; };

const uint UNIT_ROWS = 16, UNIT_COLUMNS = 8, UNIT_K = 16;
const uint SLAB = 128; /* four blocks */
const uint SLABS = TILE_K / SLAB;
const uint FRAGMENT_ROWS = PART_ROWS / UNIT_ROWS;
const uint FRAGMENT_COLUMNS = PART_COLUMNS / UNIT_COLUMNS;
const uint LANE_SUMS = 4; /* of a fragment's 128, in each of 32 lanes */

/* Chunks of eight halves; a row has one more than it needs, for the banks. */
const uint ROW_CHUNKS = TILE_K / 8 + 1;
const uint STAGE_CHUNKS = TILE_ROWS * ROW_CHUNKS;
shared uvec4 stage[STAGE_CHUNKS];
shared bool is_last;
const uint BEFORE = EPILOGUE == EPILOGUE_ADD ? FRAGMENT_ROWS * FRAGMENT_COLUMNS * LANE_SUMS : 1;
float before[BEFORE];

const uint X_CHUNKS = TILE_ROWS * TILE_K / 8;
const uint X_LOADS = (X_CHUNKS + INVOCATIONS - 1) / INVOCATIONS;
uvec4 x_next[X_LOADS];

/* For each fragment of columns the block of this lane's row of W, of this slab and of the next. */
WeightBlock blocks[FRAGMENT_COLUMNS];
WeightBlock blocks_next[FRAGMENT_COLUMNS];
WeightBlock blocks_far[FRAGMENT_COLUMNS];
uint first_block[FRAGMENT_COLUMNS]; /* of the row of W */

coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>
    sums[FRAGMENT_ROWS * FRAGMENT_COLUMNS];

uint first_row;    /* of the tile */
uint first_output; /* of the tile: of out's columns */
uint part_row, part_column;

/* Row of W of the tile's column c; an existing one for columns that do not exist. */
uint weight_row(uint c)
{
    if (!GATED)
        return min(first_output + c, push.n - 1);
    uint half_n = push.n / 2;
    uint output_column = first_output + c / (2 * UNIT_COLUMNS) * UNIT_COLUMNS + c % UNIT_COLUMNS;
    return min(output_column, half_n - 1) + (c / UNIT_COLUMNS % 2) * half_n;
}

void load_x(uint k)
{
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uint row = min(first_row + item / (TILE_K / 8), push.rows - 1);
        uint column = k + 8 * (item % (TILE_K / 8));
        x_next[i] = column < push.k ? Chunks(push.x).at[row * (push.k / 8) + column / 8] : uvec4(0);
    }
}

/* Eight neighbouring columns are four of fragment f's and four of f + 1's. */
void store_x()
{
    [[unroll]] for (uint i = 0; i < X_LOADS; i++) {
        uint item = gl_LocalInvocationIndex + i * INVOCATIONS;
        uint chunk = item % (TILE_K / 8);
        uint at = item / (TILE_K / 8) * ROW_CHUNKS + chunk / 16 * 16 + chunk % 4 * 4;
        uint t = chunk % 16 / 4;
        uvec4 x = x_next[i];
        if (X_CHUNKS % INVOCATIONS == 0 || item < X_CHUNKS) {
            stage[at][t] = x.x & 0xFFFFu | x.y << 16;
            stage[at + 1][t] = x.x >> 16 | x.y & 0xFFFF0000u;
            stage[at + 2][t] = x.z & 0xFFFFu | x.w << 16;
            stage[at + 3][t] = x.z >> 16 | x.w & 0xFFFF0000u;
        }
    }
}

/* Loads the blocks of the slab that begins at column k. */
void load_blocks(uint k)
{
    uint block = min(k / WEIGHT_BLOCK + gl_SubgroupInvocationID % 4, push.k / WEIGHT_BLOCK - 1);
    [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
        if (SLOTS == 2)
            blocks_far[j] = weight_load(push.weights, first_block[j] + block);
        else
            blocks_next[j] = weight_load(push.weights, first_block[j] + block);
}

/* The slab's product f: four columns of each lane's block. */
void multiply_fragments(uint base, const uint f)
{
    coopmat<float16_t, gl_ScopeSubgroup, UNIT_ROWS, UNIT_K, gl_MatrixUseA> a[FRAGMENT_ROWS];
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
        coopMatLoad(a[i], stage, base + (part_row + i * UNIT_ROWS) * ROW_CHUNKS + f * 2, ROW_CHUNKS,
                    gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++) {
        coopmat<float16_t, gl_ScopeSubgroup, UNIT_K, UNIT_COLUMNS, gl_MatrixUseB> b;
        f16vec4 pairs = weight_pairs(blocks[j], f);
        b[0] = pairs.x;
        b[1] = pairs.y;
        b[2] = pairs.z;
        b[3] = pairs.w;
        [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
            sums[i * FRAGMENT_COLUMNS + j] =
                coopMatMulAdd(a[i], b, sums[i * FRAGMENT_COLUMNS + j]);
    }
}

/* Unrolled by hand: in a loop, compilers may index blocks by a variable, in memory. */
void multiply_slab(uint base)
{
    multiply_fragments(base, 0);
    multiply_fragments(base, 1);
    multiply_fragments(base, 2);
    multiply_fragments(base, 3);
    multiply_fragments(base, 4);
    multiply_fragments(base, 5);
    multiply_fragments(base, 6);
    multiply_fragments(base, 7);
}

/* Place in a fragment of sum e of this lane. */
uvec2 sum_place(uint e)
{
    uint l = gl_SubgroupInvocationID;
    return uvec2(l / 4 + e / 2 * 8, l % 4 * 2 + e % 2);
}

/* Loads the numbers that the lane's sums are added to, all before the first store. */
void load_before()
{
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
            [[unroll]] for (uint e = 0; e < LANE_SUMS; e++) {
                uvec2 place = sum_place(e);
                uint row = first_row + part_row + i * UNIT_ROWS + place.x;
                uint column = first_output + part_column + j * UNIT_COLUMNS + place.y;
                before[(i * FRAGMENT_COLUMNS + j) * LANE_SUMS + e] =
                    output_before(min(row, push.rows - 1), min(column, push.n - 1));
            }
}

void write_sums()
{
    const uint together = GATED ? 2 : 1;
    if (EPILOGUE == EPILOGUE_ADD)
        load_before();
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS; i++)
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j += together)
            [[unroll]] for (uint e = 0; e < LANE_SUMS; e++) {
                uvec2 place = sum_place(e);
                uint row = first_row + part_row + i * UNIT_ROWS + place.x;
                uint column = first_output + (part_column + j * UNIT_COLUMNS) / together + place.y;
                float value = sums[i * FRAGMENT_COLUMNS + j][e];
                if (GATED)
                    value = gated_value(value, sums[i * FRAGMENT_COLUMNS + j + together - 1][e]);
                if (EPILOGUE == EPILOGUE_ADD)
                    value += before[(i * FRAGMENT_COLUMNS + j) * LANE_SUMS + e];
                if (row < push.rows && column < push.n / together)
                    put_output(row, column, value);
            }
}

/* Writes this split's sums, lane beside lane. True for the last of the tile's splits, which then has
 * the totals, added in the order of the splits. */
bool total_sums()
{
    const uint part_sums = FRAGMENT_ROWS * FRAGMENT_COLUMNS * LANE_SUMS;
    uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint part = gl_SubgroupID * part_sums * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint first = tile * push.splits * (TILE_ROWS * TILE_COLUMNS) + part;
    Partials partials = Partials(push.partials);
    [[unroll]] for (uint s = 0; s < FRAGMENT_ROWS * FRAGMENT_COLUMNS; s++)
        [[unroll]] for (uint e = 0; e < LANE_SUMS; e++)
            partials.at[first + gl_WorkGroupID.z * (TILE_ROWS * TILE_COLUMNS) +
                        (s * LANE_SUMS + e) * gl_SubgroupSize] = sums[s][e];
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
        return false;
    memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsAcquire | gl_SemanticsMakeVisible);
    [[unroll]] for (uint s = 0; s < FRAGMENT_ROWS * FRAGMENT_COLUMNS; s++)
        sums[s] = coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>(0.0);
    for (uint split = 0; split < push.splits; split++)
        [[unroll]] for (uint s = 0; s < FRAGMENT_ROWS * FRAGMENT_COLUMNS; s++)
            [[unroll]] for (uint e = 0; e < LANE_SUMS; e++)
                sums[s][e] += partials.at[first + split * (TILE_ROWS * TILE_COLUMNS) +
                                          (s * LANE_SUMS + e) * gl_SubgroupSize];
    return true;
}

void main()
{
    first_row = gl_WorkGroupID.x * TILE_ROWS;
    first_output = gl_WorkGroupID.y * (GATED ? TILE_COLUMNS / 2 : TILE_COLUMNS);
    part_row = gl_SubgroupID % (TILE_ROWS / PART_ROWS) * PART_ROWS;
    part_column = gl_SubgroupID / (TILE_ROWS / PART_ROWS) * PART_COLUMNS;
    uint begin = SPLIT ? gl_WorkGroupID.z * push.split_steps * TILE_K : 0;
    uint end = SPLIT ? min(begin + push.split_steps * TILE_K, push.k) : push.k;
    [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
        first_block[j] =
            weight_row(part_column + j * UNIT_COLUMNS + gl_SubgroupInvocationID / 4) *
            (push.k / WEIGHT_BLOCK);
    load_blocks(begin);
    if (SLOTS == 2) {
        [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
            blocks_next[j] = blocks_far[j];
        load_blocks(begin + SLAB);
    }
    [[unroll]] for (uint i = 0; i < FRAGMENT_ROWS * FRAGMENT_COLUMNS; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, UNIT_ROWS, UNIT_COLUMNS, gl_MatrixUseAccumulator>(0.0);
    load_x(begin);
    for (uint k = begin; k < end; k += TILE_K) {
        store_x();
        barrier();
        if (k + TILE_K < end)
            load_x(k + TILE_K);
        for (uint slab = 0; slab < SLABS; slab++) {
            [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
                blocks[j] = blocks_next[j];
            if (SLOTS == 2) {
                [[unroll]] for (uint j = 0; j < FRAGMENT_COLUMNS; j++)
                    blocks_next[j] = blocks_far[j];
            }
            if (k + (slab + SLOTS) * SLAB < end)
                load_blocks(k + (slab + SLOTS) * SLAB);
            if (FENCE == 2) {
                memoryBarrier(gl_ScopeSubgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
                subgroupBarrier();
            }
            multiply_slab(slab * (SLAB / 8));
            if (FENCE == 1)
                barrier();
            if (FENCE == 3) {
                memoryBarrier(gl_ScopeSubgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
                subgroupBarrier();
            }
        }
        if (FENCE != 1)
            barrier();
    }
    if (!SPLIT || total_sums())
        write_sums();
}
