/*
 * The tiers above the portable one, of the architecture that the worker is built for: cpu_tiers_x86.c
 * or cpu_tiers_arm.c. Other architectures have none.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_CPU_TIERS_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_CPU_TIERS_H

#include "worker/backend/host/backend_options.h"

struct cpu_kernels;

/* The best of them that this CPU runs, or the one asked for; NULL if there is none such. */
const struct cpu_kernels *cpu_tiers_choose(enum cpu_tier tier);

#endif
