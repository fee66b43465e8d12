/*
 * Opening a device.
 *
 * One instance and one logical device per handle. Compute goes to a family without graphics where
 * there is one (on NVIDIA, graphics of other programs do not delay it), uploads to a transfer-only
 * family where there is one. Only tests enable the validation layer; its messages are counted, so
 * that a test can check that there were none.
 *
 * A device is chosen by its index in the driver's order, as `shoal devices` prints it, not by name.
 */
#include "worker/backend/vulkan/device/vulkan_device.h"

#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_facts.h"
#include "worker/backend/vulkan/device/vulkan_ptx.h"

#define QUEUE_FAMILIES_MAX 32u
#define VALIDATION_LAYER   "VK_LAYER_KHRONOS_validation"

static const struct {
    VkResult outcome;
    enum result result;
    const char *words;
} outcome_words[] = {
    {VK_NOT_READY, RESULT_EMPTY, "not ready"},
    {VK_TIMEOUT, RESULT_TIMED_OUT, "timed out"},
    {VK_ERROR_OUT_OF_HOST_MEMORY, RESULT_OUT_OF_MEMORY, "out of host memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, RESULT_OUT_OF_MEMORY, "out of device memory"},
    {VK_ERROR_TOO_MANY_OBJECTS, RESULT_OUT_OF_MEMORY, "too many allocations"},
    {VK_ERROR_DEVICE_LOST, RESULT_IO, "the device was lost"},
    {VK_ERROR_INITIALIZATION_FAILED, RESULT_IO, "the driver could not initialize"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, RESULT_NOT_FOUND, "there is no Vulkan driver"},
    {VK_ERROR_LAYER_NOT_PRESENT, RESULT_UNSUPPORTED, "the validation layer is not installed"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, RESULT_UNSUPPORTED, "an extension is missing"},
    {VK_ERROR_FEATURE_NOT_PRESENT, RESULT_UNSUPPORTED, "a feature is missing"},
    {VK_ERROR_INVALID_EXTERNAL_HANDLE, RESULT_STALE, "the descriptor is no such memory"},
};

uint32_t vulkan_device_time_factor(const struct vulkan_device *device)
{
    return device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 10 : 1;
}

enum result vulkan_device_check(VkResult outcome, const char *what, struct error_text *error)
{
    if (outcome == VK_SUCCESS)
        return RESULT_OK;
    for (size_t i = 0; i < sizeof outcome_words / sizeof outcome_words[0]; i++)
        if (outcome_words[i].outcome == outcome)
            return error_set(error, outcome_words[i].result, "Vulkan: %s: %s", what,
                             outcome_words[i].words);
    return error_set(error, RESULT_IO, "Vulkan: %s: outcome %d", what, (int)outcome);
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *context)
{
    struct vulkan_device *device = context;
    (void)severity;
    /* Other messages are the loader's, about the layers it finds on this machine. */
    bool validation = types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    if (validation)
        atomic_fetch_add(&device->messages, 1);
    log_warn("%s: %s", validation ? "validation" : "Vulkan loader", data->pMessage);
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT messenger_info(struct vulkan_device *device)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = device,
    };
}

/* `validating`: NULL, or the device whose messages are counted. */
static enum result create_instance(struct vulkan_device *validating, VkInstance *instance,
                                   struct error_text *error)
{
    const char *layer = VALIDATION_LAYER;
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "shoal",
                                           .apiVersion = VK_API_VERSION_1_3};
    VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info(validating);
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    if (validating) {
        info.pNext = &messages;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &extension;
    }
    return vulkan_device_check(vkCreateInstance(&info, NULL, instance), "instance", error);
}

static uint32_t enumerate(VkInstance instance, VkPhysicalDevice *physicals)
{
    uint32_t count = VULKAN_DEVICES_MAX;
    VkResult outcome = vkEnumeratePhysicalDevices(instance, &count, physicals);
    return outcome == VK_SUCCESS || outcome == VK_INCOMPLETE ? count : 0;
}

