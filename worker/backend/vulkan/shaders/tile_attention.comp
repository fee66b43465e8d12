#version 450
/*
 * QUERIES rows of patches that are a square, or one row, attend to their tile or window with scores of relative positions, or a
 * feature attends to those of its tile (worker/plan/op_list.h, tile_attention).
 *
 * The workgroup takes as many positions at a time as it has invocations: each scores one for all queries, then each sums
 * columns of values over these positions. What is summed so far is scaled down when a larger score comes, and the groups' sums
 * are added at the end. A query's scores of lines and of columns are computed once, before.
 *
 * Grid: (rows / QUERIES, heads).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint QUERIES = 1;
layout(constant_id = 3) const uint SIDE = 1; /* maximum of lines, or columns */
layout(constant_id = 4) const uint FEATURES = 0;

#include "patches.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, x_columns] */
    uint64_t out_f32; /* [rows, out_columns] */
    uint64_t places;  /* PatchPlace [rows of patches] */
    uint64_t images;  /* PatchImage [tiles] */
    uint64_t tables;  /* f32 [line_rows, HEAD_DIM], then [column_rows, HEAD_DIM], then q|k|v of a row of zeros */
    uint x_columns;
    uint out_columns;
    uint query_offset;
    uint key_offset;
    uint value_offset;
    uint line_rows;
    uint column_rows;
    uint window;
    uint merge;
    uint lead;
    float scale;
} push;

const uint SIZE = gl_WorkGroupSize.x;
const uint ALL = QUERIES * HEAD_DIM;
const uint GROUPS = SIZE > ALL ? SIZE / ALL : 1;
const float LEAST = -3.0e38;

shared float queries[ALL];
shared float biases[QUERIES * 2 * SIDE]; /* of lines, then of columns */
shared float weights[QUERIES * SIZE];
shared float sums[GROUPS * ALL];
shared float mosts[QUERIES];
shared float kept[QUERIES];
shared float totals[QUERIES];

/* The positions that are attended to: of a window or tile from `corner` on, or consecutive rows. */
struct Span
{
    uint first_row;
    uvec2 corner; /* column, line */
    uvec2 size;
    uvec2 tile;
};

Span span_of(PatchPlace place)
{
    PatchImage image = PatchImages(push.images).at[place.tile];
    Span span;
    span.first_row = place.begin + push.lead;
    span.tile = uvec2(image.width, image.height);
    span.corner = uvec2(0);
    span.size = span.tile;
    if (push.window > 0) {
        span.corner = uvec2(place.column, place.line) / push.window * push.window;
        span.size = uvec2(push.window);
    }
    if (FEATURES == 1) {
        uint square = push.merge * push.merge;
        span.first_row = place.begin / square;
        span.size = uvec2(push.lead + image.width * image.height / square, 1);
    }
    return span;
}

/* q|k|v of a position. */
Floats position_at(Span span, uint p)
{
    uvec2 at = span.corner + uvec2(p % span.size.x, p / span.size.x);
    uint row = span.first_row + p;
    if (FEATURES == 0) {
        if (at.x >= span.tile.x || at.y >= span.tile.y)
            return Floats(push.tables + 4 * uint64_t(push.line_rows + push.column_rows) * HEAD_DIM);
        row = span.first_row + patch_row(at.y, at.x, span.tile.x, push.merge);
    }
    return Floats(push.x + 4 * uint64_t(row) * push.x_columns);
}

float table_dot(uint first, uint row, uint q)
{
    Floats table = Floats(push.tables + 4 * uint64_t(first + row) * HEAD_DIM);
    float sum = 0.0;
    for (uint d = 0; d < HEAD_DIM; d++)
        sum += queries[q * HEAD_DIM + d] * table.at[d];
    return sum;
}

/* The query's product with the row for distance `row` of a table, resized to 2 * count - 1 rows. */
float relative(uint first, uint rows, uint row, uint count, uint q)
{
    float where = max((float(row) + 0.5) * float(rows) / float(2 * count - 1) - 0.5, 0.0);
    uint low = min(uint(where), rows - 1), high = min(low + 1, rows - 1);
    float weight = where - float(low);
    float sum = table_dot(first, low, q);
    return weight > 0.0 ? (1.0 - weight) * sum + weight * table_dot(first, high, q) : sum;
}

void lay_biases(Span span, uint row)
{
    for (uint i = gl_LocalInvocationID.x; i < QUERIES * (span.size.x + span.size.y); i += SIZE) {
        uint q = i / (span.size.x + span.size.y), k = i % (span.size.x + span.size.y);
        PatchPlace place = PatchPlaces(push.places).at[row + q];
        uvec2 at = uvec2(place.column, place.line) - span.corner;
        if (k < span.size.y)
            biases[q * 2 * SIDE + k] =
                relative(0, push.line_rows, at.y + span.size.y - 1 - k, span.size.y, q);
        else
            biases[q * 2 * SIDE + SIDE + k - span.size.y] =
                relative(push.line_rows, push.column_rows, at.x + span.size.x - 1 - (k - span.size.y), span.size.x, q);
    }
}

