/*
 * The program's repacked weights: adopted from the vault, packed into it, or packed into memory of
 * this process alone.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_CPU_WEIGHTS_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_CPU_WEIGHTS_H

#include "proto/worker_weights.h"
#include "worker/backend/cpu/weights/packed_weight.h"
#include "worker/backend/cpu/weights/weight_manifest.h"
#include "worker/backend/cpu/weights/weight_vault.h"
#include "worker/backend/host/backend_options.h"
#include "worker/backend/host/lazy_memory.h"
#include "worker/backend/host/thread_pool.h"

struct cpu_weights {
    const struct plan *plan;
    const struct cpu_weights *lender; /* NULL: none */
    struct packed_weight *packed;     /* [plan->weight_count]; group_bytes 0: not repacked */
    uint64_t packed_bytes;
    enum worker_weights origin;
    struct error_text reason; /* why a given vault is not used; "" if it is used */
    struct weight_manifest manifest;
    struct weight_mapping vault;
    struct lazy_memory memory; /* without a vault */
};

/* Describes the weights to repack; *weights is zeroed. `lender` is loaded, and has what it repacked of
 * the same tensors, or is NULL. */
void cpu_weights_init(struct cpu_weights *weights, const struct plan *plan,
                      const struct cpu_weights *lender);
/* Sets packed[].data. Falls back to private memory if the vault cannot be used:
 * RESULT_OUT_OF_MEMORY is the only failure. */
enum result cpu_weights_load(struct cpu_weights *weights, struct thread_pool *pool,
                             const struct backend_options *options, backend_progress_fn *progress,
                             void *context, struct error_text *error) RESULT_CHECKED;
void cpu_weights_fini(struct cpu_weights *weights);

#endif