enum result vulkan_device_list(struct vulkan_found found[VULKAN_DEVICES_MAX], uint32_t *count,
                               struct error_text *error)
{
    VkInstance instance;
    *count = 0;
    enum result result = create_instance(NULL, &instance, error);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result != RESULT_OK)
        return result;
    VkPhysicalDevice physicals[VULKAN_DEVICES_MAX];
    *count = enumerate(instance, physicals);
    uint32_t usable = 0;
    for (uint32_t i = 0; i < *count; i++) {
        found[i].unusable.text[0] = '\0';
        found[i].index = usable;
        if (vulkan_facts_read(instance, physicals[i], &found[i].facts, &found[i].unusable) ==
            RESULT_OK)
            usable++;
    }
    vkDestroyInstance(instance, NULL);
    return RESULT_OK;
}

/* The usable device of that index. */
static enum result choose(struct vulkan_device *device, uint32_t index, struct error_text *error)
{
    VkPhysicalDevice physicals[VULKAN_DEVICES_MAX];
    uint32_t found = enumerate(device->instance, physicals);
    struct error_text unusable = {""};
    uint32_t usable = 0;
    for (uint32_t i = 0; i < found; i++) {
        if (vulkan_facts_read(device->instance, physicals[i], &device->facts, &unusable) !=
            RESULT_OK)
            continue;
        if (usable++ == index) {
            device->physical = physicals[i];
            return RESULT_OK;
        }
    }
    if (usable == 0 && unusable.text[0])
        return error_set(error, RESULT_UNSUPPORTED, "no usable Vulkan device: %s", unusable.text);
    return error_set(error, RESULT_NOT_FOUND, "there is no Vulkan device %u: %u usable found",
                     index, usable);
}

static void lower_tier(struct vulkan_facts *facts, enum vulkan_tier limit)
{
    facts->ptx = facts->ptx && limit >= VULKAN_PTX;
    facts->matrix_nv2 = facts->matrix_nv2 && limit >= VULKAN_NV_MATRIX2;
    facts->matrix_khr = facts->matrix_khr && limit >= VULKAN_KHR_MATRIX;
    facts->integer_dot = facts->integer_dot && limit >= VULKAN_DOT;
    if (!facts->matrix_khr)
        facts->matrix_shape_count = 0;
    if (facts->tier > limit)
        facts->tier = limit;
}

/* A family with all of `wanted` and none of `unwanted`; UINT32_MAX when there is none. */
static uint32_t find_family(VkPhysicalDevice physical, VkQueueFlags wanted, VkQueueFlags unwanted)
{
    VkQueueFamilyProperties families[QUEUE_FAMILIES_MAX];
    uint32_t count = QUEUE_FAMILIES_MAX;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if ((families[i].queueFlags & wanted) == wanted && !(families[i].queueFlags & unwanted))
            return i;
    return UINT32_MAX;
}

static enum result create_handle(struct vulkan_device *device, struct error_text *error)
{
    device->queue_family =
        find_family(device->physical, VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT);
    if (device->queue_family == UINT32_MAX)
        device->queue_family = find_family(device->physical, VK_QUEUE_COMPUTE_BIT, 0);
    if (device->queue_family == UINT32_MAX)
        return error_set(error, RESULT_UNSUPPORTED, "%s has no compute queue", device->facts.name);
    device->transfer_family =
        find_family(device->physical, VK_QUEUE_TRANSFER_BIT,
                    VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_VIDEO_DECODE_BIT_KHR |
                        VK_QUEUE_VIDEO_ENCODE_BIT_KHR | VK_QUEUE_OPTICAL_FLOW_BIT_NV);
    if (device->transfer_family == UINT32_MAX)
        device->transfer_family = device->queue_family;
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queues[2] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = device->queue_family,
         .queueCount = 1,
         .pQueuePriorities = &priority},
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = device->transfer_family,
         .queueCount = 1,
         .pQueuePriorities = &priority},
    };
    struct vulkan_features features;
    struct vulkan_extensions extensions;
    vulkan_facts_wanted(&device->facts, &features, &extensions);
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features.base,
        .queueCreateInfoCount = device->transfer_family == device->queue_family ? 1 : 2,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = extensions.count,
        .ppEnabledExtensionNames = extensions.names,
    };
    enum result result = vulkan_device_check(
        vkCreateDevice(device->physical, &info, NULL, &device->handle), "device", error);
    if (result != RESULT_OK)
        return result;
    vkGetDeviceQueue(device->handle, device->queue_family, 0, &device->queue);
    vkGetDeviceQueue(device->handle, device->transfer_family, 0, &device->transfer_queue);
    vkGetPhysicalDeviceMemoryProperties(device->physical, &device->memory);
    return RESULT_OK;
}

