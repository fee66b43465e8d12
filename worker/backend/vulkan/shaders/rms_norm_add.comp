#version 450
/*
 * y[r, :] += rms_norm(x[r, :]), in place: the norm after a block, added to the residual. With NEXT the
 * norm before the next block is computed as well, since the row is in registers: its outputs are
 * rms_norm(y[r, :]), and a dispatch is saved.
 *
 * A workgroup computes one row. An invocation keeps its columns in up to KEPT registers and loads all
 * of them before the first sum; the rest of wider rows goes through memory.
 *
 * Grid: (rows). FORMS are those of the next norm's output; none without NEXT.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "workgroup_sum.glsl"

layout(constant_id = 2) const bool NEXT = false;

layout(push_constant) uniform Push
{
    uint64_t x;            /* f32 [rows, columns] */
    uint64_t y;            /* f32 [rows, columns] */
    uint64_t weights;      /* f32 [columns] */
    uint64_t next_weights; /* f32 [columns] */
    RowOutputs outputs;    /* [rows, columns] of the next norm */
    uint columns;
    float epsilon;
    float weight_offset;
    float next_epsilon;
    float next_weight_offset;
} push;

const uint KEPT = 4;
vec4 kept[KEPT];
vec4 kept_y[KEPT];
vec4 kept_weights[KEPT];
vec4 kept_next_weights[KEPT];

float norm_factor(float squares, float epsilon)
{
    return 1.0 / sqrt(workgroup_sum(squares) / float(push.columns) + epsilon);
}

vec4 weigh(uint64_t weights, uint column, float offset)
{
    return row_load(weights, 0, column, push.columns) + offset;
}

/* Writes y of these columns after the sum, and adds its squares. */
vec4 add(uint row, uint column, vec4 y, inout float squares)
{
    row_store_f32(push.y, row, column, push.columns, y);
    squares += column < push.columns ? dot(y, y) : 0.0;
    return y;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * gl_LocalInvocationID.x;
    uint tile = 4 * gl_WorkGroupSize.x;
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        uint column = first + i * tile;
        kept[i] = row_load(push.x, row, column, push.columns);
        kept_y[i] = row_load(push.y, row, column, push.columns);
        kept_weights[i] = weigh(push.weights, column, push.weight_offset);
        if (NEXT)
            kept_next_weights[i] = weigh(push.next_weights, column, push.next_weight_offset);
    }
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        squares += dot(kept[i], kept[i]);
    for (uint column = first + KEPT * tile; column < push.columns; column += tile) {
        vec4 v = row_load(push.x, row, column, push.columns);
        squares += dot(v, v);
    }
    float factor = norm_factor(squares, push.epsilon);
    squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        kept[i] = add(row, first + i * tile, kept_y[i] + kept[i] * factor * kept_weights[i],
                      squares);
    for (uint column = first + KEPT * tile; column < push.columns; column += tile)
        add(row, column,
            row_load(push.y, row, column, push.columns) +
                row_load(push.x, row, column, push.columns) * factor *
                    weigh(push.weights, column, push.weight_offset),
            squares);
    if (!NEXT)
        return;
    factor = norm_factor(squares, push.next_epsilon);
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        uint column = first + i * tile;
        if (i * tile < push.columns)
            row_store(push.outputs, row, column, push.columns,
                      kept[i] * factor * kept_next_weights[i]);
    }
    for (uint begin = KEPT * tile; begin < push.columns; begin += tile) {
        uint column = begin + first;
        row_store(push.outputs, row, column, push.columns,
                  row_load(push.y, row, column, push.columns) * factor *
                      weigh(push.next_weights, column, push.next_weight_offset));
    }
}
