/*
 * Instruction sets of the CPU backend. Of x86-64: AVX2, AVX-512 with VNNI, that with AMX; of AArch64: NEON,
 * dotprod, i8mm.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_CPU_TIER_H
#define SHOAL_WORKER_BACKEND_HOST_CPU_TIER_H

enum cpu_tier {
    CPU_TIER_BEST, /* that the CPU has */
    CPU_TIER_PORTABLE,
    CPU_TIER_AVX2,
    CPU_TIER_AVX512,
    CPU_TIER_AMX,
    CPU_TIER_NEON,
    CPU_TIER_DOTPROD,
    CPU_TIER_I8MM
};

/* "avx2", as flags and logs say it. */
const char *cpu_tier_name(enum cpu_tier tier);
/* 0, or -1 for other words. */
int cpu_tier_parse(const char *text, enum cpu_tier *tier);

#endif
