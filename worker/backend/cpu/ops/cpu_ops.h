/*
 * One function per op stem: cpu_rms_norm() and so on. Every thread calls it for op `index` of the
 * plan, and it computes that thread's share; op_list.h has the formulas.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OPS_CPU_OPS_H
#define SHOAL_WORKER_BACKEND_CPU_OPS_CPU_OPS_H

#include "worker/backend/cpu/program/cpu_step.h"

#define CPU_OP_PROTOTYPE(stem, ...)                                                                \
    void cpu_##stem(const struct cpu_step *step, uint32_t index, uint32_t thread);
EVERY_OP_LIST(CPU_OP_PROTOTYPE)
#undef CPU_OP_PROTOTYPE

/* Floats of scratch that a thread needs for this op, with the attention kernel's. */
size_t cpu_tile_attention_floats(const struct plan *plan, const struct plan_op *op);

/* Computes cosines and sines of the thread's rows for every rotary embedding of the model. Called
 * before the first op. */
void cpu_rope_fill_tables(const struct cpu_step *step, uint32_t thread);

#endif
