/*
 * Mixtures of experts: how a moe_linear is computed for a number of rows, and the memory that a
 * step's pairs of row and expert need when they are sorted by expert (shaders/moe_groups.glsl says
 * how they lie there).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_MOE_WAY_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_MOE_WAY_H

#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

/* Maximum number of tiles of tile_rows pairs that so many pairs can need. */
uint32_t vulkan_moe_tile_bound(uint32_t pairs, uint32_t experts, uint32_t tile_rows);

/* How a moe_linear is computed for some number of rows. */
struct vulkan_moe_way {
    enum vulkan_form input;   /* the form it reads */
    enum vulkan_form outputs; /* besides f32, the form that a gate's output may have */
    bool route;               /* chooses the experts itself */
    bool gate;                /* gates its output itself */
    bool combine;             /* sums each row's pairs itself */
};
struct vulkan_moe_way vulkan_moe_way(const struct vulkan_program *program, uint32_t index,
                                     uint32_t rows);
/* The requested forms that the kernel of the moe_gate op `gate` writes; f32 if there is none. */
uint32_t vulkan_moe_gate_forms(const struct vulkan_program *program, uint32_t gate, uint32_t rows,
                               uint32_t wanted);

/* Bytes for the pairs of the largest step; 0 without experts. */
uint64_t vulkan_moe_memory_bytes(const struct vulkan_program *program);

/* Pairs begin so many bytes after the memory's start: after the tiles, of which there are no more
 * than pairs. */
uint64_t vulkan_moe_pairs_offset(uint32_t pairs);
/* After the pairs: x as moe_gather lays it out. */
uint64_t vulkan_moe_gathered_offset(uint32_t pairs);
/* Experts that a row of the route tensor names. */
uint32_t vulkan_moe_chosen(const struct vulkan_program *program, plan_tensor_id route);

/* The moe_linear op `index`: its number of stacks of experts, one of the stacks, and the request
 * that chooses its kernel. */
uint32_t vulkan_moe_stack_count(const struct plan_op *op);
const struct vulkan_matrix *vulkan_moe_stack(const struct vulkan_program *program, uint32_t index,
                                             uint32_t slot);
struct vulkan_moe_request vulkan_moe_request_of(const struct vulkan_program *program,
                                                uint32_t index, uint32_t rows, uint32_t slot);

#endif
