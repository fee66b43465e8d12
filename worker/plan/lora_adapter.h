/*
 * A LoRA adapter bound to a plan: pairs of matrices A [rank, columns] and B [rows, rank] of weights
 * [rows, columns]. A row of a request with this adapter gets, after each product with such a weight,
 *
 *   out[r,:] += scale * (x[r,:] . A^T) . B^T
 *
 * The products stay ops of the plan; the pairs are not in it. worker/model/lora/ makes adapters.
 */
#ifndef SHOAL_WORKER_PLAN_LORA_ADAPTER_H
#define SHOAL_WORKER_PLAN_LORA_ADAPTER_H

#include <stdint.h>

#include "proto/gguf_file.h"
#include "worker/plan/plan.h"

/* Rows of F32, F16, BF16 or Q8_0, of any alignment. */
struct lora_matrix {
    enum ggml_type type;
    uint32_t rows;
    uint32_t columns;
    const uint8_t *data;
};

struct lora_pair {
    plan_weight_id weight;
    float scale;
    struct lora_matrix a; /* rank rows, 1..LIMIT_ADAPTER_RANK */
    struct lora_matrix b; /* rank columns */
};

struct lora_adapter {
    uint32_t rank; /* of the widest pair */
    uint32_t pair_count;
    struct lora_pair *pairs; /* at most one of a weight */
};

#endif
