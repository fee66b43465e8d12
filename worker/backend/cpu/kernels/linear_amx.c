/*
 * The linear kernels of the AMX tier: linear_amx_tiles.h in instructions. Few rows, what is left of a tile, and float kinds
 * are computed by linear_avx512.c, whose bits are the same.
 */
#include "worker/backend/cpu/kernels/linear_amx.h"

#include "worker/backend/cpu/kernels/linear_amx_tiles.h"
#include "worker/backend/cpu/kernels/linear_avx512.h"

#define ROWS_LEAST 12u /* of a tile that is not whole, for which it is quicker */

/* The rows that tiles compute. */
INLINE uint32_t rows_of_tiles(uint32_t rows)
{
    return rows % AMX_ROWS < ROWS_LEAST ? rows / AMX_ROWS * AMX_ROWS : rows;
}

#define QUANT_TILE(index, type, number, columns, bytes, bits, span, minimum, center, offset,       \
                   table)                                                                          \
    void linear_amx_##type(const struct linear_tile *tile)                                         \
    {                                                                                              \
        const struct kind kind = KIND(columns, bits, span, minimum, center, table);                \
        struct linear_tile rest = *tile;                                                           \
        uint32_t rows = rows_of_tiles(tile->rows);                                                 \
        if (rows > 0 && amx_rows(kind, tile, rows)) {                                              \
            rest.rows -= rows;                                                                     \
            rest.x = (const char *)tile->x + rows * tile->x_stride_bytes;                          \
            rest.out += rows * tile->out_stride;                                                   \
            rest.add = tile->add ? tile->add + rows * tile->out_stride : NULL;                     \
        }                                                                                          \
        if (rest.rows > 0)                                                                         \
            linear_avx512_##type(&rest);                                                           \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE
