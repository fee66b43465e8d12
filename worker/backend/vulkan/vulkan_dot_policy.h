/*
 * How a linear op of a handful of rows is computed by linear_dot on a device: sizes of its
 * workgroups and of what each of their subgroups does. Pure functions of the device's facts and the
 * op's shape; the README has the measurements behind the numbers.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_VULKAN_DOT_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_VULKAN_DOT_POLICY_H

#include "worker/backend/vulkan/vulkan_commands.h"
#include "worker/backend/vulkan/vulkan_push.h"
#include "worker/backend/vulkan/vulkan_weight_format.h"

#define VULKAN_DOT_ROWS 8u /* at most; more are for matrix kernels */

struct vulkan_dot_request {
    enum vulkan_weight_kind kind;
    uint32_t rows; /* 1..VULKAN_DOT_ROWS */
    uint32_t n;    /* rows of the matrix; gated: of the gate and the up */
    uint32_t k;
    enum vulkan_linear_input input; /* float kinds: not q8 */
    enum vulkan_linear_epilogue epilogue;
    uint32_t forms; /* of the output; q8 only when gated with n % 64 == 0 */
};

struct vulkan_dot_choice {
    const char *shader;
    struct vulkan_specialization constants;
    struct vulkan_grid grid;
};

/* Whether this op with input VULKAN_LINEAR_NORM is possible and better than an rms_norm of its own
 * before it; `input` is not looked at. Every workgroup norms all rows for itself. */
bool vulkan_dot_norms(const struct vulkan_facts *facts, const struct vulkan_dot_request *request);

/* must() a possible request: see above, and F32 input of a quantized kind needs the shared memory
 * that a norm does. */
void vulkan_dot_choose(const struct vulkan_facts *facts, const struct vulkan_dot_request *request,
                       struct vulkan_dot_choice *choice);

#endif
