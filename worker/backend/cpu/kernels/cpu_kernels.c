/*
 * The portable tier as a table, and the choice between it and the tiers of the architecture.
 */
#include "worker/backend/cpu/kernels/cpu_kernels.h"

#include "worker/backend/cpu/kernels/attention_portable.h"
#include "worker/backend/cpu/kernels/cpu_tiers.h"
#include "worker/backend/cpu/kernels/linear_portable.h"
#include "worker/backend/cpu/kernels/row_portable.h"

#define ROW_BLOCK_BYTES      (192u << 10) /* of second-level caches of 512 KiB and more */
#define ARRANGED_BLOCK_BYTES (768u << 10) /* of those of CPUs with AMX: 2 MiB */

static const struct cpu_kernels portable_kernels = {
    .tier = CPU_TIER_PORTABLE,
    .name = "portable",
#define LINEAR_ROW(index, type, ...) [PACKED_##type] = linear_portable_##type,
    .linear = {GGML_QUANT_LIST(LINEAR_ROW) GGML_FLOAT_LIST(LINEAR_ROW)},
#undef LINEAR_ROW
    .quantize = row_portable_quantize,
    .rms_norm = row_portable_rms_norm,
    .layer_norm = row_portable_layer_norm,
    .gate = row_portable_gate,
    .soft_cap = row_portable_soft_cap,
    .to_f16 = row_portable_to_f16,
    .attention = attention_portable,
};

const struct cpu_kernels *cpu_kernels_choose(enum cpu_tier tier)
{
#if defined(__x86_64__) || defined(__aarch64__)
    const struct cpu_kernels *kernels = cpu_tiers_choose(tier);
    if (kernels)
        return kernels;
#endif
    if (tier == CPU_TIER_BEST || tier == CPU_TIER_PORTABLE)
        return &portable_kernels;
    return NULL;
}

uint32_t linear_block_rows(const struct cpu_kernels *kernels, uint32_t columns)
{
    const uint32_t bytes = kernels->arranges ? ARRANGED_BLOCK_BYTES : ROW_BLOCK_BYTES;
    const uint32_t least = kernels->arranges ? 32 : 16, step = kernels->arranges ? 32 : 4;
    const uint32_t fitting = bytes / (3 * columns);
    return fitting < least ? least : fitting / step * step;
}

size_t linear_scratch_bytes(const struct cpu_kernels *kernels, uint32_t rows, uint32_t columns)
{
    return kernels->arranges ? (size_t)((rows + 15) / 16) * (columns / 32) * LINEAR_ARRANGED_BYTES
                             : 0;
}

size_t attention_scratch_floats(uint32_t head_dim, bool latent)
{
    size_t turned = latent ? (size_t)ATTENTION_TILE * head_dim : 0;
    return (size_t)ATTENTION_QUERIES * (head_dim + ATTENTION_TILE) + turned;
}
