/*
 * Reading a device.
 *
 * Required are the features that all kernels use: buffer addresses, 8- and 16-bit storage and
 * arithmetic, a chosen subgroup size and subgroup arithmetic, scalar layouts, the Vulkan memory
 * model. Current drivers for NVIDIA, AMD and Intel have them, and so has Mesa's CPU driver. The
 * other facts are read for kernels and policies.
 *
 * A tier is reported only when its shapes can be used: matrix units need products of f16 with f32
 * sums at subgroup scope; NV matrix 2 needs workgroup scope, tensor addressing and block loads, and
 * headers at build time that declare it.
 */
#include "worker/backend/vulkan/device/vulkan_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_ptx.h"

#define EXTENSION_COUNT_MAX 1024u
#define MATRIX_COUNT_MAX    256u

/* X(struct member of vulkan_features, feature) */
#define REQUIRED_FEATURES(X)                                                                       \
    X(base.features, shaderInt16)                                                                  \
    X(base.features, shaderInt64)                                                                  \
    X(v11, storageBuffer16BitAccess)                                                               \
    X(v12, storageBuffer8BitAccess)                                                                \
    X(v12, shaderInt8)                                                                             \
    X(v12, shaderFloat16)                                                                          \
    X(v12, bufferDeviceAddress)                                                                    \
    X(v12, scalarBlockLayout)                                                                      \
    X(v12, vulkanMemoryModel)                                                                      \
    X(v12, vulkanMemoryModelDeviceScope)                                                           \
    X(v12, timelineSemaphore)                                                                      \
    X(v13, subgroupSizeControl)                                                                    \
    X(v13, synchronization2)                                                                       \
    X(v13, maintenance4)                                                                           \
    X(v13, shaderIntegerDotProduct)

#ifdef VK_NV_cooperative_matrix2
#define MATRIX2_FEATURES(X)                                                                        \
    X(matrix2, cooperativeMatrixWorkgroupScope)                                                    \
    X(matrix2, cooperativeMatrixFlexibleDimensions)                                                \
    X(matrix2, cooperativeMatrixTensorAddressing)                                                  \
    X(matrix2, cooperativeMatrixBlockLoads)                                                        \
    X(matrix2, cooperativeMatrixConversions)                                                       \
    X(matrix2, cooperativeMatrixPerElementOperations)                                              \
    X(matrix2, cooperativeMatrixReductions)

static void chain_matrix2(struct vulkan_features *f)
{
    f->matrix2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
    f->matrix.pNext = &f->matrix2;
}

static bool has_matrix2_features(const struct vulkan_features *f)
{
#define AND_FEATURE(member, feature) &&f->member.feature
    return true MATRIX2_FEATURES(AND_FEATURE);
#undef AND_FEATURE
}

static void want_matrix2_features(struct vulkan_features *f)
{
#define WANT_FEATURE(member, feature) f->member.feature = VK_TRUE;
    MATRIX2_FEATURES(WANT_FEATURE)
#undef WANT_FEATURE
}
#else
static void chain_matrix2(struct vulkan_features *f)
{
    (void)f;
}

static bool has_matrix2_features(const struct vulkan_features *f)
{
    (void)f;
    return false;
}

static void want_matrix2_features(struct vulkan_features *f)
{
    (void)f;
}
#endif

static void chain(struct vulkan_features *f, bool matrix, bool matrix2)
{
    memset(f, 0, sizeof *f);
    f->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    f->matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    f->base.pNext = &f->v11;
    f->v11.pNext = &f->v12;
    f->v12.pNext = &f->v13;
    f->v13.pNext = matrix ? &f->matrix : NULL;
    if (matrix && matrix2)
        chain_matrix2(f);
}

static bool has_extension(const VkExtensionProperties *all, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].extensionName, name) == 0)
            return true;
    return false;
}

