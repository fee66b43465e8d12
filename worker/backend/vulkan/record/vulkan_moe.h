/*
 * Mixtures of experts on the device: the dispatches of moe_route, moe_linear, moe_gate and
 * moe_combine.
 *
 * Where a kernel wants a step's pairs of row and expert sorted by expert, that is done once for
 * each route, before its first moe_linear, into memory of the program (shaders/moe_groups.glsl says
 * how it lies there).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_MOE_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_MOE_H

#include "worker/backend/vulkan/policy/vulkan_moe_policy.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* The most tiles of tile_rows pairs that so many pairs can need. */
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
/* Of the forms that the moe_gate op `gate` is wanted in, those that its kernel writes; none of
 * them: f32. */
uint32_t vulkan_moe_gate_forms(const struct vulkan_program *program, uint32_t gate, uint32_t rows,
                               uint32_t wanted);

/* For the pairs of the largest step; 0 without experts. */
uint64_t vulkan_moe_memory_bytes(const struct vulkan_program *program);

/* Each records the recorder's present op. */
void vulkan_moe_record_route(struct vulkan_recorder *recorder);
void vulkan_moe_record_linear(struct vulkan_recorder *recorder);
void vulkan_moe_record_gate(struct vulkan_recorder *recorder);
void vulkan_moe_record_combine(struct vulkan_recorder *recorder);

#endif
