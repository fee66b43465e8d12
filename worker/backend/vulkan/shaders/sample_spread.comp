#version 450
/*
 * Sampling, for rows with typical_p or top_n_sigma: how the logits of each chunk spread around its
 * largest one; sample_filter computes the row's entropy and standard deviation from it.
 *
 * f32 are added in the order of worker/sample/logit_spread.c and logit_walk.c: each invocation's
 * quads by lanes, then the lanes, then invocations in halves. Sums of weights are integers.
 *
 * Grid: (chunks, rows), after sample_scan.
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "sample_rows.glsl"
#include "sample_sums.glsl"

const uint QUADS = BLOCK / 4;
const float DISTANCE_MOST = 1073741824.0; /* 2^30 */

shared vec2 halves[SCANNERS];
uvec4 bits[QUADS];

/* The sum of all invocations' pairs. */
vec2 sum_invocations(vec2 own)
{
    uint at = gl_LocalInvocationID.x;
    barrier();
    halves[at] = own;
    barrier();
    for (uint step = SCANNERS / 2; step > 0; step /= 2) {
        if (at < step) {
            precise vec2 sum = halves[at] + halves[at + step];
            halves[at] = sum;
        }
        barrier();
    }
    return halves[0];
}

float sum_lanes(vec4 lanes)
{
    precise float sum = lanes.x + lanes.y + (lanes.z + lanes.w);
    return sum;
}

float distance_to(uint logit, float largest)
{
    precise float distance = largest - uintBitsToFloat(logit);
    return distance < DISTANCE_MOST ? distance : DISTANCE_MOST;
}

/* The number of logits and the sum of their distances. */
vec2 sum_distances(float largest)
{
    precise vec4 sums = vec4(0.0);
    uint count = 0;
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (bits[quad][i] != MINUS_INFINITY) {
                sums[i] += distance_to(bits[quad][i], largest);
                count++;
            }
    return sum_invocations(vec2(float(count), sum_lanes(sums)));
}

/* Sums of (distance - center) and of its square. */
vec2 sum_differences(float largest, float center)
{
    precise vec4 sums = vec4(0.0);
    precise vec4 squares = vec4(0.0);
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (bits[quad][i] != MINUS_INFINITY) {
                precise float from = distance_to(bits[quad][i], largest) - center;
                sums[i] += from;
                squares[i] += from * from;
            }
    return sum_invocations(vec2(sum_lanes(sums), sum_lanes(squares)));
}

uint64_t sum_entropies(float largest, float inverse_temperature)
{
    precise vec4 sums = vec4(0.0);
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++) {
            float w = weight(bits[quad][i], largest, inverse_temperature);
            precise float entropy =
                w * abs(log_weight(bits[quad][i], largest, inverse_temperature));
            sums[i] += w > 0.0 ? entropy : 0.0;
        }
    return group_sum(units(sum_lanes(sums)));
}

void main()
{
    uint row = gl_WorkGroupID.y;
    uint flags = SampleRecords(push.records).at[row].flags;
    if ((flags & ROW_FILTERS) == 0)
        return;
    SampleSpread spread = SampleSpread(0.0, 0.0, 0.0, 0.0, 0, 0);
    uint best_key = SampleParts(parts_of(row)).at[gl_WorkGroupID.x].best_key;
    if (best_key != LOWEST_KEY) {
        float largest = logit_of(best_key);
        [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
            bits[quad] = clean_quad(load_raw_quad(
                logits_of(row), gl_WorkGroupID.x * CHUNK + 4 * (quad * SCANNERS + gl_LocalInvocationID.x)));
        vec2 distances = sum_distances(largest);
        spread.count = distances.x;
        spread.center = distances.y * (1.0 / float(CHUNK)); /* a power of two */
        vec2 differences = sum_differences(largest, spread.center);
        spread.sum = differences.x;
        spread.squares = differences.y;
        if ((flags & ROW_MASS) != 0)
            spread.entropy =
                sum_entropies(largest, SampleRecords(push.records).at[row].inverse_temperature);
    }
    if (gl_LocalInvocationID.x == 0)
        SampleSpreads(spreads_of(row)).at[gl_WorkGroupID.x] = spread;
}
