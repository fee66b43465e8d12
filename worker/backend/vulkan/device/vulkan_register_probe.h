/*
 * Whether matrix units of 16 x 8 x 16 hold their fragments as shaders/linear_register.comp fills
 * them. The standard leaves it open, so a kernel finds it out, once.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_REGISTER_PROBE_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_REGISTER_PROBE_H

#include "worker/backend/vulkan/device/vulkan_kernels.h"

/* For facts.matrix_registers. False too if it cannot be determined. */
bool vulkan_register_probe(const struct vulkan_device *device, struct vulkan_kernels *kernels);

#endif
