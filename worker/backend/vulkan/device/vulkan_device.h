/*
 * A Vulkan device, opened for compute: which ones there are, what the chosen one can do, and its
 * queues. Everything else of this folder works on the handle.
 *
 * A device is refused unless it has Vulkan 1.3 and the features that the plainest kernels need
 * (vulkan_facts.c lists them); what goes beyond is a tier, named in the start-up line
 * (vulkan_tier.h).
 *
 * A device that is lost ends in an error from whatever call sees it first (vulkan_device_check());
 * the worker then exits with the words and a new one is started.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_DEVICE_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "proto/limits.h"
#include "proto/result.h"
#include "worker/backend/host/vulkan_tier.h"

#define VULKAN_DEVICES_MAX       LIMIT_DEVICES
#define VULKAN_MATRIX_SHAPES_MAX 32u

enum vulkan_matrix_type { VULKAN_MATRIX_F16_F32, VULKAN_MATRIX_F16_F16, VULKAN_MATRIX_S8_S32 };

/* A product [m, k] x [k, n] that one subgroup does in matrix units. */
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
    bool memory_budget;   /* VK_EXT_memory_budget */
    bool matrix_khr;
    bool matrix_nv2;
    bool matrix_registers; /* vulkan_register_probe() says so; set by whoever asks it */
    uint32_t matrix_shape_count;
    struct vulkan_matrix_shape matrix_shapes[VULKAN_MATRIX_SHAPES_MAX]; /* subgroup scope */
    uint32_t compute_units; /* streaming multiprocessors or their like; 0 = unknown */
    uint32_t subgroup_size;
    uint32_t max_invocations;      /* of a workgroup */
    uint32_t shared_bytes;         /* of a workgroup */
    uint64_t max_allocation_bytes; /* of one allocation, also the largest buffer */
    uint64_t memory_bytes;         /* of the largest device-local heap */
    double timestamp_ns;           /* of one tick; 0 = the queue has no timestamps */
};

struct vulkan_device_options {
    uint32_t index;  /* among the usable ones of vulkan_device_list() */
    bool validation; /* messages of the validation layer are counted: vulkan_device_messages() */
    enum vulkan_tier tier_limit; /* nothing above it is used; VULKAN_NV_MATRIX2 = no limit */
};

struct vulkan_device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice handle;
    VkQueue queue; /* compute */
    uint32_t queue_family;
    VkQueue transfer_queue; /* a family of its own where there is one, else the compute queue */
    uint32_t transfer_family;
    struct vulkan_facts facts;
    VkPhysicalDeviceMemoryProperties memory;
    VkDebugUtilsMessengerEXT messenger;
    _Atomic uint32_t messages;
};

struct vulkan_found {
    struct vulkan_facts facts;  /* of an unusable one name and version */
    struct error_text unusable; /* why; "" of a usable one */
    uint32_t index;             /* among the usable ones: which `vulkan:N` it is */
};

/* All devices in the drivers' order, at most VULKAN_DEVICES_MAX. No driver at all is an empty list.
 */
enum result vulkan_device_list(struct vulkan_found found[VULKAN_DEVICES_MAX], uint32_t *count,
                               struct error_text *error) RESULT_CHECKED;

/* RESULT_NOT_FOUND without such a device, RESULT_UNSUPPORTED naming the feature that it lacks. */
enum result vulkan_device_open(const struct vulkan_device_options *options,
                               struct vulkan_device **device,
                               struct error_text *error) RESULT_CHECKED;
void vulkan_device_close(struct vulkan_device *device);

/* Validation messages (warnings and errors) so far; each is also a log line. */
uint32_t vulkan_device_messages(const struct vulkan_device *device);

/* Bytes of device-local memory that can still be had, as the driver tells. */
uint64_t vulkan_device_free_bytes(const struct vulkan_device *device);

/* RESULT_OK, or the outcome's words behind `what`. Device loss and a failed submission are
 * RESULT_IO, memory RESULT_OUT_OF_MEMORY. */
enum result vulkan_device_check(VkResult outcome, const char *what,
                                struct error_text *error) RESULT_CHECKED;

#endif
