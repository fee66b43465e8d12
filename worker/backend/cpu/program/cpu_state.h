/*
 * Recurrent state on the CPU: one region of slots, each with the states of all recurrent
 * layers (worker/plan/state_layout.h), and one of deferred rows.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STATE_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_STATE_H

#include "worker/backend/cpu/program/cpu_program.h"
#include "worker/backend/host/step_batch.h"

/* A layer's part of a slot: [taps - 1, channels] inputs of its convolution, oldest first. */
float *cpu_state_conv(const struct cpu_program *program, uint32_t layer, uint32_t slot);
/* And [value heads, key dim, value dim] of its delta net, or [heads, state, head dim] of its state space
 * mixer. */
float *cpu_state_delta(const struct cpu_program *program, uint32_t layer, uint32_t slot);

/* What a deferred row keeps for a layer (struct step_sequence): its convolution's input [channels];
 * and the inputs of its delta net. */
float *cpu_state_conv_row(const struct cpu_program *program, uint32_t layer, uint32_t place);
float *cpu_state_delta_row(const struct cpu_program *program, uint32_t layer, uint32_t place);

/* How many rows advance the sequence's slot before it is copied to state_copy; 0: it is not. */
uint32_t cpu_state_copied_after(const struct step_sequence *sequence);

/* Slot `to` becomes what slot `from` is, in all layers. */
void cpu_state_copy(const struct cpu_program *program, uint32_t from, uint32_t to);

#endif
