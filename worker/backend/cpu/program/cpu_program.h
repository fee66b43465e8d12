/*
 * A plan prepared for CPU threads: weights in kernel order, memory for every tensor and KV pool,
 * and notes on each op. Built once at load; steps only read it, except the tensors' contents.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_PROGRAM_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/program/op_order.h"
#include "worker/backend/cpu/weights/cpu_weights.h"
#include "worker/backend/host/backend_options.h"
#include "worker/backend/host/lazy_memory.h"
#include "worker/plan/kv_codec.h"

/* One activation tensor: f32 [max rows, columns], and the same rows quantized where a linear op
 * reads them. */
struct cpu_tensor {
    enum plan_rows rows;
    uint32_t columns;
    float *values;
    struct quantized_block *quantized; /* [max rows, columns / 32] or NULL */
};

/* One KV group's pool: blocks, each [layers][kv_heads][keys, values][head_dim * KV_BLOCK_TOKENS] of
 * one type, or [layers][kv_heads] of the codec's bytes. */
struct kv_pool {
    enum kv_cache_type type;
    struct kv_codec *codec; /* NULL if the group is not quantized */
    uint8_t *memory;
    size_t block_bytes;
    uint32_t blocks;
};

struct cpu_program {
    const struct plan *plan;
    const struct cpu_kernels *kernels;
    float outlier; /* of kernels->quantize() */
    uint32_t max_step_rows;
    uint32_t max_logit_rows;
    uint32_t max_patch_rows;            /* of a vision plan */
    struct op_note *notes;              /* [op_count] */
    struct cpu_tensor *tensors;         /* [tensor_count] */
    const struct packed_weight *packed; /* [weight_count], of `weights` */
    float **vectors; /* [weight_count]; f32 [rows, columns] of norm weights and biases, else NULL */
    float *ones;     /* [plan_ones()]: the weight of norms that have none */
    /* [max_step_rows][dims]: cosines [dims / 2], then sines; both again of second elements if divided */
    float *rope_tables[MODEL_ROPES_MAX];
    struct kv_pool kv[KV_GROUPS_MAX];
    uint32_t state_slots;     /* of recurrent state: cpu_state.h */
    uint32_t deferred_places; /* likewise */
    struct cpu_weights weights;
    struct lazy_memory tensor_memory;
    struct lazy_memory kv_memory[KV_GROUPS_MAX];
    struct lazy_memory state_memory;
    struct lazy_memory deferred_memory;
    struct lazy_memory feature_memory; /* for cpu_feature_pool_place(), if the pools are kept */
    enum kept_pools_origin pools_origin;
    struct error_text pools_reason; /* why given pools are not used, else "" */
};

/* lender: as in cpu_weights_init(). Fills *program, which is zeroed, except the weights' contents (cpu_weights_load()). The caller
 * calls cpu_program_fini() also after a failure. */
enum result cpu_program_init(struct cpu_program *program, const struct plan *plan,
                             const struct backend_options *options,
                             const struct cpu_kernels *kernels, const struct cpu_weights *lender,
                             struct error_text *error) RESULT_CHECKED;
void cpu_program_fini(struct cpu_program *program);

/* Columns of a row of a rotary embedding's table: rope_tables. */
uint32_t cpu_rope_table_columns(const struct rope_config *rope);

#endif
