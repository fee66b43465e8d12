#version 450
/*
 * out[r, :] = x[s, :] * rsqrt(mean(x[s, :]^2) + epsilon) * (w + weight_offset), s being r or, when
 * LISTED, entry r of a list of rows (gather_rows and rms_norm in one).
 *
 * A workgroup computes one row. An invocation keeps what it read for the sum in up to KEPT registers and
 * loads the weights, which do not depend on the sum, at the same time; the rest of wider rows is read
 * again, from the cache. `out` may be x unless LISTED.
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "step.glsl"
#include "workgroup_sum.glsl"

layout(constant_id = 2) const bool LISTED = false;

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t sources; /* u32 [rows] when LISTED */
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

void main()
{
    uint row = gl_WorkGroupID.x;
    uint source = row;
    if (LISTED)
        source = StepWords(push.sources).at[row];
    uint first = 4 * gl_LocalInvocationID.x;
    uint tile = 4 * gl_WorkGroupSize.x;
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        kept[i] = row_load(push.x, source, first + i * tile, push.columns);
        kept_weights[i] = load_weights(first + i * tile);
    }
    [[unroll]] for (uint i = 0; i < KEPT; i++)
        squares += dot(kept[i], kept[i]);
    for (uint column = first + KEPT * tile; column < push.columns; column += tile) {
        vec4 v = row_load(push.x, source, column, push.columns);
        squares += dot(v, v);
    }
    float factor =
        1.0 / sqrt(workgroup_sum(squares) / float(push.columns) + push.epsilon);
    [[unroll]] for (uint i = 0; i < KEPT; i++) {
        uint column = first + i * tile;
        if (i * tile < push.columns)
            row_store(push.outputs, row, column, push.columns,
                      kept[i] * factor * kept_weights[i]);
    }
    /* All invocations run the same number of iterations, because subgroups store together. */
    for (uint begin = KEPT * tile; begin < push.columns; begin += tile) {
        uint column = begin + first;
        row_store(push.outputs, row, column, push.columns,
                  row_load(push.x, source, column, push.columns) * factor * load_weights(column));
    }
}
