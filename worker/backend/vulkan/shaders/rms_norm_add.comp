#version 450
/*
 * y[r, :] += rms_norm(x[r, :]), in place: a norm behind a block, into the residual. With NEXT the
 * norm before the next block follows at once, on the row that is still at hand: its outputs are
 * rms_norm(y[r, :]), and a dispatch is saved.
 *
 * A workgroup does one row. An invocation keeps its columns as far as KEPT registers reach; the
 * rest of a wider row goes through y.
 *
 * Grid: (rows). FORMS are those of the next norm's output, and nothing without NEXT.
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

float norm_factor(float squares, float epsilon)
{
    return 1.0 / sqrt(workgroup_sum(squares) / float(push.columns) + epsilon);
}

vec4 weigh(uint64_t weights, uint column, float offset)
{
    return row_load(weights, 0, column, push.columns) + offset;
}

/* y of these columns after the sum, and its squares' sum. */
vec4 add(uint row, uint column, vec4 x, float factor, inout float squares)
{
    vec4 y = row_load(push.y, row, column, push.columns) +
             x * factor * weigh(push.weights, column, push.weight_offset);
    row_store_f32(push.y, row, column, push.columns, y);
    if (column >= push.columns)
        return vec4(0.0);
    squares += dot(y, y);
    return y;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * gl_LocalInvocationID.x;
    uint tile = 4 * gl_WorkGroupSize.x;
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        kept[i] = row_load(push.x, row, first + i * tile, push.columns);
        squares += dot(kept[i], kept[i]);
    }
    for (uint column = first + KEPT * tile; column < push.columns; column += tile) {
        vec4 v = row_load(push.x, row, column, push.columns);
        squares += dot(v, v);
    }
    float factor = norm_factor(squares, push.epsilon);
    squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        kept[i] = add(row, first + i * tile, kept[i], factor, squares);
    for (uint column = first + KEPT * tile; column < push.columns; column += tile)
        add(row, column, row_load(push.x, row, column, push.columns), factor, squares);
    if (!NEXT)
        return;
    factor = norm_factor(squares, push.next_epsilon);
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        uint column = first + i * tile;
        if (i * tile < push.columns)
            row_store(push.outputs, row, column, push.columns,
                      kept[i] * factor *
                          weigh(push.next_weights, column, push.next_weight_offset));
    }
    for (uint begin = KEPT * tile; begin < push.columns; begin += tile) {
        uint column = begin + first;
        row_store(push.outputs, row, column, push.columns,
                  row_load(push.y, row, column, push.columns) * factor *
                      weigh(push.next_weights, column, push.next_weight_offset));
    }
}
