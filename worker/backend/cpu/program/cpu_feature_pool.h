/*
 * The feature pool: the features of encoded images, one row per placeholder token. The scheduler
 * assigns the rows.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_FEATURE_POOL_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_FEATURE_POOL_H

#include <stdint.h>

#include "worker/backend/host/lazy_memory.h"

struct cpu_feature_pool {
    uint32_t rows;
    uint32_t columns; /* model_vision_feature_columns() */
    struct lazy_memory memory;
};

enum result cpu_feature_pool_init(struct cpu_feature_pool *features, uint32_t rows,
                                  uint32_t columns, struct error_text *error) RESULT_CHECKED;
/* Uses `memory` of sufficient size instead, which is the pool's from then on. Before any row is
 * written. */
void cpu_feature_pool_place(struct cpu_feature_pool *features, struct lazy_memory *memory);
void cpu_feature_pool_fini(struct cpu_feature_pool *features);

/* f32 [columns] */
float *cpu_feature_pool_row(const struct cpu_feature_pool *features, uint32_t row);

#endif
