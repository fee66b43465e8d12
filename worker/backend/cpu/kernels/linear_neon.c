/*
 * The linear kernels of the neon tier (linear_neon_tiles.h), and those of unquantized weights
 * for all tiers of AArch64.
 */
#include "worker/backend/cpu/kernels/linear_neon.h"

#define LINEAR_PRODUCTS LINEAR_BYTES
#include "worker/backend/cpu/kernels/linear_neon_tiles.h"

#define QUANT_TILE(index, type, number, columns, bytes, bits, span, minimum, center, offset,       \
                   table)                                                                          \
    void linear_neon_##type(const struct linear_tile *tile)                                        \
    {                                                                                              \
        quantized_tile(KIND(columns, bits, span, minimum, center, table), tile);                   \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE

#define FLOAT_TILE(index, type, number, bits, scaled, table)                                       \
    void linear_neon_##type(const struct linear_tile *tile)                                        \
    {                                                                                              \
        float_tile(PACKED_##type, scaled, tile);                                                   \
    }
GGML_FLOAT_LIST(FLOAT_TILE)
#undef FLOAT_TILE
