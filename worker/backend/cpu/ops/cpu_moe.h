/*
 * Shared by the ops of a mixture of experts: grouping rows by expert.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OPS_CPU_MOE_H
#define SHOAL_WORKER_BACKEND_CPU_OPS_CPU_MOE_H

#include "worker/backend/cpu/program/cpu_step.h"

/* A run of pairs of one expert. */
struct moe_tile {
    uint32_t expert;
    uint32_t first; /* index into pairs */
    uint32_t count;
};

/*
 * A thread's copy of a step's route: pairs (row * chosen + j) sorted by expert, divided into tiles.
 * Every thread computes the same copy, which costs less than a barrier.
 */
struct cpu_moe_scratch {
    uint32_t *first_pair;   /* [LIMIT_EXPERTS + 1] */
    uint32_t *pairs;        /* [pairs_max] */
    struct moe_tile *tiles; /* [pairs_max] */
    uint32_t tile_count;
    uint8_t *gathered; /* MOE_TILE_ROWS consecutive rows of activations */
};
#define MOE_TILE_ROWS 64u

/* NULL when the plan has no moe_linear op; *enough is false when out of memory. */
struct cpu_moe_scratch *cpu_moe_scratch_create(const struct cpu_program *program, bool *enough);
void cpu_moe_scratch_destroy(struct cpu_moe_scratch *scratch);

/* Sorts the route of `rows` rows among `experts` experts. */
void cpu_moe_group(const struct cpu_step *step, plan_tensor_id route, uint32_t rows,
                   uint32_t experts, struct cpu_moe_scratch *scratch);

#endif
