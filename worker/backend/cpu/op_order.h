/*
 * What the order of a plan's ops demands of each: where threads must meet, and who quantizes
 * activations.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OP_ORDER_H
#define SHOAL_WORKER_BACKEND_CPU_OP_ORDER_H

#include "worker/backend/cpu/cpu_program.h"

/* notes [plan->op_count], zeroed. */
void op_order_annotate(const struct plan *plan, struct op_note *notes);

#endif
