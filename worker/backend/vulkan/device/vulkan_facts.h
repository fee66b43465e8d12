/*
 * What a physical device is and can do, and which features and extensions a device handle is made
 * with.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_FACTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_FACTS_H

#include "worker/backend/vulkan/device/vulkan_device.h"

/* The chain of feature structs that vkGetPhysicalDeviceFeatures2 fills and vkCreateDevice reads. */
struct vulkan_features {
    VkPhysicalDeviceFeatures2 base; /* head of the chain */
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan13Features v13;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
#ifdef VK_NV_cooperative_matrix2 /* headers before 1.3.297 do not have it */
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2;
#endif
};

#define VULKAN_EXTENSIONS_MAX 8u

struct vulkan_extensions {
    uint32_t count;
    const char *names[VULKAN_EXTENSIONS_MAX]; /* literals */
};

/* RESULT_UNSUPPORTED naming what the device lacks. */
enum result vulkan_facts_read(VkInstance instance, VkPhysicalDevice physical,
                              struct vulkan_facts *facts, struct error_text *error) RESULT_CHECKED;

/* What to enable: what kernels need, and what `facts` (whose tier may have been lowered) has. The
 * chain points into `features`. */
void vulkan_facts_wanted(const struct vulkan_facts *facts, struct vulkan_features *features,
                         struct vulkan_extensions *extensions);

#endif