static enum result listen_to_validation(struct vulkan_device *device, struct error_text *error)
{
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)vkGetInstanceProcAddr(device->instance,
                                                                  "vkCreateDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerCreateInfoEXT info = messenger_info(device);
    VkResult outcome = create ? create(device->instance, &info, NULL, &device->messenger)
                              : VK_ERROR_EXTENSION_NOT_PRESENT;
    return vulkan_device_check(outcome, "validation messages", error);
}

/* Falls to the tier below when the driver does not take PTX. */
static void prepare_ptx(struct vulkan_device *device)
{
    if (!device->facts.ptx)
        return;
    device->launch =
        (PFN_vkCmdCuLaunchKernelNVX)vkGetDeviceProcAddr(device->handle, "vkCmdCuLaunchKernelNVX");
    if (device->launch && vulkan_ptx_probe(device->handle))
        return;
    lower_tier(&device->facts, VULKAN_NV_MATRIX2);
    log_warn("%s: the driver takes no PTX for sm_90: using the tier %s", device->facts.name,
             vulkan_tier_name(device->facts.tier));
}

enum result vulkan_device_open(const struct vulkan_device_options *options,
                               struct vulkan_device **opened, struct error_text *error)
{
    struct vulkan_device *device = must_alloc(1, sizeof *device);
    enum result result =
        create_instance(options->validation ? device : NULL, &device->instance, error);
    if (result == RESULT_OK && options->validation)
        result = listen_to_validation(device, error);
    if (result == RESULT_OK)
        result = choose(device, options->index, error);
    if (result == RESULT_OK) {
        lower_tier(&device->facts, options->tier_limit);
        result = create_handle(device, error);
    }
    if (result == RESULT_OK)
        prepare_ptx(device);
    if (result != RESULT_OK) {
        vulkan_device_close(device);
        return result;
    }
    *opened = device;
    return RESULT_OK;
}

void vulkan_device_close(struct vulkan_device *device)
{
    if (!device)
        return;
    if (device->handle) {
        (void)vkDeviceWaitIdle(device->handle); /* a lost device is idle too */
        vkDestroyDevice(device->handle, NULL);
    }
    if (device->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)vkGetInstanceProcAddr(
                device->instance, "vkDestroyDebugUtilsMessengerEXT");
        destroy(device->instance, device->messenger, NULL);
    }
    if (device->instance)
        vkDestroyInstance(device->instance, NULL);
    free(device);
}

uint32_t vulkan_device_messages(const struct vulkan_device *device)
{
    return atomic_load(&device->messages);
}

uint64_t vulkan_device_free_bytes(const struct vulkan_device *device)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = device->facts.memory_budget ? &budget : NULL};
    vkGetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    uint64_t free_bytes = 0;
    for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) ||
            heap->size != device->facts.memory_bytes)
            continue;
        free_bytes = heap->size;
        if (device->facts.memory_budget)
            free_bytes = budget.heapBudget[i] > budget.heapUsage[i]
                             ? budget.heapBudget[i] - budget.heapUsage[i]
                             : 0;
    }
    return free_bytes;
}
