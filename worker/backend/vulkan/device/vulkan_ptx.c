/*
 * Modules, functions and launches. A module has one function, so kernels are made by many threads at once
 * and only those that a model needs.
 */
#include "worker/backend/vulkan/device/vulkan_ptx.h"

#include <string.h>

#include "proto/must.h"

#define PARAMETERS_MAX (16u + VULKAN_PTX_CONSTANTS_MAX / 2)
#define ENTRY          "kernel"

static const char probe_text[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                 ".visible .entry kernel()\n{\nret;\n}\n";

const struct vulkan_ptx *vulkan_ptx_find(const char *name)
{
    for (uint32_t i = 0; i < vulkan_ptx_module_count; i++)
        if (strcmp(vulkan_ptx_modules[i].name, name) == 0)
            return &vulkan_ptx_modules[i];
    return NULL;
}

bool vulkan_ptx_built(void)
{
    for (uint32_t i = 0; i < vulkan_ptx_module_count; i++)
        if (vulkan_ptx_modules[i].text_bytes == 0)
            return false;
    return vulkan_ptx_module_count > 0;
}

static VkResult make(VkDevice device, const char *text, size_t bytes,
                     struct vulkan_ptx_function *function)
{
    PFN_vkCreateCuModuleNVX create_module =
        (PFN_vkCreateCuModuleNVX)vkGetDeviceProcAddr(device, "vkCreateCuModuleNVX");
    PFN_vkCreateCuFunctionNVX create_function =
        (PFN_vkCreateCuFunctionNVX)vkGetDeviceProcAddr(device, "vkCreateCuFunctionNVX");
    function->module = VK_NULL_HANDLE;
    function->handle = VK_NULL_HANDLE;
    if (!create_module || !create_function)
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    const VkCuModuleCreateInfoNVX module = {
        .sType = VK_STRUCTURE_TYPE_CU_MODULE_CREATE_INFO_NVX, .dataSize = bytes, .pData = text};
    VkResult outcome = create_module(device, &module, NULL, &function->module);
    if (outcome != VK_SUCCESS)
        return outcome;
    const VkCuFunctionCreateInfoNVX info = {.sType = VK_STRUCTURE_TYPE_CU_FUNCTION_CREATE_INFO_NVX,
                                            .module = function->module,
                                            .pName = ENTRY};
    outcome = create_function(device, &info, NULL, &function->handle);
    if (outcome != VK_SUCCESS)
        vulkan_ptx_destroy(device, function);
    return outcome;
}

bool vulkan_ptx_probe(VkDevice device)
{
    struct vulkan_ptx_function function;
    bool made = make(device, probe_text, sizeof probe_text, &function) == VK_SUCCESS;
    if (made)
        vulkan_ptx_destroy(device, &function);
    return made;
}

VkResult vulkan_ptx_make(VkDevice device, const struct vulkan_ptx *ptx,
                         struct vulkan_ptx_function *function)
{
    must(ptx->text_bytes > 0);
    return make(device, ptx->text, ptx->text_bytes, function);
}

void vulkan_ptx_destroy(VkDevice device, struct vulkan_ptx_function *function)
{
    PFN_vkDestroyCuFunctionNVX destroy_function =
        (PFN_vkDestroyCuFunctionNVX)vkGetDeviceProcAddr(device, "vkDestroyCuFunctionNVX");
    PFN_vkDestroyCuModuleNVX destroy_module =
        (PFN_vkDestroyCuModuleNVX)vkGetDeviceProcAddr(device, "vkDestroyCuModuleNVX");
    if (function->handle && destroy_function)
        destroy_function(device, function->handle, NULL);
    if (function->module && destroy_module)
        destroy_module(device, function->module, NULL);
    function->handle = VK_NULL_HANDLE;
    function->module = VK_NULL_HANDLE;
}

void vulkan_ptx_launch(PFN_vkCmdCuLaunchKernelNVX launch, VkCommandBuffer commands,
                       const struct vulkan_ptx_function *function, const void *push,
                       uint32_t push_bytes, uint32_t x, uint32_t y, uint32_t z)
{
    const void *parameters[PARAMETERS_MAX];
    uint64_t words[VULKAN_PTX_CONSTANTS_MAX / 2];
    uint32_t pushed = push_bytes / 8, count = pushed + function->constant_count / 2;
    must(push_bytes % 8 == 0 && function->constant_count % 2 == 0 && count <= PARAMETERS_MAX);
    for (uint32_t i = 0; i < pushed; i++)
        parameters[i] = (const char *)push + 8 * (size_t)i;
    for (uint32_t i = pushed; i < count; i++) {
        const uint32_t *pair = &function->constants[2 * (i - pushed)];
        words[i - pushed] = pair[0] | (uint64_t)pair[1] << 32;
        parameters[i] = &words[i - pushed];
    }
    const VkCuLaunchInfoNVX info = {.sType = VK_STRUCTURE_TYPE_CU_LAUNCH_INFO_NVX,
                                    .function = function->handle,
                                    .gridDimX = x,
                                    .gridDimY = y,
                                    .gridDimZ = z,
                                    .blockDimX = function->invocations,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .sharedMemBytes = function->shared_bytes,
                                    .paramCount = count,
                                    .pParams = parameters};
    launch(commands, &info);
}
