/*
 * An adapter in kernel order: both matrices of each pair packed like weights of products.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_CPU_ADAPTER_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_CPU_ADAPTER_H

#include "worker/backend/cpu/weights/packed_weight.h"
#include "worker/backend/host/lazy_memory.h"
#include "worker/plan/lora_adapter.h"

struct cpu_adapter_pair {
    struct packed_weight a; /* of floats, as b */
    struct packed_weight b;
    float scale;
};

struct cpu_adapter {
    uint32_t rank; /* of the widest pair */
    struct cpu_adapter_pair *pairs;
    uint16_t *pair_of; /* [plan->weight_count] index into pairs, or PLAN_NONE */
    struct lazy_memory memory;
};

/* Copies the adapter's matrices. RESULT_OUT_OF_MEMORY is the only failure. */
enum result cpu_adapter_create(const struct plan *plan, const struct lora_adapter *source,
                               struct cpu_adapter **adapter,
                               struct error_text *error) RESULT_CHECKED;
void cpu_adapter_destroy(struct cpu_adapter *adapter); /* NULL is allowed */

/* NULL: the adapter leaves the weight as it is. */
const struct cpu_adapter_pair *cpu_adapter_find(const struct cpu_adapter *adapter,
                                                plan_weight_id weight);

#endif
