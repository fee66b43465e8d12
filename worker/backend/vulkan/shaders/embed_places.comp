#version 450
/*
 * out[r, :] = scale * W[place(r), :], from the packed matrix, where place(r) is the row's position or its segment plus an
 * offset, or W's last row if it is beyond that.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#define WEIGHT_KIND_CONSTANT 2
#include "row_forms.glsl"
#include "step.glsl"
#include "weight_blocks.glsl"

layout(constant_id = 3) const bool SEGMENTS = false;

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [places, columns] */
    uint64_t rows;        /* StepRow [rows] */
    uint64_t sights;      /* StepSight [rows]; its height is the segment */
    RowOutputs outputs;   /* [rows, columns] */
    uint columns;
    uint places;
    uint offset;
    float scale;
} push;

vec4 values(uint place, uint column)
{
    if (column >= push.columns)
        return vec4(0.0);
    if (WEIGHT_QUANTIZED) {
        uint block = place * (push.columns / WEIGHT_BLOCK) + column / WEIGHT_BLOCK;
        return weight_values(weight_load(push.weights, block), column % WEIGHT_BLOCK / 4);
    }
    uint index = place * weight_float_stride(push.columns) + column / WEIGHT_FLOATS;
    return weight_floats(weight_load_floats(push.weights, index), column % WEIGHT_FLOATS / 4);
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    uint place = push.offset;
    if (SEGMENTS)
        place += StepSights(push.sights).at[row].height;
    else
        place += StepRows(push.rows).at[row].position;
    row_store(push.outputs, row, column, push.columns, push.scale * values(min(place, push.places - 1), column));
}
