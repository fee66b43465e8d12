/*
 * One function per op stem: vulkan_record_rms_norm() and so on. Each records the dispatches of the
 * recorder's present op, with its output in the forms recorder->forms[recorder->op], or nothing if
 * a neighbour computes the op; op_list.h has the formulas.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_OPS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_OPS_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

#define VULKAN_RECORD_PROTOTYPE(stem, ...)                                                         \
    void vulkan_record_##stem(struct vulkan_recorder *recorder);
EVERY_OP_LIST(VULKAN_RECORD_PROTOTYPE)
#undef VULKAN_RECORD_PROTOTYPE

#endif
