/* A device with 16 x 16 x 16 matrix units, for tests of policies. */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_MATRIX_DEVICE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_MATRIX_DEVICE_H

#include "worker/backend/vulkan/device/vulkan_facts.h"

#define MATRIX_DEVICE_FACTS                                                                        \
    {                                                                                              \
        .tier = VULKAN_KHR_MATRIX, .matrix_khr = true, .matrix_shape_count = 1,                    \
        .matrix_shapes = {{VULKAN_MATRIX_F16_F32, 16, 16, 16}}, .subgroup_size = 32,               \
        .max_invocations = 1024, .shared_bytes = 65536, .compute_units = 132                       \
    }

#endif
