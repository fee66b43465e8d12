/*
 * What adapters add to the products of a step: out[r,:] += scale * (x[r,:] . A^T) . B^T for the rows
 * of each adapter (worker/plan/lora_adapter.h), in two parts with a barrier in between.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OPS_CPU_ADAPTER_PART_H
#define SHOAL_WORKER_BACKEND_CPU_OPS_CPU_ADAPTER_PART_H

#include "worker/backend/cpu/program/cpu_step.h"

/* scale * x . A^T of product `index`: may run beside it. */
void cpu_adapter_reduce(const struct cpu_step *step, uint32_t index, uint32_t thread);
/* Adds the product of that with B to the output: after all of the product and of the first part. */
void cpu_adapter_expand(const struct cpu_step *step, uint32_t index, uint32_t thread);

#endif
