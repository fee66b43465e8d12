/*
 * The tiers of AArch64 as tables, and the choice of one by the bits of HWCAP. They differ in products of quantized weights;
 * NEON itself is part of the architecture.
 */
#include "worker/backend/cpu/kernels/cpu_tiers.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "worker/backend/cpu/kernels/attention_simd.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/kernels/linear_dotprod.h"
#include "worker/backend/cpu/kernels/linear_i8mm.h"
#include "worker/backend/cpu/kernels/linear_neon.h"
#include "worker/backend/cpu/kernels/row_simd.h"

/* Bits of AT_HWCAP and AT_HWCAP2 (asm/hwcap.h of AArch64). */
#define HAS_SDOT  (1ul << 20)
#define HAS_SMMLA (1ul << 13)

#define NEON_QUANT(index, type, ...)    [PACKED_##type] = linear_neon_##type,
#define DOTPROD_QUANT(index, type, ...) [PACKED_##type] = linear_dotprod_##type,
#define I8MM_QUANT(index, type, ...)    [PACKED_##type] = linear_i8mm_##type,
#define FLOAT_ROW(index, type, ...)     [PACKED_##type] = linear_neon_##type,

#define OTHER_KERNELS                                                                              \
    .quantize = row_simd_quantize, .rms_norm = row_simd_rms_norm,                                  \
    .layer_norm = row_simd_layer_norm, .gate = row_simd_gate, .soft_cap = row_simd_soft_cap,       \
    .to_f16 = row_simd_to_f16, .attention = attention_simd

static const struct cpu_kernels neon_kernels = {
    .tier = CPU_TIER_NEON,
    .name = "neon",
    .linear = {GGML_QUANT_LIST(NEON_QUANT) GGML_FLOAT_LIST(FLOAT_ROW)},
    OTHER_KERNELS,
};

static const struct cpu_kernels dotprod_kernels = {
    .tier = CPU_TIER_DOTPROD,
    .name = "dotprod",
    .linear = {GGML_QUANT_LIST(DOTPROD_QUANT) GGML_FLOAT_LIST(FLOAT_ROW)},
    OTHER_KERNELS,
};

static const struct cpu_kernels i8mm_kernels = {
    .tier = CPU_TIER_I8MM,
    .name = "i8mm",
    .linear = {GGML_QUANT_LIST(I8MM_QUANT) GGML_FLOAT_LIST(FLOAT_ROW)},
    OTHER_KERNELS,
};

const struct cpu_kernels *cpu_tiers_choose(enum cpu_tier tier)
{
    const bool has_dotprod = getauxval(AT_HWCAP) & HAS_SDOT;
    const bool has_i8mm = has_dotprod && (getauxval(AT_HWCAP2) & HAS_SMMLA);
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_I8MM) && has_i8mm)
        return &i8mm_kernels;
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_DOTPROD) && has_dotprod)
        return &dotprod_kernels;
    if (tier == CPU_TIER_BEST || tier == CPU_TIER_NEON)
        return &neon_kernels;
    return NULL;
}