static enum result read_features(VkPhysicalDevice physical, struct vulkan_facts *facts,
                                 bool has_matrix, bool has_matrix2, struct error_text *error)
{
    struct vulkan_features f;
    chain(&f, has_matrix, has_matrix2);
    vkGetPhysicalDeviceFeatures2(physical, &f.base);
#define CHECK_FEATURE(member, feature)                                                             \
    if (!f.member.feature)                                                                         \
        return error_set(error, RESULT_UNSUPPORTED, "%s lacks " #feature, facts->name);
    REQUIRED_FEATURES(CHECK_FEATURE)
#undef CHECK_FEATURE
    facts->full_subgroups = f.v13.computeFullSubgroups;
    facts->matrix_khr = has_matrix && f.matrix.cooperativeMatrix;
    facts->matrix_nv2 = facts->matrix_khr && has_matrix2 && has_matrix2_features(&f);
    return RESULT_OK;
}

static void read_properties(VkPhysicalDevice physical, struct vulkan_facts *facts, bool has_sm)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceVulkan13Properties v13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES,
        .pNext = has_sm ? &sm : NULL};
    VkPhysicalDeviceVulkan12Properties v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &v13};
    VkPhysicalDeviceVulkan11Properties v11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, .pNext = &v12};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
    vkGetPhysicalDeviceProperties2(physical, &properties);
    const VkPhysicalDeviceLimits *limits = &properties.properties.limits;
    snprintf(facts->name, sizeof facts->name, "%s", properties.properties.deviceName);
    snprintf(facts->driver, sizeof facts->driver, "%s %s", v12.driverName, v12.driverInfo);
    facts->type = properties.properties.deviceType;
    facts->api_version = properties.properties.apiVersion;
    memcpy(facts->pipeline_cache_id, properties.properties.pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(facts->device_id, v11.deviceUUID, VK_UUID_SIZE);
    memcpy(facts->driver_id, v11.driverUUID, VK_UUID_SIZE);
    facts->integer_dot = v13.integerDotProduct4x8BitPackedSignedAccelerated;
    facts->subgroup_size = v11.subgroupSize;
    facts->max_invocations = limits->maxComputeWorkGroupInvocations;
    facts->shared_bytes = limits->maxComputeSharedMemorySize;
    facts->compute_units = has_sm ? sm.shaderSMCount : 0;
    facts->max_allocation_bytes = v11.maxMemoryAllocationSize < v13.maxBufferSize
                                      ? v11.maxMemoryAllocationSize
                                      : v13.maxBufferSize;
    facts->timestamp_ns = limits->timestampComputeAndGraphics ? (double)limits->timestampPeriod : 0;
}

/* Some drivers import memory of the host only in pieces larger than its pages. */
static bool imports_pages(VkPhysicalDevice physical)
{
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
    vkGetPhysicalDeviceProperties2(physical, &properties);
    return host.minImportedHostPointerAlignment <= (VkDeviceSize)sysconf(_SC_PAGESIZE);
}

static void add_shape(struct vulkan_facts *facts, enum vulkan_matrix_type type,
                      const VkCooperativeMatrixPropertiesKHR *p)
{
    if (facts->matrix_shape_count < VULKAN_MATRIX_SHAPES_MAX)
        facts->matrix_shapes[facts->matrix_shape_count++] =
            (struct vulkan_matrix_shape){type, p->MSize, p->NSize, p->KSize};
}

static void read_matrix_shapes(VkInstance instance, VkPhysicalDevice physical,
                               struct vulkan_facts *facts)
{
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get =
        (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)vkGetInstanceProcAddr(
            instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    VkCooperativeMatrixPropertiesKHR *all = must_alloc(MATRIX_COUNT_MAX, sizeof *all);
    uint32_t count = MATRIX_COUNT_MAX;
    for (uint32_t i = 0; i < count; i++)
        all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    VkResult outcome = get ? get(physical, &count, all) : VK_ERROR_EXTENSION_NOT_PRESENT;
    for (uint32_t i = 0; outcome >= VK_SUCCESS && i < count; i++) {
        const VkCooperativeMatrixPropertiesKHR *p = &all[i];
        if (p->scope != VK_SCOPE_SUBGROUP_KHR || p->AType != p->BType || p->CType != p->ResultType)
            continue;
        if (p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR)
            add_shape(facts, VULKAN_MATRIX_F16_F32, p);
        if (p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->CType == VK_COMPONENT_TYPE_FLOAT16_KHR)
            add_shape(facts, VULKAN_MATRIX_F16_F16, p);
        if (p->AType == VK_COMPONENT_TYPE_SINT8_KHR && p->CType == VK_COMPONENT_TYPE_SINT32_KHR &&
            !p->saturatingAccumulation)
            add_shape(facts, VULKAN_MATRIX_S8_S32, p);
    }
    free(all);
}

static bool has_shape(const struct vulkan_facts *facts, enum vulkan_matrix_type type)
{
    for (uint32_t i = 0; i < facts->matrix_shape_count; i++)
        if (facts->matrix_shapes[i].type == type)
            return true;
    return false;
}

/* No query tells the architecture: sm_90 is NVIDIA's chip GH100, which has these numbers on PCI. */
static bool is_hopper(const VkPhysicalDeviceProperties *properties)
{
    return properties->vendorID == 0x10DE && properties->deviceID >> 8 == 0x23;
}

static uint64_t largest_local_heap(VkPhysicalDevice physical)
{
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    uint64_t largest = 0;
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            memory.memoryHeaps[i].size > largest)
            largest = memory.memoryHeaps[i].size;
    return largest;
}

