#version 450
/*
 * out[r, :] = sum over j of weight(r, j) * (x[r, j, :] + bias[expert(r, j), :]), or that added to out. The experts are added up in the order of the route.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "moe_groups.glsl"
#include "row_forms.glsl"

layout(constant_id = 2) const uint ADD = 0;
layout(constant_id = 3) const uint CHOSEN = 1;

layout(push_constant) uniform Push
{
    uint64_t x;     /* f32 [rows * chosen, columns] */
    uint64_t route; /* f32 [rows, 2 * chosen] */
    uint64_t bias;  /* f32 [experts, columns], or 0 */
    uint64_t held;  /* f32 [rows, columns]: what is added to */
    RowOutputs outputs;
    uint columns;
    uint unused;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint j = 0; j < CHOSEN; j++) {
        uint pair = row * CHOSEN + j;
        float weight = moe_weight(push.route, pair, CHOSEN);
        if (weight == 0.0)
            continue;
        vec4 v = row_load(push.x, pair, column, push.columns);
        if (push.bias != 0)
            v += row_load(push.bias, moe_expert(push.route, pair, CHOSEN), column, push.columns);
        sum += weight * v;
    }
    if (ADD != 0)
        sum += row_load(push.held, row, column, push.columns);
    row_store(push.outputs, row, column, push.columns, sum);
}
