/*
 * The running step as ops see it: the batch, the rows, and each thread's share of the work.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STEP_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STEP_H

#include <stdatomic.h>
#include <stdint.h>

#include "worker/backend/cpu/program/cpu_adapters.h"
#include "worker/backend/cpu/program/cpu_feature_pool.h"
#include "worker/backend/cpu/program/cpu_program.h"
#include "worker/backend/host/image_patches.h"
#include "worker/backend/host/step_batch.h"

/* Patch rows [first, end) of a batch of images, in whole squares, and their features. */
struct patch_part {
    uint32_t first;
    uint32_t end;
    bool keys_only; /* only the keys and values of the patch_attention op, which is the only op */
};

/* Ops [first_op, end_op): each reads only values that the same thread computed in the phase. */
struct step_phase {
    uint32_t first_op;
    uint32_t end_op;
    bool expands;   /* first adds what adapters add to the product first_op - 1; has no ops */
    bool reduces;   /* then computes the first part of that for its last op */
    bool quantizes; /* then quantizes the input of op end_op */
};

struct cpu_step {
    const struct cpu_program *program;
    struct thread_pool *pool;
    uint32_t threads;
    const struct step_batch *batch;          /* NULL, or `known` */
    struct step_batch known;                 /* the caller's, with sampled tokens resolved */
    const struct image_patches *patches;     /* of a vision plan, otherwise NULL */
    const struct cpu_feature_pool *features; /* the pool; NULL: no row has a feature */
    struct cpu_adapters *adapters;           /* NULL: no row has one, as in a vision plan */
    struct step_phase *phases;               /* of the walk, at most [4 * op_count + 1] */
    uint32_t phase_count;                    /* sampling comes after the last */
    struct patch_part part;                  /* of a vision plan */
    uint32_t *token_ids;                     /* [max_step_rows] */
    uint32_t *row_sequence;                  /* [max_step_rows] index into batch->sequences */
    _Atomic uint32_t *claims;                /* [3 * op_count + 1]: of ops, of the sampler, and two
                                                for the adapters' part of each op */
    float *
        *scratch; /* [threads], for attention and the deferred rows of gated_delta; whole vectors */
    struct linear_scratch *linear_scratch; /* [threads] */
    struct cpu_moe_scratch **moe_scratch;  /* [threads]; NULL without experts */
    struct row_sampler **samplers;         /* [threads] */
    struct sampled_token *results;
    _Atomic uint64_t *heartbeat; /* or NULL: incremented as pieces are claimed */
};

uint32_t cpu_step_rows(const struct cpu_step *step, enum plan_rows rows);
/* The first of them: 0 except in parts of a vision plan. */
uint32_t cpu_step_first_row(const struct cpu_step *step, enum plan_rows rows);

/* Rows [begin, end) that belong to `thread`, as ops call a lane of thread_pool_walk(), in every
 * op shared by rows. */
struct row_share {
    uint32_t begin;
    uint32_t end;
};
struct row_share cpu_step_share(const struct cpu_step *step, enum plan_rows rows, uint32_t thread);

/* Claims `count` pieces of op `index` for the caller; returns the first. A number beyond the last
 * piece means that none are left. */
uint32_t cpu_step_claim(const struct cpu_step *step, uint32_t index, uint32_t count);

/* The first of two counters for pieces of the adapters' part of op `index`. */
uint32_t cpu_step_adapter_claims(const struct cpu_step *step, uint32_t index);

/* The position of a step row in its sequence. */
uint32_t cpu_step_position(const struct cpu_step *step, uint32_t row);

/* The position by which rope rotates a row: of a step's row, or of a patch. */
struct rope_position cpu_step_rope_position(const struct cpu_step *step, uint32_t row);

/* Row pointers of a tensor: f32 [columns], and quantized [columns / 32]. */
float *cpu_step_row(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row);
struct quantized_block *cpu_step_quantized_row(const struct cpu_step *step, plan_tensor_id tensor,
                                               uint32_t row);

/* The thread's memory for products, for new activations. */
struct linear_scratch *cpu_step_linear_scratch(const struct cpu_step *step, uint32_t thread);

/* Quantizes columns [first, first + count) of a row, whole blocks of 32. */
void cpu_step_quantize(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row,
                       uint32_t first, uint32_t count);

#endif
