#version 450
/*
 * near_attention: a workgroup computes one head of a row. Its invocations score one of the rows that are seen each,
 * at most 64 (LIMIT_AUDIO_NEAR), then sum columns of values.
 *
 * Grid: (rows, heads).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint BEFORE = 1;

#include "patches.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;         /* f32 [rows, x_columns] */
    uint64_t out_f32;   /* [rows, HEADS * HEAD_DIM] */
    uint64_t distances; /* f32 [BEFORE + 1, HEADS * HEAD_DIM] */
    uint64_t places;    /* PatchPlace [rows] */
    uint x_columns;
    uint queries; /* first columns */
    uint keys;
    uint values;
    float scale;
    float soft_cap; /* 0: none */
} push;

const uint SIZE = gl_WorkGroupSize.x;
const uint WIDE = HEADS * HEAD_DIM;

shared float query[HEAD_DIM];
shared float weights[BEFORE + 1];

Floats part_of(uint row, uint column)
{
    return Floats(push.x + 4 * (uint64_t(row) * push.x_columns + column));
}

float score_of(Floats key, Floats distance)
{
    float content = 0.0, place = 0.0;
    for (uint d = 0; d < HEAD_DIM; d++) {
        content += query[d] * key.at[d];
        place += query[d] * distance.at[d];
    }
    float score = push.scale * content + place;
    return push.soft_cap > 0.0 ? push.soft_cap * tanh(clamp(score / push.soft_cap, -20.0, 20.0)) : score;
}

void main()
{
    uint row = gl_WorkGroupID.x, head = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x;
    uint count = min(PatchPlaces(push.places).at[row].line, BEFORE) + 1, column = head * HEAD_DIM;
    uint first = row + 1 - count;
    Floats queries = part_of(row, push.queries + column);
    for (uint d = lane; d < HEAD_DIM; d += SIZE)
        query[d] = queries.at[d];
    barrier();
    for (uint j = lane; j < count; j += SIZE)
        weights[j] = score_of(part_of(first + j, push.keys + column),
                              Floats(push.distances + 4 * uint64_t((BEFORE + 1 - count + j) * WIDE + column)));
    barrier();
    float most = weights[0], total = 0.0;
    for (uint j = 1; j < count; j++)
        most = max(most, weights[j]);
    for (uint j = 0; j < count; j++)
        total += exp(weights[j] - most);
    Floats target = Floats(push.out_f32 + 4 * (uint64_t(row) * WIDE + column));
    for (uint d = lane; d < HEAD_DIM; d += SIZE) {
        float sum = 0.0;
        for (uint j = 0; j < count; j++)
            sum += exp(weights[j] - most) * part_of(first + j, push.values + column).at[d];
        target.at[d] = sum / total;
    }
}
