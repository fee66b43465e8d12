/*
 * The feature pool: what pictures became, a row for each placeholder token. Who has which rows is
 * the scheduler's to know.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_FEATURES_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_FEATURES_H

#include <stdint.h>

#include "worker/backend/host/cpu_memory.h"

struct cpu_features {
    uint32_t rows;
    uint32_t columns; /* model_vision_feature_columns() */
    struct cpu_memory memory;
};

enum result cpu_features_init(struct cpu_features *features, uint32_t rows, uint32_t columns,
                              struct error_text *error) RESULT_CHECKED;
void cpu_features_fini(struct cpu_features *features);

/* f32 [columns] */
float *cpu_features_row(const struct cpu_features *features, uint32_t row);

#endif
