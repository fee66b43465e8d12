/*
 * Convolutions over maps that are finer than the tower's rows (worker/plan/op_list.h). The includer defines
 * tap_product() after a forward declaration here. An invocation computes up to four columns of a row.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "patches.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer MapFloats
{
    float at[];
};

layout(push_constant) uniform Push
{
    uint64_t x;        /* f32 [rows, x_columns] */
    uint64_t out_f32;  /* f32 [rows, out_columns] */
    uint64_t kernel;   /* f32 [out_cells.channels, taps * channels] */
    uint64_t places;   /* PatchPlace [rows] */
    uint64_t images;   /* PatchImage [tiles] */
    uint x_columns;
    uint out_columns;
    uint in_lines;     /* cells of a row of x */
    uint in_across;
    uint in_channels;
    uint out_lines;    /* and of out */
    uint out_across;
    uint out_channels;
    uint taps_y;
    uint taps_x;
    uint before_y;
    uint before_x;
    uint unit; /* mel rows of a row of a sound; 0: images */
    uint side; /* of merged squares */
} push;

/* Kernel row `channel`, tap `tap`, times the channels at `point`. */
float tap_product(MapFloats kernel, uint channel, uint tap, MapFloats point);

uint row_in_tile(uint y, uint x, uint width)
{
    uint square = y / push.side * (width / push.side) + x / push.side;
    return (square * push.side + y % push.side) * push.side + x % push.side;
}

float convolve(uint row, uint column, PatchPlace place, PatchImage tile)
{
    uint channel = column % push.out_channels, cell = column / push.out_channels;
    uint lines = tile.height * push.in_lines;
    if (push.unit > 0)
        lines = (lines + push.unit - 1) / push.unit;
    int across = int(tile.width * push.in_across);
    uint first = row - row_in_tile(place.line, place.column, tile.width);
    int y = int(place.line * push.out_lines + cell / push.out_across);
    int x = int(place.column * push.out_across + cell % push.out_across);
    y = y * int(push.in_lines / push.out_lines) - int(push.before_y);
    x = x * int((push.in_across + push.out_across - 1) / push.out_across) - int(push.before_x);
    MapFloats kernel = MapFloats(push.kernel);
    float sum = 0.0;
    for (uint tap = 0; tap < push.taps_y * push.taps_x; tap++) {
        int line = y + int(tap / push.taps_x), point = x + int(tap % push.taps_x);
        if (line < 0 || point < 0 || line >= int(lines) || point >= across)
            continue;
        uint from = first + row_in_tile(uint(line) / push.in_lines, uint(point) / push.in_across, tile.width);
        uint at = uint(line) % push.in_lines * push.in_across + uint(point) % push.in_across;
        sum += tap_product(kernel, channel, tap,
                           MapFloats(push.x + 4 * row_index(from, at * push.in_channels, push.x_columns)));
    }
    return sum;
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    PatchPlace place = PatchPlaces(push.places).at[row];
    PatchImage tile = PatchImages(push.images).at[place.tile];
    uint columns = push.out_lines * push.out_across * push.out_channels;
    for (uint i = 0; i < 4; i++)
        if (column + i < columns)
            RowFloat(push.out_f32 + 4 * row_index(row, column + i, push.out_columns)).value =
                convolve(row, column + i, place, tile);
}
