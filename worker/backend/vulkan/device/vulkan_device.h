/*
 * A Vulkan device, opened for compute: which ones there are, what the chosen one can do, and its
 * queues. The rest of this folder works on the handle.
 *
 * A device without Vulkan 1.3 or without the features that all kernels need (vulkan_facts.c lists
 * them) is unusable. Further features make a tier (vulkan_tier.h), named in the start-up line.
 *
 * If the device is lost, the first call that notices returns an error (vulkan_device_check()); the
 * worker logs it and exits, and a new one is started.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_DEVICE_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_DEVICE_H

#include <stdatomic.h>

#include "proto/limits.h"
#include "worker/backend/vulkan/device/vulkan_facts.h"

#define VULKAN_DEVICES_MAX LIMIT_DEVICES

struct vulkan_work_marks;
struct vulkan_spare_commands;

struct vulkan_device_options {
    uint32_t index;  /* among the usable ones of vulkan_device_list() */
    bool validation; /* messages of the validation layer are counted: vulkan_device_messages() */
    enum vulkan_tier tier_limit; /* highest tier to use; VULKAN_TIER_HIGHEST = no limit */
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
    PFN_vkCmdCuLaunchKernelNVX launch;   /* facts.ptx */
    struct vulkan_work_marks *marks;     /* the opener's; NULL: none */
    struct vulkan_spare_commands *spare; /* the same */
    _Atomic uint32_t messages;
};

struct vulkan_found {
    struct vulkan_facts facts;  /* of an unusable device only name and version */
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

/* Free bytes of device-local memory, as the driver reports them. */
uint64_t vulkan_device_free_bytes(const struct vulkan_device *device);

/* Factor of time limits: 1, or 10 for drivers that compute on a CPU, since they compile kernels at
 * their first run and share the cores with other programs. */
uint32_t vulkan_device_time_factor(const struct vulkan_device *device);

/* RESULT_OK, or an error text of `what` and the outcome. Device loss and a failed submission are
 * RESULT_IO, memory RESULT_OUT_OF_MEMORY. */
enum result vulkan_device_check(VkResult outcome, const char *what,
                                struct error_text *error) RESULT_CHECKED;

#endif
