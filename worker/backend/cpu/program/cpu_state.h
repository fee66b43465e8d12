/*
 * Recurrent state on the CPU: one region of slots, each with the states of all recurrent
 * layers (worker/plan/state_layout.h).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STATE_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STATE_H

#include "worker/backend/cpu/program/cpu_program.h"

/* A layer's part of a slot: [taps - 1, channels] inputs of its convolution, oldest first. */
float *cpu_state_conv(const struct cpu_program *program, uint32_t layer, uint32_t slot);
/* And [value heads, key dim, value dim] of its delta net. */
float *cpu_state_delta(const struct cpu_program *program, uint32_t layer, uint32_t slot);

/* Slot `to` becomes what slot `from` is, in all layers. */
void cpu_state_copy(const struct cpu_program *program, uint32_t from, uint32_t to);

#endif
