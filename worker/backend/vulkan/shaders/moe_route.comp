#version 450
/*
 * The `chosen` largest scores of each row: their experts' numbers, then their weights.
 *
 * Grid: (rows). A workgroup computes one row.
 */
#extension GL_GOOGLE_include_directive : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool SOFTMAX_ALL = false; /* the sum is over all scores */

layout(push_constant) uniform Push
{
    uint64_t x;      /* f32 [rows, experts] */
    uint64_t scales; /* f32 [experts], or 0 */
    uint64_t route;  /* f32 [rows, 2 * chosen] */
    uint experts;
    uint chosen;
    float scale;
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Route { float at[]; };

#define CHOICE_EXPERTS 1024 /* proto/limits.h */
#include "moe_choice.glsl"

void main()
{
    MoeFloats scores = MoeFloats(push.x + 4 * uint64_t(gl_WorkGroupID.x) * push.experts);
    Route route = Route(push.route + 8 * uint64_t(gl_WorkGroupID.x) * push.chosen);
    choose_experts(scores, push.experts, push.chosen);
    for (uint j = gl_LocalInvocationIndex; j < push.chosen; j += gl_WorkGroupSize.x) {
        uint expert = choice_experts[j];
        float weight = choice_weight(scores, push.experts, push.chosen, j) * push.scale;
        if (push.scales != 0)
            weight *= MoeFloats(push.scales).at[expert];
        route.at[j] = float(expert);
        route.at[push.chosen + j] = weight;
    }
}
