/*
 * Columns of zeros after a tower's rows.
 *
 * Matrix units take 32 columns at a time and kernels in PTX 128, and the widths of towers are not multiples
 * of that (3,420 and 4,304 between two projections, 588 and 1,176 numbers of a patch). The rows of such a tensor
 * and of every matrix that is multiplied with it get padding columns; they are zero in both, so no
 * product changes.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_PADDING_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_PADDING_H

#include "worker/plan/plan.h"

#define VULKAN_FORM_COLUMNS   32u  /* that a tensor with forms has a multiple of */
#define VULKAN_PADDED_COLUMNS 128u /* that a padded one has */

/* Columns of the tensor's rows on the device. This is the next multiple of VULKAN_PADDED_COLUMNS if
 * the tensor belongs to a vision plan, linear ops multiply it, and every op that makes it for them
 * zeroes the columns after the plan's (patch_rows, gate, activate); else the plan's columns. */
uint32_t vulkan_padding_columns(const struct plan *plan, plan_tensor_id tensor);

#endif
