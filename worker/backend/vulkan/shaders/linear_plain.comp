#version 450
/*
 * out[r, n] = x[r, :] . W[n, :] in plain f32 arithmetic, for drivers that compute on a CPU. There lanes
 * are lanes of vector registers, and a load whose addresses differ by lane is one load per lane, each
 * after a branch. k must be a multiple of 32.
 *
 * So invocations share nothing and there is no barrier. An invocation has PART_COLUMNS outputs of its
 * own and TILE_ROWS rows, all sums in registers. The subgroup loads the activations of 32 columns
 * once, eight bytes per lane at a time, and hands them out by shuffles; a load of one address by all
 * lanes would cost as much as loads of different addresses. Weights are unpacked once for all rows.
 *
 * Every output is one sum in the order of the columns for any tile: a row's result does not depend on
 * other rows.
 *
 * Gated: the first half of an invocation's weights are the gate's, the second half the up's of the
 * same results. Rows and outputs that do not exist are computed from existing ones and not written.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_ballot : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 32;
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(constant_id = 3) const uint FORMS = 1;
layout(constant_id = 4) const uint TILE_ROWS = 8; /* even */
layout(constant_id = 8) const uint PART_COLUMNS = 2;
layout(constant_id = 9) const uint LANES = 8; /* of a subgroup: at most 16 */

#include "matrix_push.glsl"
#include "matrix_outputs.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Pairs { uint64_t at[]; };

const uint PAIRS = WEIGHT_BLOCK / 2 / LANES; /* of a row's activations, that a lane loads */
const uint FLOATS = 2 * PAIRS;

float sums[TILE_ROWS * PART_COLUMNS];
float x[TILE_ROWS * FLOATS];
uint64_t rows[TILE_ROWS];             /* where the lane's activations are */
WeightBlock blocks[PART_COLUMNS];     /* quantized */
uvec4 floats[PART_COLUMNS * 8];       /* float kinds: 32 columns */
uint weight_rows[PART_COLUMNS];

/* The lane's j-th column of out. */
uint output_column(uint j)
{
    const uint own = GATED ? PART_COLUMNS / 2 : PART_COLUMNS;
    uint subgroup = gl_LocalInvocationIndex / LANES;
    return ((gl_WorkGroupID.y * (INVOCATIONS / LANES) + subgroup) * own + j) * LANES +
           gl_LocalInvocationIndex % LANES;
}

uvec4 load_16_bytes(uint64_t address)
{
    return uvec4(unpackUint2x32(Pairs(address).at[0]), unpackUint2x32(Pairs(address).at[1]));
}

void load_weights(uint block)
{
    uint units = push.k / WEIGHT_BLOCK;
    [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++) {
        if (WEIGHT_QUANTIZED) {
            uint at = weight_rows[j] * units + block;
            if (WEIGHT_CODE_BITS == 2) {
                blocks[j] = weight_load(push.weights, at);
                continue;
            }
            const uint bytes = 4 * WEIGHT_CODE_BITS;
            blocks[j].low = load_16_bytes(push.weights.codes + bytes * uint64_t(at));
            if (WEIGHT_CODE_BITS == 8)
                blocks[j].low_tail = load_16_bytes(push.weights.codes + bytes * uint64_t(at) + 16);
            if (WEIGHT_HIGH_BITS == 2)
                blocks[j].high = unpackUint2x32(Pairs(push.weights.high).at[at]);
            else if (WEIGHT_HIGH_BITS == 1)
                blocks[j].high.x = Weight4Bytes(push.weights.high).at[at];
            blocks[j].scales = weight_load_scales(push.weights, at);
            blocks[j].factor = weight_load_factor(push.weights, at);
        } else {
            const uint count = WEIGHT_BLOCK / WEIGHT_FLOATS;
            uint at = weight_rows[j] * (units * count) + block * count;
            [[unroll]] for (uint i = 0; i < count; i++)
                floats[j * 8 + i] = WEIGHT_SCALED > 0
                                        ? weight_load_floats(push.weights, at + i)
                                        : load_16_bytes(push.weights.codes + 16 * uint64_t(at + i));
        }
    }
}

/* Columns 4 * i .. 4 * i + 3 of the 32. */
vec4 unpack_weights(uint j, uint i)
{
    if (!WEIGHT_QUANTIZED)
        return weight_floats(floats[j * 8 + i * 4 / WEIGHT_FLOATS], i % (WEIGHT_FLOATS / 4));
    uint codes = weight_codes(blocks[j], i);
    vec2 terms = weight_terms(blocks[j], i / 4);
    vec4 values;
    if (WEIGHT_SIGNED)
        values = vec4(ivec4(codes << 24, codes << 16, codes << 8, codes) >> 24);
    else
        values = vec4(ivec4(uvec4(codes, codes >> 8, codes >> 16, codes >> 24) & 0xFFu));
    return values * terms.x + terms.y;
}

void load_activations(uint block)
{
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
        [[unroll]] for (uint p = 0; p < PAIRS; p++) {
            vec2 pair = uintBitsToFloat(unpackUint2x32(Pairs(rows[r]).at[block * (WEIGHT_BLOCK / 2) + p]));
            x[r * FLOATS + 2 * p] = pair.x;
            x[r * FLOATS + 2 * p + 1] = pair.y;
        }
}

/* Two rows at a time: their sums stay in registers, and the block's weights, which do not, are read
 * from memory by the instructions that use them. */
void multiply_block()
{
    vec4 w[PART_COLUMNS * 8];
    [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++)
        [[unroll]] for (uint i = 0; i < WEIGHT_BLOCK / 4; i++)
            w[j * 8 + i] = unpack_weights(j, i);
    [[unroll]] for (uint pair = 0; pair < TILE_ROWS / 2; pair++)
        [[unroll]] for (uint i = 0; i < WEIGHT_BLOCK / 4; i++)
            [[unroll]] for (uint e = 0; e < 4; e++)
                [[unroll]] for (uint o = 0; o < 2; o++) {
                    const uint r = 2 * pair + o, k = 4 * i + e;
                    float value = subgroupBroadcast(x[r * FLOATS + k % FLOATS], k / FLOATS);
                    [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++)
                        sums[r * PART_COLUMNS + j] += value * w[j * 8 + i][e];
                }
}

void main()
{
    const uint together = GATED ? 2 : 1;
    uint first_row = gl_WorkGroupID.x * TILE_ROWS, columns = push.n / together;
    uint lane = gl_LocalInvocationIndex % LANES;
    [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++) {
        const uint own = PART_COLUMNS / together;
        weight_rows[j] = min(output_column(j % own), columns - 1) + j / own * columns;
    }
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++) {
        uint row = min(first_row + r, push.rows - 1);
        rows[r] = push.x + 4 * (uint64_t(row) * push.k + lane * FLOATS);
    }
    [[unroll]] for (uint i = 0; i < TILE_ROWS * PART_COLUMNS; i++)
        sums[i] = 0.0;
    for (uint block = 0; block < push.k / WEIGHT_BLOCK; block++) {
        load_weights(block);
        load_activations(block);
        multiply_block();
    }
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
        [[unroll]] for (uint j = 0; j < PART_COLUMNS / together; j++) {
            float value = sums[r * PART_COLUMNS + j];
            if (GATED)
                value = gated_value(value, sums[r * PART_COLUMNS + j + PART_COLUMNS / 2]);
            if (first_row + r < push.rows && output_column(j) < columns)
                write_output(first_row + r, output_column(j), value);
        }
}
