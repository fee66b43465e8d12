/*
 * Names of the CPU's tiers, for logs and for a flag. Unknown names are an error.
 */
#include "worker/backend/host/cpu_tier.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
    [CPU_TIER_BEST] = "best",       [CPU_TIER_PORTABLE] = "portable", [CPU_TIER_AVX2] = "avx2",
    [CPU_TIER_AVX512] = "avx512",   [CPU_TIER_AMX] = "amx",           [CPU_TIER_NEON] = "neon",
    [CPU_TIER_DOTPROD] = "dotprod", [CPU_TIER_I8MM] = "i8mm",
};

const char *cpu_tier_name(enum cpu_tier tier)
{
    return names[tier];
}

int cpu_tier_parse(const char *text, enum cpu_tier *tier)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], text) == 0) {
            *tier = (enum cpu_tier)i;
            return 0;
        }
    }
    return -1;
}
