#include "worker/backend/vulkan/device/vulkan_work_marks.h"

#include <stdlib.h>

#include "proto/must.h"

static VkResult import(const struct vulkan_device *device, struct vulkan_work_marks *marks)
{
    static const VkExternalMemoryHandleTypeFlagBits type =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = type};
    const VkBufferCreateInfo buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                       .pNext = &external,
                                       .size = DEVICE_WORK_BYTES,
                                       .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                                VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                                VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    VkResult outcome = vkCreateBuffer(device->handle, &buffer, NULL, &marks->page);
    if (outcome != VK_SUCCESS)
        return outcome;
    PFN_vkGetMemoryHostPointerPropertiesEXT ask =
        (PFN_vkGetMemoryHostPointerPropertiesEXT)vkGetDeviceProcAddr(
            device->handle, "vkGetMemoryHostPointerPropertiesEXT");
    VkMemoryHostPointerPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device->handle, marks->page, &needs);
    outcome = ask ? ask(device->handle, type, marks->work, &host) : VK_ERROR_EXTENSION_NOT_PRESENT;
    uint32_t types = needs.memoryTypeBits & host.memoryTypeBits;
    if (outcome == VK_SUCCESS && (types == 0 || needs.size > DEVICE_WORK_BYTES))
        outcome = VK_ERROR_INVALID_EXTERNAL_HANDLE;
    if (outcome != VK_SUCCESS)
        return outcome;
    const VkImportMemoryHostPointerInfoEXT imported = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = type,
        .pHostPointer = marks->work};
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .pNext = &imported,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                         .pNext = &flags,
                                         .allocationSize = DEVICE_WORK_BYTES,
                                         .memoryTypeIndex = (uint32_t)__builtin_ctz(types)};
    outcome = vkAllocateMemory(device->handle, &memory, NULL, &marks->memory);
    return outcome != VK_SUCCESS
               ? outcome
               : vkBindBufferMemory(device->handle, marks->page, marks->memory, 0);
}

static uint64_t address_of(const struct vulkan_device *device, VkBuffer buffer)
{
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = buffer};
    return vkGetBufferDeviceAddress(device->handle, &info);
}

enum result vulkan_work_marks_create(const struct vulkan_device *device, struct device_work *work,
                                     struct vulkan_work_marks **created, struct error_text *error)
{
    if (!device->facts.external_host)
        return error_set(error, RESULT_UNSUPPORTED, "%s cannot write to memory of the host",
                         device->facts.name);
    struct vulkan_work_marks *marks = must_alloc(1, sizeof *marks);
    marks->work = work;
    enum result result =
        vulkan_device_check(import(device, marks), "memory of the host for the device", error);
    if (result == RESULT_OK) /* mapped, so that it begins with 0 */
        result = vulkan_buffer_create(device, VULKAN_UPLOAD, sizeof(uint32_t), "count of work",
                                      &marks->count, error);
    if (result != RESULT_OK) {
        vulkan_work_marks_destroy(device, marks);
        return result;
    }
    *(uint32_t *)marks->count.mapped = 0;
    marks->push = (struct vulkan_work_mark_push){
        .count = marks->count.address,
        .finished = address_of(device, marks->page) + offsetof(struct device_work, finished)};
    *created = marks;
    return RESULT_OK;
}

void vulkan_work_marks_destroy(const struct vulkan_device *device, struct vulkan_work_marks *marks)
{
    if (!marks)
        return;
    vulkan_buffer_destroy(device, &marks->count);
    if (marks->page)
        vkDestroyBuffer(device->handle, marks->page, NULL);
    if (marks->memory)
        vkFreeMemory(device->handle, marks->memory, NULL);
    free(marks);
}

enum result vulkan_work_marks_begin(struct vulkan_work_marks *marks, struct vulkan_kernels *kernels,
                                    struct error_text *error)
{
    const struct vulkan_specialization constants = {.count = 1, .values = {1}};
    enum result result =
        vulkan_kernels_get(kernels, "work_mark", &constants, &marks->kernel, error);
    if (result == RESULT_OK)
        atomic_store_explicit(&marks->work->marked, 1, memory_order_release);
    return result;
}

void vulkan_work_marks_count(struct vulkan_work_marks *marks)
{
    atomic_fetch_add_explicit(&marks->work->submitted, 1, memory_order_release);
}
