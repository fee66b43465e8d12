/*
 * Columns of zeros behind a tower's rows.
 *
 * Matrix units take columns 32 at a time, and towers have widths that are no multiple of it (3,420
 * and 4,304 between two projections, 588 and 1,176 numbers of a patch). Such a tensor gets rows
 * that are as much wider, and so does every matrix that is multiplied with it; what is added is
 * zero in both, so no product changes.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_PADDING_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_PADDING_H

#include "worker/plan/plan.h"

#define VULKAN_FORM_COLUMNS 32u

/* Columns of the tensor's rows as they lie on the device: the plan's, or the next multiple of
 * VULKAN_FORM_COLUMNS where it is one of a vision plan that linear ops multiply, and every op that
 * makes it for them zeroes the columns behind the plan's (patch_rows, gate, activate). */
uint32_t vulkan_padding_columns(const struct plan *plan, plan_tensor_id tensor);

#endif
