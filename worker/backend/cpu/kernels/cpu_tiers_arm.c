/*
 * The tiers of AArch64 as tables, and the choice of one by the kernel's HWCAP bits.
 */
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/kernels/cpu_tiers.h"

#include <stddef.h>

const struct cpu_kernels *cpu_tiers_choose(enum cpu_tier tier)
{
    (void)tier;
    return NULL;
}
