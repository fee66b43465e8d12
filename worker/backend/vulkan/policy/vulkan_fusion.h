/*
 * Which ops of a plan one dispatch can compute together, and which op produces each linear op's
 * input. Read from the plan once, without a device.
 *
 *   norm     rms_norm, linear         the linear op may norm its input itself
 *   gate     linear, gate             the linear op may gate its output itself, unless by a sigmoid alone, also after a bias_add
 *   gate     moe_linear, moe_gate     likewise
 *   route    moe_route, moe_linear    the moe_linear may choose the experts itself
 *   combine  moe_linear, moe_combine  the moe_linear may sum each row's experts itself
 *   bias     linear, bias_add         the biases may be laid down first, and the linear op adds; or the
 *            linear_add, bias_add     product reads them
 *   heads    head_norm, rope, kv_write over one tensor: one dispatch (always)
 *
 * A pair is noted only if no other op reads the tensor between the two.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_FUSION_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_FUSION_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/plan/plan.h"

#define VULKAN_NO_OP UINT32_MAX

struct vulkan_fusion_note {
    uint32_t norm;     /* linear: the rms_norm before it, or VULKAN_NO_OP */
    uint32_t gate;     /* linear, moe_linear: the gate after it, or VULKAN_NO_OP */
    uint32_t route;    /* moe_linear: the moe_route right before it, or VULKAN_NO_OP */
    uint32_t combine;  /* moe_linear: the moe_combine after it, or VULKAN_NO_OP */
    uint32_t bias;     /* linear, linear_add: the bias_add after it, or VULKAN_NO_OP */
    uint32_t partner;  /* rms_norm, gate, bias_add and moe_route, moe_gate, moe_combine: the linear
                        * op that may compute it, or VULKAN_NO_OP */
    uint32_t heads;    /* first op of a run of head_norm, rope and kv_write: ops in it; others 0 */
    bool in_heads;     /* in such a run, the first op too */
    uint32_t producer; /* linear, linear_add, moe_linear: the op that wrote its x, or
                        * VULKAN_NO_OP */
    bool reads_alone;  /* linear: its x has a producer, and no other op that takes forms reads it */
    bool read_as_f32;  /* some op other than a linear one reads the output */
};

/* notes: [plan->op_count] */
void vulkan_fusion_annotate(const struct plan *plan, struct vulkan_fusion_note *notes);
/* Takes every linear op apart from its norm and gate, and has its x written as f32 too, so that
 * something can be added to its output. */
void vulkan_fusion_part(const struct plan *plan, struct vulkan_fusion_note *notes);

#endif
