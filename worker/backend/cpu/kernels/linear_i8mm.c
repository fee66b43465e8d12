/*
 * The linear kernels of the i8mm tier (linear_neon_tiles.h).
 */
#include "worker/backend/cpu/kernels/linear_i8mm.h"

#define LINEAR_PRODUCTS LINEAR_MATRICES
#include "worker/backend/cpu/kernels/linear_neon_tiles.h"

#define QUANT_TILE(index, type, number, columns, bytes, bits, span, minimum, center, offset,       \
                   table)                                                                          \
    void linear_i8mm_##type(const struct linear_tile *tile)                                        \
    {                                                                                              \
        quantized_tile(KIND(columns, bits, span, minimum, center, table), tile);                   \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE
