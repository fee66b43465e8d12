#version 450
/*
 * Of each row's scores the `chosen` largest: their experts' numbers, then their weights.
 *
 * A score's place is the number of scores that come before it, so every invocation finds the places
 * of its own scores alone, with one barrier in all. Scores are compared as integers in the order of
 * the floats, NaNs last and equal ones by number: a place is taken once and by an expert that exists,
 * whatever the scores.
 *
 * Grid: (rows). A workgroup does one row.
 */
#extension GL_GOOGLE_include_directive : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SOFTMAX_ALL = 0; /* the sum is over all scores, not the chosen */

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

const uint EXPERTS_MAX = 1024, CHOSEN_MAX = 32; /* proto/limits.h */
shared uvec4 keys[EXPERTS_MAX / 4]; /* 0 behind the last, which comes before none */
shared float best[CHOSEN_MAX]; /* scores by place */
shared uint best_experts[CHOSEN_MAX];

uint key_of(float score)
{
    uint bits = floatBitsToUint(score);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 0; /* not a number */
    if (bits == 0x80000000u)
        bits = 0; /* -0 is 0 */
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

float sum_of_chosen()
{
    float sum = 0.0;
    for (uint j = 0; j < push.chosen; j++)
        sum += exp(best[j] - best[0]);
    return sum;
}

float sum_of_all(MoeFloats scores)
{
    float sum = 0.0;
    for (uint e = 0; e < push.experts; e++)
        sum += exp(scores.at[e] - best[0]);
    return sum;
}

void main()
{
    MoeFloats scores = MoeFloats(push.x + 4 * uint64_t(gl_WorkGroupID.x) * push.experts);
    Route route = Route(push.route + 8 * uint64_t(gl_WorkGroupID.x) * push.chosen);
    uint quads = (push.experts + 3) / 4;
    for (uint e = gl_LocalInvocationID.x; e < 4 * quads; e += gl_WorkGroupSize.x)
        keys[e / 4][e % 4] = e < push.experts ? key_of(scores.at[e]) : 0;
    barrier();
    for (uint e = gl_LocalInvocationID.x; e < push.experts; e += gl_WorkGroupSize.x) {
        uint key = keys[e / 4][e % 4];
        uvec4 before = uvec4(0);
        for (uint q = 0; q < quads; q++) {
            uvec4 other = uvec4(4 * q) + uvec4(0, 1, 2, 3);
            before += uvec4(greaterThan(keys[q], uvec4(key))) +
                      uvec4(equal(keys[q], uvec4(key))) * uvec4(lessThan(other, uvec4(e)));
        }
        uint place = before.x + before.y + before.z + before.w;
        if (place < push.chosen) {
            best[place] = scores.at[e];
            best_experts[place] = e;
        }
    }
    barrier();
    for (uint j = gl_LocalInvocationID.x; j < push.chosen; j += gl_WorkGroupSize.x) {
        float sum = SOFTMAX_ALL != 0 ? sum_of_all(scores) : sum_of_chosen();
        float weight = exp(best[j] - best[0]) / sum * push.scale;
        if (push.scales != 0)
            weight *= MoeFloats(push.scales).at[best_experts[j]];
        route.at[j] = float(best_experts[j]);
        route.at[push.chosen + j] = weight;
    }
}
