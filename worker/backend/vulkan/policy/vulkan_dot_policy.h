/*
 * Kernel and tiling of a linear op of few rows: linear_dot, with packed dots and q8 activations, or
 * linear_register, in matrix units with f16 activations. Pure functions of the device's facts and
 * the op's shape; the README has the measurements.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_DOT_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_DOT_POLICY_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#define VULKAN_DOT_ROWS      8u  /* of linear_dot, at most */
#define VULKAN_HALF_DOT_ROWS 2u  /* and where a device has matrix units for floats of 16 bits */
#define VULKAN_REGISTER_ROWS 32u /* of linear_register */

struct vulkan_dot_request {
    enum vulkan_weight_kind kind;
    uint32_t rows; /* > 0 */
    uint32_t n;    /* rows of the matrix; gated: of the gate and the up */
    uint32_t k;
    enum vulkan_linear_input input; /* vulkan_dot_input(), or NORM where vulkan_dot_norms() */
    enum vulkan_linear_epilogue epilogue;
    uint32_t forms; /* of the output; q8 only when gated with n % 64 == 0 and not of f16 input;
                       tiled only of f16 input */
    bool tiled;     /* of f16 input: its order */
    bool staged;    /* x can be staged, for kernels in PTX instead (vulkan_matrix_policy.h) */
};

struct vulkan_dot_choice {
    const char *shader;
    struct vulkan_specialization constants;
    struct vulkan_grid grid;
};

/* Whether a kernel here takes so many rows; otherwise a matrix kernel computes the op. These three
 * functions read only kind, rows, n and k. */
bool vulkan_dot_suits(const struct vulkan_facts *facts, const struct vulkan_dot_request *request);
/* What such an op reads: Q8, F16 or F32. */
enum vulkan_linear_input vulkan_dot_input(const struct vulkan_facts *facts,
                                          const struct vulkan_dot_request *request);
/* Whether input NORM is possible and faster than a separate rms_norm. Every workgroup norms all
 * rows for itself. */
bool vulkan_dot_norms(const struct vulkan_facts *facts, const struct vulkan_dot_request *request);

/* must() a possible request. Besides vulkan_dot_input() any quantized kind may have F32 input where
 * vulkan_dot_norms(). */
void vulkan_dot_choose(const struct vulkan_facts *facts, const struct vulkan_dot_request *request,
                       struct vulkan_dot_choice *choice);

#endif
