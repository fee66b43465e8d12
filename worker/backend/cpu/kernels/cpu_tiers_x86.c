/*
 * The tiers of x86-64 as tables, and the choice of one by CPUID.
 *
 * Linux hands the registers of AMX (8 KiB a thread) only to processes that ask for them, with all their threads: source
 * Documentation/arch/x86/xstate.rst. That must happen before the worker's system calls are filtered.
 */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/backend/cpu/kernels/attention_simd.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/kernels/cpu_tiers.h"
#include "worker/backend/cpu/kernels/linear_amx.h"
#include "worker/backend/cpu/kernels/linear_avx2.h"
#include "worker/backend/cpu/kernels/linear_avx512.h"
#include "worker/backend/cpu/kernels/row_simd.h"

#define OTHER_KERNELS                                                                              \
    .quantize = row_simd_quantize, .rms_norm = row_simd_rms_norm,                                  \
    .layer_norm = row_simd_layer_norm, .gate = row_simd_gate, .soft_cap = row_simd_soft_cap,       \
    .to_f16 = row_simd_to_f16, .attention = attention_simd

static const struct cpu_kernels avx2_kernels = {
    .tier = CPU_TIER_AVX2,
    .name = "avx2",
#define LINEAR_ROW(index, type, ...) [PACKED_##type] = linear_avx2_##type,
    .linear = {GGML_QUANT_LIST(LINEAR_ROW) GGML_FLOAT_LIST(LINEAR_ROW)},
#undef LINEAR_ROW
    OTHER_KERNELS,
};

/* Only products are much faster with 512 bits; the other kernels are those of the AVX2 tier. */
static const struct cpu_kernels avx512_kernels = {
    .tier = CPU_TIER_AVX512,
    .name = "avx512",
#define LINEAR_ROW(index, type, ...) [PACKED_##type] = linear_avx512_##type,
    .linear = {GGML_QUANT_LIST(LINEAR_ROW) GGML_FLOAT_LIST(LINEAR_ROW)},
#undef LINEAR_ROW
    OTHER_KERNELS,
};

/* Floats and few rows are those of the AVX-512 tier, whose bits these products have. */
static const struct cpu_kernels amx_kernels = {
    .tier = CPU_TIER_AMX,
    .name = "amx",
    .arranges = true,
#define LINEAR_ROW(index, type, ...) [PACKED_##type] = linear_amx_##type,
#define FLOAT_ROW(index, type, ...)  [PACKED_##type] = linear_avx512_##type,
    .linear = {GGML_QUANT_LIST(LINEAR_ROW) GGML_FLOAT_LIST(FLOAT_ROW)},
#undef LINEAR_ROW
#undef FLOAT_ROW
    OTHER_KERNELS,
};

#define AMX_TILE             (1u << 24) /* CPUID leaf 7, EDX */
#define AMX_INT8             (1u << 25)
#define ARCH_REQ_XCOMP_PERM_ 0x1023 /* asm/prctl.h since Linux 5.16 */
#define XTILE_DATA           18     /* the state component */

/* CPUID leaf 1, ECX: some compilers' __builtin_cpu_supports() does not know f16c. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx = 0, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Asks the kernel for the registers if the CPU has AMX; asking again is allowed. */
static bool has_amx(void)
{
    unsigned eax, ebx, ecx, edx = 0;
    return has_avx512() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & AMX_TILE) &&
           (edx & AMX_INT8) && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_, XTILE_DATA) == 0;
}

const struct cpu_kernels *cpu_tiers_choose(enum cpu_tier tier)
{
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_AMX) && has_amx())
        return &amx_kernels;
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_AVX512) && has_avx512())
        return &avx512_kernels;
    if ((tier == CPU_TIER_BEST || tier == CPU_TIER_AVX2) && has_avx2())
        return &avx2_kernels;
    return NULL;
}
