/*
 * Index arithmetic by the dimensions, one at a time.
 */
#include "tests/support/tiled_places.h"

#define TILE_ROWS    8u
#define TILE_COLUMNS 128u
#define STAGED_ROWS  128u

static uint32_t column_tiles(uint32_t columns)
{
    return (columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

size_t tiled_places_count(uint32_t rows, uint32_t columns)
{
    uint32_t row_tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    return (size_t)row_tiles * column_tiles(columns) * TILE_ROWS * TILE_COLUMNS;
}

size_t tiled_places_find(uint32_t row, uint32_t column, uint32_t columns)
{
    static const uint32_t order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    size_t at = row / TILE_ROWS;
    at = at * column_tiles(columns) + column / TILE_COLUMNS;
    at = at * 4 + column % 32 / 8;
    at = at * TILE_ROWS + row % TILE_ROWS;
    at = at * 4 + column % TILE_COLUMNS / 32;
    return at * 8 + order[column % 8];
}

size_t staged_places_count(uint32_t rows, uint32_t columns)
{
    return (size_t)(rows + STAGED_ROWS - 1) / STAGED_ROWS * STAGED_ROWS * columns;
}

size_t staged_places_find(uint32_t row, uint32_t column, uint32_t columns)
{
    /* Where a column of eight lies: {0 2}, {1 3}, {4 6}, {5 7}. */
    static const uint32_t chunk[8] = {0, 1, 0, 1, 2, 3, 2, 3}, place[8] = {0, 0, 1, 1, 0, 0, 1, 1};
    uint32_t r = row % STAGED_ROWS;
    size_t at = row / STAGED_ROWS;
    at = at * (columns / TILE_COLUMNS) + column / TILE_COLUMNS;
    at = at * 4 + column % 32 / 8;
    at = at * STAGED_ROWS + r;
    at = at * 4 + (chunk[column % 8] ^ (r >> 1 & 3));
    at = at * 4 + column % TILE_COLUMNS / 32;
    return at * 2 + place[column % 8];
}
