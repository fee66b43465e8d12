/*
 * Kernels in PTX, NVIDIA's portable assembly, launched inside command buffers through
 * VK_NVX_binary_import, whose commands are found by name: the loader does not export them. Their text is embedded at build time (scripts/embed_ptx): one entry for each
 * variant of a kernel of ptx/, sorted by name, with one function named kernel.
 *
 * A launch takes the words of the push constants as its parameters, one u64 each, and then those of the
 * function's constants.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PTX_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_PTX_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

struct vulkan_ptx {
    const char *name;
    const char *text;    /* NULL when there is none */
    uint32_t text_bytes; /* with the final 0; 0 = this build had no compiler for it */
};

extern const struct vulkan_ptx vulkan_ptx_modules[]; /* [vulkan_ptx_module_count] */
extern const uint32_t vulkan_ptx_module_count;

#define VULKAN_PTX_CONSTANTS_MAX 12u

/* A function ready to be launched. */
struct vulkan_ptx_function {
    VkCuModuleNVX module;
    VkCuFunctionNVX handle;
    uint32_t invocations; /* of a workgroup */
    uint32_t shared_bytes;
    uint32_t constant_count; /* even */
    uint32_t constants[VULKAN_PTX_CONSTANTS_MAX];
};

/* NULL when there is no module of that name. */
const struct vulkan_ptx *vulkan_ptx_find(const char *name);

/* Whether the build has their text, all of it. */
bool vulkan_ptx_built(void);

/* Whether the driver takes PTX for the device's architecture, by making a small module. */
bool vulkan_ptx_probe(VkDevice device);

/* The driver compiles the text, or has it in its cache. Sets module and handle; may run on several
 * threads. must() a module that was built. */
VkResult vulkan_ptx_make(VkDevice device, const struct vulkan_ptx *ptx,
                         struct vulkan_ptx_function *function);
void vulkan_ptx_destroy(VkDevice device, struct vulkan_ptx_function *function);

/* Records a launch of x * y * z workgroups. push_bytes is a multiple of 8. */
void vulkan_ptx_launch(PFN_vkCmdCuLaunchKernelNVX launch, VkCommandBuffer commands,
                       const struct vulkan_ptx_function *function, const void *push,
                       uint32_t push_bytes, uint32_t x, uint32_t y, uint32_t z);

#endif
