/*
 * What the order of a plan's ops requires of each op: where threads synchronize, and which op
 * quantizes activations.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_OP_ORDER_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_OP_ORDER_H

#include <stdbool.h>

#include "worker/plan/plan.h"

/* What the op's neighbours require of it. */
struct op_note {
    bool barrier_before;  /* reads what other threads wrote, or overwrites what they read */
    bool quantize_input;  /* the op that writes the input cannot quantize it */
    bool quantize_output; /* a linear op with quantized weights reads the output */
};

/* notes [plan->op_count], zeroed. */
void op_order_annotate(const struct plan *plan, struct op_note *notes);

#endif
