/*
 * Mixtures of experts on the device: the dispatches of moe_route, moe_linear, moe_gate and
 * moe_combine.
 *
 * A step's pairs of row and expert are sorted by expert once for each route, before its first
 * moe_linear, into memory of the program (shaders/moe_groups.glsl says how it lies there).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_VULKAN_MOE_H
#define SHOAL_WORKER_BACKEND_VULKAN_VULKAN_MOE_H

#include "worker/backend/vulkan/vulkan_recorder.h"

/* Pairs of a tile at most, for steps of so many rows; a power of two. */
uint32_t vulkan_moe_tile_rows(uint32_t rows);
/* The most tiles that the pairs of `rows` rows can need. */
uint32_t vulkan_moe_tile_bound(uint32_t rows, uint32_t chosen, uint32_t experts);

/* For the pairs of the largest step; 0 without experts. */
uint64_t vulkan_moe_memory_bytes(const struct vulkan_program *program);

/* Each records the recorder's present op. */
void vulkan_moe_record_route(struct vulkan_recorder *recorder);
void vulkan_moe_record_linear(struct vulkan_recorder *recorder);
void vulkan_moe_record_gate(struct vulkan_recorder *recorder);
void vulkan_moe_record_combine(struct vulkan_recorder *recorder);

#endif
