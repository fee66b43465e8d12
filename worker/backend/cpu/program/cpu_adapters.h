/*
 * The adapters that are loaded, and which rows of the running step use them.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_ADAPTERS_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_ADAPTERS_H

#include "worker/backend/cpu/weights/cpu_adapter.h"
#include "worker/backend/host/adapter_rows.h"

#define ADAPTER_TILE_ROWS 16u

struct cpu_adapters {
    const struct plan *plan;
    uint32_t max_rows;
    uint32_t threads;
    struct cpu_adapter *slots[LIMIT_ADAPTERS]; /* NULL: empty */
    uint32_t rank_stride; /* of all loaded adapters: whole groups of packed weights */
    float *low; /* [max_rows][OP_WEIGHTS_MAX][rank_stride] products with A, by place in the order */
    float **gathered;           /* [threads] ADAPTER_TILE_ROWS rows of the widest input */
    struct adapter_rows step;   /* of the running step, as the next one */
    struct adapter_rows logits; /* of its logit rows */
};

/* Nothing is allocated before the first adapter is loaded. */
void cpu_adapters_init(struct cpu_adapters *adapters, const struct plan *plan, uint32_t max_rows,
                       uint32_t threads);
void cpu_adapters_fini(struct cpu_adapters *adapters);

/* Between steps. The slot is empty. RESULT_OUT_OF_MEMORY is the only failure. */
enum result cpu_adapters_load(struct cpu_adapters *adapters, uint32_t slot,
                              const struct lora_adapter *source,
                              struct error_text *error) RESULT_CHECKED;
void cpu_adapters_drop(struct cpu_adapters *adapters, uint32_t slot);

/* Sorts the batch's rows by adapter. must() a batch that names only loaded ones. */
void cpu_adapters_begin(struct cpu_adapters *adapters, const struct step_batch *batch);
/* The rows of op `index`, whose output has step rows or logit rows. */
const struct adapter_rows *cpu_adapters_rows(const struct cpu_adapters *adapters, uint32_t index);
/* Whether one of these has an adapter that changes a weight of the op. */
bool cpu_adapters_change(const struct cpu_adapters *adapters, uint32_t index);

/* Products with A of one row of a tile, for the op's weight `slot`: [rank_stride]. */
float *cpu_adapters_low(const struct cpu_adapters *adapters, uint32_t place, uint32_t slot);

#endif
