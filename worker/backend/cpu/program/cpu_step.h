/*
 * One step on the team of threads: the plan is walked in phases, of whose ops each member does its
 * share. A vision plan is walked likewise, over the patches of a batch of pictures and a part at a
 * time: some of the ops, over some of the rows.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STEP_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STEP_H

#include <stdatomic.h>
#include <stdint.h>

#include "worker/backend/cpu/program/cpu_feature_pool.h"
#include "worker/backend/cpu/program/cpu_program.h"
#include "worker/backend/host/cpu_patches.h"

/* Patch rows [first, end) of a batch of pictures, whole squares, and the features that they become.
 */
struct patch_part {
    uint32_t first;
    uint32_t end;
    bool keys_only; /* patch_attention, the one op that is walked, does its first half */
};

/* Ops [first_op, end_op), which need nothing of each other but what a thread has made itself. */
struct step_phase {
    uint32_t first_op;
    uint32_t end_op;
    bool quantizes; /* behind them, the input of op end_op */
};

struct cpu_step {
    const struct cpu_program *program;
    struct cpu_thread_pool *pool;
    uint32_t threads;
    const struct step_batch *batch;          /* NULL, or `known` */
    struct step_batch known;                 /* the caller's, with every token id known */
    const struct cpu_patches *patches;       /* of a vision plan; else NULL */
    const struct cpu_feature_pool *features; /* the pool; NULL: no row has a feature */
    struct step_phase *phases;               /* of the walk: at most [2 * op_count + 1] */
    uint32_t phase_count;                    /* the samplers come behind the last */
    struct patch_part part;   /* of a vision plan: the rows, and whether only keys are written */
    uint32_t *token_ids;      /* [max_step_rows] */
    uint32_t *row_sequence;   /* [max_step_rows] index into batch->sequences */
    _Atomic uint32_t *claims; /* [op_count + 1]; the last is the sampler's */
    float **scratch;          /* [threads]; of one lane, for attention */
    struct cpu_moe_scratch **moe_scratch; /* [threads]; NULL without experts */
    struct row_sampler **samplers;        /* [threads] */
    struct sampled_token *results;
    _Atomic uint64_t *heartbeat; /* or NULL: grows with the pieces that are claimed */
};

uint32_t cpu_step_rows(const struct cpu_step *step, enum plan_rows rows);
/* The first of them; 0 but in parts of a vision plan. */
uint32_t cpu_step_first_row(const struct cpu_step *step, enum plan_rows rows);

/* Rows [begin, end) that belong to `thread`, as ops call a lane of cpu_thread_pool_walk(), in every
 * op shared by rows. */
struct row_share {
    uint32_t begin;
    uint32_t end;
};
struct row_share cpu_step_share(const struct cpu_step *step, enum plan_rows rows, uint32_t thread);

/* The first of `count` pieces of op `index` that are now the caller's; any number past the end
 * means none are left. */
uint32_t cpu_step_claim(const struct cpu_step *step, uint32_t index, uint32_t count);

/* The position of a step row in its sequence. */
uint32_t cpu_step_position(const struct cpu_step *step, uint32_t row);

/* Where a row stands for its rotation: a step row, or a patch. */
struct rope_position cpu_step_rope_position(const struct cpu_step *step, uint32_t row);

/* Row pointers of a tensor: f32 [columns], and quantized [columns / 32]. */
float *cpu_step_row(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row);
struct quantized_block *cpu_step_quantized_row(const struct cpu_step *step, plan_tensor_id tensor,
                                               uint32_t row);

/* Quantizes columns [first, first + count) of a row, whole blocks of 32. */
void cpu_step_quantize(const struct cpu_step *step, plan_tensor_id tensor, uint32_t row,
                       uint32_t first, uint32_t count);

#endif
