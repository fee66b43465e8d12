/*
 * The place of f16 activations in the tiled form, which linear_register reads: the sixteen bytes that
 * each of the 32 lanes of its subgroup loads at once are adjacent.
 *
 * A tile is 8 rows of 128 columns, [4][8][4][8]: eight columns of block t of row g are at [i][g][t], i
 * being the number of these eight in the block's 32. Within four columns the order is 0 2 1 3, as in
 * weight_pairs(). Tiles of the same rows are adjacent; the last one is padded.
 */
uint64_t tiled_half(uint row, uint column, uint columns)
{
    uint tile = row / 8 * ((columns + 127) / 128) + column / 128;
    uint piece = (column / 8 % 4 * 8 + row % 8) * 4 + column / 32 % 4;
    return uint64_t(tile) * 1024 + piece * 8 + (column & 4) + ((column & 1) << 1 | (column >> 1 & 1));
}