enum result vulkan_facts_read(VkInstance instance, VkPhysicalDevice physical,
                              struct vulkan_facts *facts, struct error_text *error)
{
    memset(facts, 0, sizeof *facts);
    VkPhysicalDeviceProperties plain;
    vkGetPhysicalDeviceProperties(physical, &plain);
    snprintf(facts->name, sizeof facts->name, "%s", plain.deviceName);
    facts->api_version = plain.apiVersion;
    if (plain.apiVersion < VK_API_VERSION_1_3)
        return error_set(error, RESULT_UNSUPPORTED, "%s has Vulkan %u.%u, not 1.3", facts->name,
                         VK_API_VERSION_MAJOR(plain.apiVersion),
                         VK_API_VERSION_MINOR(plain.apiVersion));
    VkExtensionProperties *all = must_alloc(EXTENSION_COUNT_MAX, sizeof *all);
    uint32_t count = EXTENSION_COUNT_MAX;
    if (vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all) < VK_SUCCESS)
        count = 0;
    read_properties(physical, facts, has_extension(all, count, "VK_NV_shader_sm_builtins"));
    facts->memory_bytes = largest_local_heap(physical);
    facts->external_memory = has_extension(all, count, "VK_KHR_external_memory_fd");
    facts->external_host =
        has_extension(all, count, "VK_EXT_external_memory_host") && imports_pages(physical);
    facts->memory_budget = has_extension(all, count, "VK_EXT_memory_budget");
    facts->ptx = is_hopper(&plain) && has_extension(all, count, "VK_NVX_binary_import");
    enum result result =
        read_features(physical, facts, has_extension(all, count, "VK_KHR_cooperative_matrix"),
                      has_extension(all, count, "VK_NV_cooperative_matrix2"), error);
    free(all);
    if (result != RESULT_OK)
        return result;
    if (facts->matrix_khr)
        read_matrix_shapes(instance, physical, facts);
    facts->matrix_khr = has_shape(facts, VULKAN_MATRIX_F16_F32);
    facts->matrix_nv2 = facts->matrix_nv2 && facts->matrix_khr;
    facts->ptx = facts->ptx && facts->matrix_nv2 && vulkan_ptx_built();
    facts->tier = facts->ptx           ? VULKAN_PTX
                  : facts->matrix_nv2  ? VULKAN_NV_MATRIX2
                  : facts->matrix_khr  ? VULKAN_KHR_MATRIX
                  : facts->integer_dot ? VULKAN_DOT
                                       : VULKAN_SCALAR;
    return RESULT_OK;
}

static void want_extension(struct vulkan_extensions *extensions, const char *name)
{
    must(extensions->count < VULKAN_EXTENSIONS_MAX);
    extensions->names[extensions->count++] = name;
}

void vulkan_facts_wanted(const struct vulkan_facts *facts, struct vulkan_features *f,
                         struct vulkan_extensions *extensions)
{
    chain(f, facts->matrix_khr, facts->matrix_nv2);
#define WANT_FEATURE(member, feature) f->member.feature = VK_TRUE;
    REQUIRED_FEATURES(WANT_FEATURE)
#undef WANT_FEATURE
    f->v13.computeFullSubgroups = facts->full_subgroups;
    extensions->count = 0;
    if (facts->external_memory)
        want_extension(extensions, "VK_KHR_external_memory_fd");
    if (facts->external_host)
        want_extension(extensions, "VK_EXT_external_memory_host");
    if (facts->memory_budget)
        want_extension(extensions, "VK_EXT_memory_budget");
    if (facts->matrix_khr) {
        want_extension(extensions, "VK_KHR_cooperative_matrix");
        f->matrix.cooperativeMatrix = VK_TRUE;
    }
    if (facts->matrix_nv2) {
        want_extension(extensions, "VK_NV_cooperative_matrix2");
        want_matrix2_features(f);
    }
    if (facts->ptx)
        want_extension(extensions, "VK_NVX_binary_import");
}
