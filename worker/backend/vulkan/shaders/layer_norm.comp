#version 450
/*
 * out[r, :] = (x[r, :] - m) * rsqrt(mean((x[r, :] - m)^2) + epsilon) * (w + weight_offset), m being
 * mean(x[r, :]).
 *
 * A workgroup computes one row, in two sums: squares of differences, not the difference of squares, so
 * that a row far from 0 loses no digits. An invocation keeps what it read in up to KEPT registers; the
 * rest of wider rows is read again, from the cache. `out` may be x.
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "workgroup_sum.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t weights; /* f32 [columns] */
    RowOutputs outputs;
    uint columns;
    float epsilon;
    float weight_offset;
} push;

const uint KEPT = 4;
vec4 kept[KEPT];
vec4 kept_weights[KEPT];

vec4 load_weights(uint column)
{
    return row_load(push.weights, 0, column, push.columns) + push.weight_offset;
}

/* v minus the mean; columns past the end stay 0. */
vec4 centred(vec4 v, uint column, float mean)
{
    uvec4 columns = column + uvec4(0, 1, 2, 3);
    return mix(vec4(0.0), v - mean, lessThan(columns, uvec4(push.columns)));
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * gl_LocalInvocationID.x;
    uint tile = 4 * gl_WorkGroupSize.x;
    vec4 sums = vec4(0.0);
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        kept[i] = row_load(push.x, row, first + i * tile, push.columns);
        kept_weights[i] = load_weights(first + i * tile);
    }
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        sums += kept[i];
    for (uint column = first + KEPT * tile; column < push.columns; column += tile)
        sums += row_load(push.x, row, column, push.columns);
    float mean = workgroup_sum(dot(sums, vec4(1.0))) / float(push.columns);
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        kept[i] = centred(kept[i], first + i * tile, mean);
        squares += dot(kept[i], kept[i]);
    }
    for (uint column = first + KEPT * tile; column < push.columns; column += tile) {
        vec4 v = centred(row_load(push.x, row, column, push.columns), column, mean);
        squares += dot(v, v);
    }
    float factor = 1.0 / sqrt(workgroup_sum(squares) / float(push.columns) + push.epsilon);
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        uint column = first + i * tile;
        if (i * tile < push.columns)
            row_store(push.outputs, row, column, push.columns,
                      kept[i] * factor * kept_weights[i]);
    }
    /* All invocations run the same number of iterations, because subgroups store together. */
    for (uint begin = KEPT * tile; begin < push.columns; begin += tile) {
        uint column = begin + first;
        vec4 v = centred(row_load(push.x, row, column, push.columns), column, mean);
        row_store(push.outputs, row, column, push.columns, v * factor * load_weights(column));
    }
}
