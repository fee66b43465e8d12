#version 450
/*
 * out[r, n] = x[r, :] . W[n, :] in plain f32 arithmetic, for devices without matrix units and for
 * widths that those cannot take: any rows, any k (of quantized weights a multiple of 32).
 *
 * A workgroup computes a tile of TILE_ROWS x TILE_COLUMNS in steps of 32 columns of x, which lie in
 * shared memory as f32, k by k, so that an invocation reads its PART_ROWS activations and
 * PART_COLUMNS weights of a k side by side and multiplies each with each.
 *
 * Gated: the first half of an invocation's weights are the gate's, the second half the up's of the
 * same results. Rows and outputs that do not exist are computed from existing ones and not written.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 256;
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(constant_id = 3) const uint FORMS = 1;
layout(constant_id = 4) const uint TILE_ROWS = 64;
layout(constant_id = 5) const uint TILE_COLUMNS = 64;
layout(constant_id = 7) const uint PART_ROWS = 4;
layout(constant_id = 8) const uint PART_COLUMNS = 4;

#include "matrix_push.glsl"
#include "matrix_outputs.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };

const uint STEP = WEIGHT_BLOCK;
/* One float more, so that the words of a column written by neighbours lie in different banks. */
shared float x_stage[STEP * (TILE_ROWS + 1)];
shared float w_stage[STEP * (TILE_COLUMNS + 1)];

float sums[PART_ROWS * PART_COLUMNS];
uint first_row;    /* of the tile */
uint first_output; /* of the tile: of out's columns */

/* The tile's column c is number j of invocation `team`'s PART_COLUMNS. */
uint weight_row(uint c)
{
    if (!GATED)
        return min(first_output + c, push.n - 1);
    uint half_n = push.n / 2, half_part = PART_COLUMNS / 2;
    uint team = c / PART_COLUMNS, j = c % PART_COLUMNS;
    return min(first_output + team * half_part + j % half_part, half_n - 1) + j / half_part * half_n;
}

/* Columns k .. k + 3 of a row of W, zeros where there is none. */
vec4 weights_at(uint row, uint k)
{
    if (WEIGHT_QUANTIZED)
        return weight_values(weight_load(push.weights, row * (push.k / WEIGHT_BLOCK) + k / WEIGHT_BLOCK),
                             k % WEIGHT_BLOCK / 4);
    if (k >= push.k)
        return vec4(0);
    uint index = row * weight_float_stride(push.k) + k / WEIGHT_FLOATS;
    return weight_floats(weight_load_floats(push.weights, index), k % WEIGHT_FLOATS / 4);
}

void stage_step(uint k)
{
    for (uint item = gl_LocalInvocationIndex; item < TILE_ROWS * STEP; item += INVOCATIONS) {
        uint r = item / STEP, c = item % STEP;
        uint row = min(first_row + r, push.rows - 1);
        x_stage[c * (TILE_ROWS + 1) + r] =
            k + c < push.k ? Floats(push.x).at[row * push.k + k + c] : 0.0;
    }
    for (uint item = gl_LocalInvocationIndex; item < TILE_COLUMNS * STEP / 4; item += INVOCATIONS) {
        uint n = item / (STEP / 4), c = item % (STEP / 4) * 4;
        vec4 w = weights_at(weight_row(n), k + c);
        [[unroll]] for (uint i = 0; i < 4; i++)
            w_stage[(c + i) * (TILE_COLUMNS + 1) + n] = w[i];
    }
}

void multiply_step(uint part_row, uint part_column)
{
    for (uint k = 0; k < STEP; k++) {
        float x[PART_ROWS];
        float w[PART_COLUMNS];
        [[unroll]] for (uint i = 0; i < PART_ROWS; i++)
            x[i] = x_stage[k * (TILE_ROWS + 1) + part_row + i];
        [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++)
            w[j] = w_stage[k * (TILE_COLUMNS + 1) + part_column + j];
        [[unroll]] for (uint i = 0; i < PART_ROWS; i++)
            [[unroll]] for (uint j = 0; j < PART_COLUMNS; j++)
                sums[i * PART_COLUMNS + j] += x[i] * w[j];
    }
}

void main()
{
    const uint together = GATED ? 2 : 1;
    first_row = gl_WorkGroupID.x * TILE_ROWS;
    first_output = gl_WorkGroupID.y * (TILE_COLUMNS / together);
    uint across = TILE_COLUMNS / PART_COLUMNS;
    uint part_row = gl_LocalInvocationIndex / across * PART_ROWS;
    uint part_column = gl_LocalInvocationIndex % across * PART_COLUMNS;
    [[unroll]] for (uint i = 0; i < PART_ROWS * PART_COLUMNS; i++)
        sums[i] = 0.0;
    for (uint k = 0; k < push.k; k += STEP) {
        barrier();
        stage_step(k);
        barrier();
        multiply_step(part_row, part_column);
    }
    [[unroll]] for (uint i = 0; i < PART_ROWS; i++)
        [[unroll]] for (uint j = 0; j < PART_COLUMNS / together; j++) {
            uint row = first_row + part_row + i;
            uint column = first_output + part_column / together + j;
            float value = sums[i * PART_COLUMNS + j];
            if (GATED)
                value = gated_value(value, sums[i * PART_COLUMNS + j + PART_COLUMNS / 2]);
            if (row < push.rows && column < push.n / together)
                write_output(row, column, value);
        }
}
