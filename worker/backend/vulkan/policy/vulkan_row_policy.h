/*
 * How a kernel over one row (the shader of the op's stem) is dispatched for a shape. Pure; asked
 * while pipelines are made and while steps are recorded.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ROW_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ROW_POLICY_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/plan/op_list.h"

struct vulkan_row_task {
    enum op_stem stem; /* also names the shader */
    uint32_t rows;
    uint32_t columns; /* of the output */
    uint32_t forms;   /* enum vulkan_form bits; f16 and q8 only for multiples of 32 columns */
    uint32_t own;     /* the kernel's own constant (VULKAN_ROW_OWN); 0 when it has none */
};

struct vulkan_row_choice {
    const char *shader;
    struct vulkan_specialization specialization;
    struct vulkan_grid grid;
};

/* must() forms that the columns allow. */
struct vulkan_row_choice vulkan_row_policy_choose(const struct vulkan_facts *facts,
                                                  const struct vulkan_row_task *task);

#endif
