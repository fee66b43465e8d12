/*
 * How the kernels over one row (embed_rows, gather_rows, gate, norms, bias_add, position_scale,
 * soft_cap, short_conv) are dispatched for a shape: pure, asked while pipelines are made and while
 * steps are recorded.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ROW_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ROW_POLICY_H

#include "worker/backend/vulkan/device/vulkan_commands.h"

enum vulkan_row_kernel {
    VULKAN_ROW_EMBED,
    VULKAN_ROW_GATHER,
    VULKAN_ROW_GATE,
    VULKAN_ROW_NORM,
    VULKAN_ROW_NORM_ADD,
    VULKAN_ROW_BIAS_ADD,
    VULKAN_ROW_SHORT_CONV,
    VULKAN_ROW_HEAD_NORM_GATE,
    VULKAN_ROW_TAKE_QUERIES,
    VULKAN_ROW_GATE_HEADS,
    VULKAN_ROW_POSITION_SCALE,
    VULKAN_ROW_LAYER_NORM,
    VULKAN_ROW_SOFT_CAP,
    VULKAN_ROW_GATE_WITH,
    VULKAN_ROW_ADD,
    VULKAN_ROW_SCALE,
    VULKAN_ROW_STREAM_TAKE,
    VULKAN_ROW_STREAM_MIX,
    VULKAN_ROW_STREAM_CORRECT,
    VULKAN_ROW_STREAM_ADD,
    VULKAN_ROW_STREAM_MATCH,
    VULKAN_ROW_STREAM_CUT,
    VULKAN_ROW_MOE_SHARED,
    VULKAN_ROW_FEATURE_ADD,
    VULKAN_ROW_PATCH_ROWS,
    VULKAN_ROW_PATCH_POSITIONS,
    VULKAN_ROW_ACTIVATE,
    VULKAN_ROW_CLIP,
    VULKAN_ROW_POOL,
    VULKAN_ROW_FEATURE_WRITE
};

struct vulkan_row_task {
    enum vulkan_row_kernel kernel;
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
