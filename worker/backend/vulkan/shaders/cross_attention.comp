#version 450
/*
 * A head of a row attends to the keys and values of the features in the ranges that the row's sight names
 * (worker/plan/op_list.h, cross_attention).
 *
 * The workgroup takes as many features at a time as it has invocations: each scores one, then each sums
 * one column of values over some of these features. What is summed so far is scaled down when a larger
 * score comes, and the groups' sums are added at the end.
 *
 * Grid: (rows, heads).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;

#include "step.glsl"
#include "workgroup_sum.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;        /* f32 [rows, x_columns], queries from query_offset on */
    uint64_t out_f32;  /* [rows, HEADS * HEAD_DIM] */
    uint64_t sights;   /* StepSight [rows] */
    uint64_t features; /* f32 [pool rows, feature_columns], from the layer's keys on */
    uint64_t ranges;   /* of the feature pool: first row and number of rows, two entries each */
    uint x_columns;
    uint query_offset;
    uint feature_columns;
    float scale;
} push;

const uint SIZE = gl_WorkGroupSize.x;
const uint GROUPS = SIZE > HEAD_DIM ? SIZE / HEAD_DIM : 1;
const uint SUMS = GROUPS * HEAD_DIM;
const float LEAST = -3.0e38;

shared float query[HEAD_DIM];
shared float weights[SIZE];
shared float sums[SUMS]; /* [GROUPS, HEAD_DIM] */

/* The maximum over the workgroup; `weights` is overwritten. */
float workgroup_max(float value)
{
    barrier();
    weights[gl_LocalInvocationID.x] = value;
    barrier();
    float most = weights[0];
    for (uint i = 1; i < SIZE; i++)
        most = max(most, weights[i]);
    barrier();
    return most;
}

uint64_t feature_at(uint row, uint column)
{
    return push.features + 4 * (uint64_t(row) * push.feature_columns + column);
}

float score_of(uint row, uint column)
{
    Floats key = Floats(feature_at(row, column));
    float score = 0.0;
    for (uint d = 0; d < HEAD_DIM; d++)
        score += query[d] * key.at[d];
    return push.scale * score;
}

void main()
{
    uint row = gl_WorkGroupID.x, head = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
    uint keys = head / (HEADS / KV_HEADS) * HEAD_DIM, values = KV_HEADS * HEAD_DIM + keys;
    StepSight sight = StepSights(push.sights).at[row];
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.x_columns + push.query_offset));
    for (uint d = lane; d < HEAD_DIM; d += SIZE)
        query[d] = x.at[head * HEAD_DIM + d];
    for (uint i = lane; i < SUMS; i += SIZE)
        sums[i] = 0.0;
    float most = LEAST, total = 0.0;
    barrier();
    uint ranges = sight.crossed_count & ~SIGHT_UNSEEING;
    for (uint r = 0, from = 0; r < ranges;) {
        uint at = sight.crossed_first + 2 * r, rows = StepWords(push.ranges).at[at + 1];
        if (from >= rows) {
            from = 0;
            r++;
            continue;
        }
        uint count = min(SIZE, rows - from), first = StepWords(push.ranges).at[at] + from;
        from += SIZE;
        float score = lane < count ? score_of(first + lane, keys) : LEAST;
        float before = most;
        most = max(before, workgroup_max(score));
        float kept = exp(before - most), weight = lane < count ? exp(score - most) : 0.0;
        weights[lane] = weight;
        total = total * kept + workgroup_sum(weight); /* a barrier for the weights, too */
        for (uint i = lane; i < SUMS; i += SIZE) {
            float sum = sums[i] * kept;
            for (uint k = i / HEAD_DIM; k < count; k += GROUPS)
                sum += weights[k] * Floats(feature_at(first + k, values)).at[i % HEAD_DIM];
            sums[i] = sum;
        }
    }
    barrier();
    Floats target = Floats(push.out_f32 + 4 * uint64_t(row) * HEADS * HEAD_DIM);
    for (uint d = lane; d < HEAD_DIM; d += SIZE) {
        float sum = 0.0;
        for (uint g = 0; g < GROUPS; g++)
            sum += sums[g * HEAD_DIM + d];
        target.at[head * HEAD_DIM + d] = total > 0.0 ? sum / total : 0.0;
    }
}
