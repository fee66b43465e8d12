#version 450
/*
 * x[r, :] += the table's row for the place of patch r. EXACT: row line * side + column. LINEAR: the
 * tile's grid is scaled to the table's side x side grid, corners aligned, and the four rows around the
 * patch are weighted by distance. CUBIC: middles of patches over the table, the 16 rows around weighted by
 * cubic convolution, those beyond the edge being the edge's. MIDDLES: middles of patches, the rows nearer than 1
 * by their distance. AVERAGED: likewise, nearer than a patch's share of the table if that is more. CUBIC_AVERAGED: likewise,
 * nearer than twice that, by cubic convolution. AXES: row column plus row side + line. LINE: row line. LEAD: as EXACT, one row further;
 * the row of a tile that is no patch becomes the table's first row plus the lead row. LEAD_RESIZED: so too, and otherwise as
 * CUBIC_AVERAGED. Rows of features have the line and column of their squares.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

layout(constant_id = 2) const uint FORM = 0; /* enum position_form, or LEAD */
const uint EXACT = 0, LINEAR = 1, AXES = 2, CUBIC = 3, MIDDLES = 4, AVERAGED = 5, LINE = 6, CUBIC_AVERAGED = 7, LEAD = 8,
           LEAD_RESIZED = 9;

layout(push_constant) uniform Push
{
    uint64_t x;        /* f32 [rows, columns], in place */
    uint64_t table;    /* f32 [side * side, columns]; AXES: [2 * side, columns]; LINE: [side, columns]; LEAD:
                          [1 + side * side, columns], then the lead row */
    uint64_t places; /* PatchPlace [rows of patches] */
    uint64_t images; /* PatchImage [tiles] */
    uint columns;
    uint side; /* of the table */
    uint merge; /* patches along a row's square */
} push;

/* Two neighbours along one axis of `count` patches laid over `side` rows of the table: how far it is
 * from the first to the second. */
float neighbours(uint at, uint count, out uvec2 rows)
{
    float where = count > 1 ? float(at) * float(push.side - 1) / float(count - 1) : 0.0;
    rows.x = uint(floor(where));
    rows.y = min(rows.x + 1, push.side - 1);
    return where - floor(where);
}

vec4 table_at(uint row, uint column)
{
    return row_load(push.table, row, column, push.columns);
}

vec4 linear(PatchPlace place, uint column)
{
    PatchImage image = PatchImages(push.images).at[place.tile];
    uvec2 lines, places;
    float down = neighbours(place.line, image.height, lines);
    float along = neighbours(place.column, image.width, places);
    vec4 top = (1.0 - along) * table_at(lines.x * push.side + places.x, column) +
               along * table_at(lines.x * push.side + places.y, column);
    vec4 bottom = (1.0 - along) * table_at(lines.y * push.side + places.x, column) +
                  along * table_at(lines.y * push.side + places.y, column);
    return (1.0 - down) * top + down * bottom;
}

const float CUBIC_A = -0.75, AVERAGED_A = -0.5;

/* Keys' cubic convolution at a distance of less than 2. */
float cubic_weight(float distance, float a)
{
    float d = abs(distance);
    return d <= 1.0 ? ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0 : ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
}

float middle(uint at, uint count)
{
    return (float(at) + 0.5) / float(count) * float(push.side) - 0.5;
}

uint inside(float row)
{
    return uint(clamp(row, 0.0, float(push.side - 1)));
}

vec4 cubic(PatchPlace place, uint column)
{
    PatchImage image = PatchImages(push.images).at[place.tile];
    float line = middle(place.line, image.height), across = middle(place.column, image.width);
    vec4 sum = vec4(0.0);
    for (int y = -1; y < 3; y++) {
        for (int x = -1; x < 3; x++) {
            float row = floor(line) + float(y), at = floor(across) + float(x);
            sum += cubic_weight(line - row, CUBIC_A) * cubic_weight(across - at, CUBIC_A) *
                   table_at(inside(row) * push.side + inside(at), column);
        }
    }
    return sum;
}

const bool RESIZED = FORM == CUBIC_AVERAGED || FORM == LEAD_RESIZED;

/* Weights of the table's rows along one axis, by the distance from the patch's middle over `unit`: from 1 to 0, or if RESIZED
 * by cubic convolution. */
struct Span
{
    uint first;
    uint last;
    float middle;
    float unit;
    float sum;
};

float weight(Span span, uint row)
{
    float distance = abs(float(row) - span.middle) / span.unit;
    if (RESIZED)
        return distance < 2.0 ? cubic_weight(distance, AVERAGED_A) : 0.0;
    return max(1.0 - distance, 0.0);
}

Span span_of(uint at, uint count)
{
    Span span;
    span.middle = middle(at, count);
    span.unit = FORM == MIDDLES ? 1.0 : max(float(push.side) / float(count), 1.0);
    float reach = RESIZED ? 2.0 * span.unit : span.unit;
    span.first = inside(ceil(span.middle - reach));
    span.last = inside(floor(span.middle + reach));
    span.sum = 0.0;
    for (uint row = span.first; row <= span.last; row++)
        span.sum += weight(span, row);
    return span;
}

vec4 weighted(PatchPlace place, uint column)
{
    PatchImage image = PatchImages(push.images).at[place.tile];
    uint before = FORM == LEAD_RESIZED ? 1 : 0;
    Span lines = span_of(place.line / push.merge, image.height / push.merge);
    Span across = span_of(place.column / push.merge, image.width / push.merge);
    vec4 sum = vec4(0.0);
    for (uint y = lines.first; y <= lines.last; y++)
        for (uint x = across.first; x <= across.last; x++)
            sum += weight(lines, y) * weight(across, x) * table_at(before + y * push.side + x, column);
    return sum / (lines.sum * across.sum);
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row * push.merge * push.merge];
    vec4 added;
    if (FORM == CUBIC_AVERAGED && place.time == 1)
        return;
    if (FORM == LINEAR)
        added = linear(place, column);
    else if (FORM == CUBIC)
        added = cubic(place, column);
    else if (FORM == MIDDLES || FORM == AVERAGED || RESIZED)
        added = weighted(place, column);
    else if (FORM == AXES)
        added = table_at(place.column, column) + table_at(push.side + place.line, column);
    else if (FORM == LINE)
        added = table_at(place.line, column);
    else
        added = table_at((FORM == LEAD ? 1 : 0) + place.line * push.side + place.column, column);
    vec4 x = row_load(push.x, row, column, push.columns);
    if ((FORM == LEAD || FORM == LEAD_RESIZED) && place.time == 1) {
        x = table_at(1 + push.side * push.side, column);
        added = table_at(0, column);
    }
    row_store_f32(push.x, row, column, push.columns, x + added);
}
