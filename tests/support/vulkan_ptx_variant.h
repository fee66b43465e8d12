/*
 * Included once for each variant of wgmma_blocks.h, after vulkan_ptx_host.h: defines read_<NAME>(), which reads four weights as the
 * variant's kernels do. The includer defines NAME and the variant's macros; all of them are undefined at the end.
 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define block       JOIN(block, NAME)
#define row         JOIN(row, NAME)
#define row_of      JOIN(row_of, NAME)
#define load_block  JOIN(load_block, NAME)
#define codes_of    JOIN(codes_of, NAME)
#define weights_of  JOIN(weights_of, NAME)

#undef SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_BLOCKS_H
#include "worker/backend/vulkan/ptx/wgmma_blocks.h"

/* Columns 4 f … 4 f + 3 of block `number` of a row, in the order 0 2 | 1 3. `first`: the row's first block. */
static void JOIN(read, NAME)(const struct vulkan_weight_arrays *arrays, u32 first, u32 number,
                             u32 f, u32 *even, u32 *odd)
{
    struct row lane = row_of((u64)(uintptr_t)arrays->codes, (u64)(uintptr_t)arrays->high,
                             (u64)(uintptr_t)arrays->scales, first + number % 4);
    struct block loaded = load_block(lane, number / 4);
    weights_of(&loaded, f, even, odd);
}

#undef block
#undef row
#undef row_of
#undef load_block
#undef codes_of
#undef weights_of
#undef JOIN
#undef JOIN_
#undef NAME
#undef CODE_BITS
#undef HIGH_BITS
#undef SPANS
#undef MINIMUM
#undef CENTER
#undef TABLE
#undef GROUP
#undef E4M3
#undef TABLE_IQ4
#undef TABLE_E2M1
#undef MINIMUM_ZERO
#undef TERM_COUNT
#undef TERM_BYTES
#undef TERM_BLOCKS
#undef HALVES
