/*
 * The tiers of AArch64 as tables, and the choice of one by the bits of HWCAP.
 */
#include "worker/backend/cpu/kernels/cpu_tiers.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "worker/backend/cpu/kernels/attention_portable.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/kernels/linear_i8mm.h"
#include "worker/backend/cpu/kernels/linear_neon.h"
#include "worker/backend/cpu/kernels/row_portable.h"

/* Bits of AT_HWCAP and AT_HWCAP2 (asm/hwcap.h of AArch64). */
#define HAS_SDOT  (1ul << 20)
#define HAS_SMMLA (1ul << 13)

/* Only products are written for NEON; the other kernels are the portable ones. */
static const struct cpu_kernels dotprod_kernels = {
    .tier = CPU_TIER_DOTPROD,
    .name = "dotprod",
#define LINEAR_ROW(index, type, ...) [PACKED_##type] = linear_neon_##type,
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

static const struct cpu_kernels i8mm_kernels = {
    .tier = CPU_TIER_I8MM,
    .name = "i8mm",
#define LINEAR_ROW(index, type, ...)   [PACKED_##type] = linear_i8mm_##type,
#define LINEAR_FLOAT(index, type, ...) [PACKED_##type] = linear_neon_##type,
    .linear = {GGML_QUANT_LIST(LINEAR_ROW) GGML_FLOAT_LIST(LINEAR_FLOAT)},
#undef LINEAR_ROW
#undef LINEAR_FLOAT
    .quantize = row_portable_quantize,
    .rms_norm = row_portable_rms_norm,
    .layer_norm = row_portable_layer_norm,
    .gate = row_portable_gate,
    .soft_cap = row_portable_soft_cap,
    .to_f16 = row_portable_to_f16,
    .attention = attention_portable,
};

const struct cpu_kernels *cpu_tiers_choose(enum cpu_tier tier)
{
    const bool has_dotprod = getauxval(AT_HWCAP) & HAS_SDOT;
    const bool has_i8mm = has_dotprod && (getauxval(AT_HWCAP2) & HAS_SMMLA);
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_I8MM) && has_i8mm)
        return &i8mm_kernels;
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_DOTPROD) && has_dotprod)
        return &dotprod_kernels;
    return NULL;
}
