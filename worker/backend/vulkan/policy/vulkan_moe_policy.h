/*
 * Which kernel multiplies a step's pairs of row and expert, and how: pure functions of the device's
 * facts and of the op's shape.
 *
 *   kernel    shader       when
 *   dot       moe_dot      few pairs an expert: bound by reading the experts; x is q8, or f32 where
 *                          weights are floats
 *   register  moe_register some, where matrix units' registers are known; x is f16
 *   matrix    moe_matrix   more, where there are matrix units and k % 32 == 0; x is f16
 *   ptx       moe_wgmma_…  more than a few: tier PTX, kinds and widths that it has; x is f16, and
 *                          gathered by moe_gather
 *   plain     moe_linear   more, elsewhere; x is f32
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_MOE_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_MOE_POLICY_H

#include "worker/backend/vulkan/device/vulkan_kernels.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

enum vulkan_moe_kernel {
    VULKAN_MOE_PLAIN,
    VULKAN_MOE_DOT,
    VULKAN_MOE_REGISTER,
    VULKAN_MOE_MATRIX,
    VULKAN_MOE_PTX
};

struct vulkan_moe_request {
    enum vulkan_weight_kind kind;
    uint32_t rows;
    uint32_t chosen;
    uint32_t experts;
    uint32_t n; /* columns of out, of a pair; gated: of the result */
    uint32_t k;
    bool gated;
    uint32_t activation; /* gated: enum gate_activation */
    bool combined;       /* sums of a row's pairs; rows of vulkan_moe_combines() alone */
    bool add;            /* combined: to what out holds */
    bool routes;         /* gated: chooses the experts too, where vulkan_moe_routes() */
    bool softmax_all;    /* then: as of moe_route */
    float scale;
    enum vulkan_form output; /* combined: f32; ungated: f32 or f16 */
};

struct vulkan_moe_choice {
    enum vulkan_moe_kernel kernel;
    enum vulkan_form input;
    enum vulkan_moe_dot_mode mode; /* other kernels than dot: groups */
    uint32_t tile_rows;            /* of a tile of groups */
    const char *shader;
    struct vulkan_specialization constants;
    uint32_t across; /* workgroups over n; the other dimension is tiles, pairs or rows */
};

/* Whether the kernel can sum a row's pairs itself. */
bool vulkan_moe_combines(enum vulkan_moe_kernel kernel, uint32_t rows);
/* Whether it can choose a row's experts itself. */
bool vulkan_moe_routes(enum vulkan_moe_kernel kernel, uint32_t rows, uint32_t experts);
/* What becomes of the sums: gated or stored. */
enum vulkan_linear_epilogue vulkan_moe_epilogue(const struct vulkan_moe_request *request);
/* Rows of gathered x: each expert's pairs begin at a multiple of eight, and a tile may read on. */
uint32_t vulkan_moe_gathered_rows(uint32_t pairs, uint32_t experts);
void vulkan_moe_choose(const struct vulkan_facts *facts, const struct vulkan_moe_request *request,
                       struct vulkan_moe_choice *choice);

#endif
