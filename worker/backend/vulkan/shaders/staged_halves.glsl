/*
 * The place of f16 activations in the staged form, which the kernel in PTX (../ptx/linear_wgmma.c) copies to
 * shared memory as it is: pieces of 128 rows and 32 columns of one sort, [row][4 chunks][4 blocks][2].
 *
 * A piece holds columns 8 i .. 8 i + 7 of each of the four blocks of 128 columns. Chunk c of a row has two of
 * them of each block: 0 2, then 1 3, 4 6 and 5 7; it lies at c ^ (row / 2 % 4), so that matrix units read
 * eight rows at once from all banks. Returned is the place of columns `column` and `column` + 2.
 */
uint64_t staged_half(uint row, uint column, uint columns)
{
    uint chunk = column / 4 % 2 * 2 + column % 2;
    uint64_t piece = uint64_t(row / 128) * (columns / 32) + column / 128 * 4 + column / 8 % 4;
    return piece * 4096 + row % 128 * 32 + 8 * (chunk ^ (row / 2 % 4)) + column / 32 % 4 * 2;
}
