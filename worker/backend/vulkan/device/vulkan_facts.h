/*
 * Properties of a physical device, and the features and extensions that a device handle is created
 * with.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_FACTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "proto/result.h"
#include "worker/backend/host/vulkan_tier.h"

#define VULKAN_MATRIX_SHAPES_MAX 32u

enum vulkan_matrix_type { VULKAN_MATRIX_F16_F32, VULKAN_MATRIX_F16_F16, VULKAN_MATRIX_S8_S32 };

/* A product [m, k] x [k, n] that one subgroup computes in matrix units. */
struct vulkan_matrix_shape {
    enum vulkan_matrix_type type; /* of factors and sums */
    uint32_t m, n, k;
};

struct vulkan_facts {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE];
    VkPhysicalDeviceType type;
    uint32_t api_version;
    uint8_t pipeline_cache_id[VK_UUID_SIZE];
    uint8_t device_id[VK_UUID_SIZE]; /* the device's and driver's: memory is only imported where */
    uint8_t driver_id[VK_UUID_SIZE]; /* both are those of the exporter */
    enum vulkan_tier tier;
    bool integer_dot;     /* packed 4x8 dot products are accelerated */
    bool full_subgroups;  /* pipelines may require full subgroups */
    bool external_memory; /* VK_KHR_external_memory_fd */
    bool external_host;   /* VK_EXT_external_memory_host, for pages of the host */
    bool memory_budget;   /* VK_EXT_memory_budget */
    bool matrix_khr;
    bool matrix_nv2;
    bool ptx; /* VK_NVX_binary_import on a device of sm_90, and the build has the kernels */
    bool matrix_registers; /* set from vulkan_register_probe() */
    bool batch_invariant;  /* not of the device: a row's numbers may depend on its sequence only */
    uint32_t matrix_shape_count;
    struct vulkan_matrix_shape matrix_shapes[VULKAN_MATRIX_SHAPES_MAX]; /* subgroup scope */
    uint32_t compute_units; /* streaming multiprocessors or equivalent; 0 = unknown */
    uint32_t subgroup_size;
    uint32_t max_invocations;      /* of a workgroup */
    uint32_t shared_bytes;         /* of a workgroup */
    uint64_t max_allocation_bytes; /* of one allocation, also the largest buffer */
    uint64_t memory_bytes;         /* of the largest device-local heap */
    double timestamp_ns;           /* of one tick; 0 = the queue has no timestamps */
};

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

/* What to enable: the required features, and those of `facts`, whose tier may have been lowered.
 * The chain points into `features`. */
void vulkan_facts_wanted(const struct vulkan_facts *facts, struct vulkan_features *features,
                         struct vulkan_extensions *extensions);

#endif