/* Scores of position `p`, to weights[q, lane]. */
void score(Span span, uint p, bool exists)
{
    uint lane = gl_LocalInvocationID.x, key = push.key_offset + gl_WorkGroupID.y * HEAD_DIM;
    float scores[QUERIES];
    for (uint q = 0; q < QUERIES; q++)
        scores[q] = 0.0;
    if (exists) {
        Floats row = position_at(span, p);
        for (uint d = 0; d < HEAD_DIM; d++) {
            float value = row.at[key + d];
            for (uint q = 0; q < QUERIES; q++)
                scores[q] += queries[q * HEAD_DIM + d] * value;
        }
    }
    for (uint q = 0; q < QUERIES; q++) {
        float bias = 0.0;
        if (FEATURES == 0 && exists)
            bias = biases[q * 2 * SIDE + p / span.size.x] + biases[q * 2 * SIDE + SIDE + p % span.size.x];
        weights[q * SIZE + lane] = exists ? push.scale * scores[q] + bias : LEAST;
    }
}

/* Turns the scores of `count` positions into weights. */
void weigh(uint count)
{
    uint lane = gl_LocalInvocationID.x;
    for (uint q = lane; q < QUERIES; q += SIZE) {
        float most = mosts[q];
        for (uint k = 0; k < count; k++)
            most = max(most, weights[q * SIZE + k]);
        kept[q] = exp(mosts[q] - most);
        mosts[q] = most;
    }
    barrier();
    for (uint i = lane; i < QUERIES * SIZE; i += SIZE)
        weights[i] = i % SIZE < count ? exp(weights[i] - mosts[i / SIZE]) : 0.0;
    barrier();
    for (uint q = lane; q < QUERIES; q += SIZE) {
        float total = totals[q] * kept[q];
        for (uint k = 0; k < count; k++)
            total += weights[q * SIZE + k];
        totals[q] = total;
    }
}

void add_values(Span span, uint first, uint count)
{
    uint value = push.value_offset + gl_WorkGroupID.y * HEAD_DIM;
    for (uint i = gl_LocalInvocationID.x; i < GROUPS * ALL; i += SIZE) {
        uint q = i % ALL / HEAD_DIM, d = i % HEAD_DIM;
        float sum = sums[i] * kept[q];
        for (uint k = i / ALL; k < count; k += GROUPS)
            sum += weights[q * SIZE + k] * position_at(span, first + k).at[value + d];
        sums[i] = sum;
    }
}

void main()
{
    uint row = gl_WorkGroupID.x * QUERIES, lane = gl_LocalInvocationID.x, square = push.merge * push.merge;
    /* of a feature its square's last patch, which is the tile's lead row in the square before the tile */
    uint patch_of_row = FEATURES == 1 ? row * square + square - 1 : row;
    PatchPlace place = PatchPlaces(push.places).at[patch_of_row];
    bool attends = FEATURES == 1 || place.time == 0;
    Span span = span_of(place);
    uint count = attends ? span.size.x * span.size.y : 0;
    for (uint i = lane; i < ALL; i += SIZE)
        queries[i] = Floats(push.x + 4 * uint64_t(row + i / HEAD_DIM) * push.x_columns)
                         .at[push.query_offset + gl_WorkGroupID.y * HEAD_DIM + i % HEAD_DIM];
    for (uint i = lane; i < GROUPS * ALL; i += SIZE)
        sums[i] = 0.0;
    for (uint q = lane; q < QUERIES; q += SIZE) {
        mosts[q] = LEAST;
        totals[q] = 0.0;
    }
    barrier();
    if (FEATURES == 0 && attends)
        lay_biases(span, row);
    barrier();
    for (uint from = 0; from < count; from += SIZE) {
        uint some = min(SIZE, count - from);
        score(span, from + lane, lane < some);
        barrier();
        weigh(some);
        add_values(span, from, some);
        barrier();
    }
    for (uint i = lane; i < ALL; i += SIZE) {
        uint q = i / HEAD_DIM;
        float sum = 0.0;
        for (uint g = 0; g < GROUPS; g++)
            sum += sums[g * ALL + i];
        Floats(push.out_f32 + 4 * uint64_t(row + q) * push.out_columns).at[gl_WorkGroupID.y * HEAD_DIM + i % HEAD_DIM] =
            totals[q] > 0.0 ? sum / totals[q] : 0.0;
    }
}
