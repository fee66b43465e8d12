/*
 * Pipelines by name.
 *
 * All kernels share one pipeline layout: 128 bytes of push constants, which every device has, and
 * no descriptors. A kernel is looked up by shader and constants in a hash table: recording a step
 * does this for each dispatch, and making all kernels some ten thousand times.
 *
 * The cache file has the driver's format; the driver checks its header for the device and driver
 * version. It is written under a temporary name and renamed, so that a worker that dies meanwhile,
 * or two that write at once, never leave half a file.
 */
#include "worker/backend/vulkan/device/vulkan_kernels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_shaders.h"

#define CACHE_BYTES_MAX (256u << 20)
#define BUCKETS         256u
#define CONSTANT_CHARS  12u /* of a constant in text, at most */

#define PTX_CONSTANTS 2u /* invocations and shared memory; further ones are parameters */

struct kernel_entry {
    struct kernel_entry *next;
    const void *code; /* the shader's words, or `ptx` */
    uint32_t word_count;
    const struct vulkan_ptx *ptx; /* NULL: a shader */
    struct vulkan_specialization specialization;
    struct vulkan_kernel kernel; /* pipeline NULL: noted, not made yet */
};

struct vulkan_kernels {
    const struct vulkan_device *device;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    char *cache_path;
    struct kernel_entry *buckets[BUCKETS]; /* by shader and constants */
    uint32_t count;
    bool noting;
    bool complete; /* loading is over: making a further kernel stalls a step */
};

/* The file's bytes, or NULL; a missing cache is no error. */
static void *read_cache(const char *path, size_t *byte_count)
{
    *byte_count = 0;
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return NULL;
    void *bytes = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size > 0 && size <= (long)CACHE_BYTES_MAX && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)size);
    if (bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size) {
        *byte_count = (size_t)size;
    } else {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

enum result vulkan_kernels_create(const struct vulkan_device *device, const char *cache_path,
                                  struct vulkan_kernels **created, struct error_text *error)
{
    struct vulkan_kernels *kernels = must_alloc(1, sizeof *kernels);
    kernels->device = device;
    kernels->cache_path = cache_path ? must_strdup(cache_path) : NULL;
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, VULKAN_PUSH_BYTES};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    size_t cache_bytes;
    void *cached = read_cache(cache_path, &cache_bytes);
    const VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                             .initialDataSize = cache_bytes,
                                             .pInitialData = cached};
    const VkPipelineCacheCreateInfo empty = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkResult outcome = vkCreatePipelineLayout(device->handle, &layout, NULL, &kernels->layout);
    if (outcome == VK_SUCCESS)
        outcome = vkCreatePipelineCache(device->handle, &cache, NULL, &kernels->cache);
    if (outcome != VK_SUCCESS && kernels->layout)
        outcome = vkCreatePipelineCache(device->handle, &empty, NULL, &kernels->cache);
    free(cached);
    if (outcome != VK_SUCCESS) {
        vulkan_kernels_destroy(kernels);
        return vulkan_device_check(outcome, "pipeline layout", error);
    }
    *created = kernels;
    return RESULT_OK;
}

void vulkan_kernels_destroy(struct vulkan_kernels *kernels)
{
    if (!kernels)
        return;
    VkDevice handle = kernels->device->handle;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (kernels->buckets[i]) {
            struct kernel_entry *entry = kernels->buckets[i];
            kernels->buckets[i] = entry->next;
            if (entry->kernel.pipeline)
                vkDestroyPipeline(handle, entry->kernel.pipeline, NULL);
            if (entry->ptx)
                vulkan_ptx_destroy(handle, &entry->kernel.ptx);
            free(entry);
        }
    }
    if (kernels->cache)
        vkDestroyPipelineCache(handle, kernels->cache, NULL);
    if (kernels->layout)
        vkDestroyPipelineLayout(handle, kernels->layout, NULL);
    free(kernels->cache_path);
    free(kernels);
}

static bool write_cache(const char *path, const void *bytes, size_t byte_count)
{
    char *name = must_alloc(strlen(path) + 32, 1);
    snprintf(name, strlen(path) + 32, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(name, "wb");
    bool written = file && fwrite(bytes, 1, byte_count, file) == byte_count;
    if (file && fclose(file) != 0)
        written = false;
    if (written)
        written = rename(name, path) == 0;
    if (!written && file)
        (void)unlink(name);
    free(name);
    return written;
}

void vulkan_kernels_save(const struct vulkan_kernels *kernels)
{
    size_t byte_count = 0;
    if (!kernels->cache_path)
        return;
    VkDevice handle = kernels->device->handle;
    if (vkGetPipelineCacheData(handle, kernels->cache, &byte_count, NULL) != VK_SUCCESS ||
        byte_count == 0 || byte_count > CACHE_BYTES_MAX)
        return;
    void *bytes = malloc(byte_count);
    if (bytes && vkGetPipelineCacheData(handle, kernels->cache, &byte_count, bytes) == VK_SUCCESS &&
        !write_cache(kernels->cache_path, bytes, byte_count))
        log_info("the pipeline cache was not written: %s: %s", kernels->cache_path,
                 strerror(errno));
    free(bytes);
}

static enum result make_pipeline(const struct vulkan_kernels *kernels, struct kernel_entry *entry,
                                 struct error_text *error)
{
    VkDevice handle = kernels->device->handle;
    VkSpecializationMapEntry map[VULKAN_CONSTANTS_MAX];
    for (uint32_t i = 0; i < entry->specialization.count; i++)
        map[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    const VkSpecializationInfo constants = {entry->specialization.count, map,
                                            entry->specialization.count * sizeof(uint32_t),
                                            entry->specialization.values};
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (size_t)entry->word_count * sizeof(uint32_t),
        .pCode = entry->code};
    VkShaderModule module;
    enum result result = vulkan_device_check(
        vkCreateShaderModule(handle, &module_info, NULL, &module), entry->kernel.name, error);
    if (result != RESULT_OK)
        return result;
    /* Full subgroups may be required only if the workgroup size is a multiple of them. */
    uint32_t invocations = entry->specialization.values[0];
    bool whole = kernels->device->facts.full_subgroups &&
                 invocations % kernels->device->facts.subgroup_size == 0;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .flags = whole ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = kernels->layout};
    result = vulkan_device_check(
        vkCreateComputePipelines(handle, kernels->cache, 1, &info, NULL, &entry->kernel.pipeline),
        entry->kernel.name, error);
    vkDestroyShaderModule(handle, module, NULL);
    return result;
}

/* Threads may do this for different entries: the driver locks its cache. */
static enum result make_kernel(const struct vulkan_kernels *kernels, struct kernel_entry *entry,
                               struct error_text *error)
{
    if (!entry->ptx)
        return make_pipeline(kernels, entry, error);
    entry->kernel.ptx.invocations = entry->specialization.values[0];
    entry->kernel.ptx.shared_bytes = entry->specialization.values[1];
    entry->kernel.ptx.constant_count = entry->specialization.count - PTX_CONSTANTS;
    memcpy(entry->kernel.ptx.constants, &entry->specialization.values[PTX_CONSTANTS],
           entry->kernel.ptx.constant_count * sizeof entry->kernel.ptx.constants[0]);
    return vulkan_device_check(
        vulkan_ptx_make(kernels->device->handle, entry->ptx, &entry->kernel.ptx), entry->ptx->name,
        error);
}

static bool is_made(const struct kernel_entry *entry)
{
    return entry->ptx ? entry->kernel.ptx.handle != VK_NULL_HANDLE
                      : entry->kernel.pipeline != VK_NULL_HANDLE;
}

static bool same(const struct vulkan_specialization *a, const struct vulkan_specialization *b)
{
    return a->count == b->count &&
           memcmp(a->values, b->values, a->count * sizeof a->values[0]) == 0;
}

/* FNV-1a, a word at a time. */
static uint32_t bucket_of(const void *code, const struct vulkan_specialization *specialization)
{
    uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)code;
    for (uint32_t i = 0; i < specialization->count; i++)
        hash = (hash ^ specialization->values[i]) * 0x100000001b3u;
    return (uint32_t)(hash >> 32) % BUCKETS;
}

/* Logs shader and constants, to find the choice that vulkan_warm.c missed. */
static void log_late(const char *name, const struct vulkan_specialization *specialization)
{
    char text[VULKAN_CONSTANTS_MAX * CONSTANT_CHARS + 1] = "";
    int length = 0;
    for (uint32_t i = 0; i < specialization->count; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " %u", specialization->values[i]);
    log_info(
        "kernel %s was not made at load, and is now, in the middle of a step; its constants:%s",
        name, text);
}

/* `wanted`: name, code and specialization of the kernel. */
static enum result get(struct vulkan_kernels *kernels, const struct kernel_entry *wanted,
                       const struct vulkan_kernel **kernel, struct error_text *error)
{
    const struct vulkan_specialization *specialization = &wanted->specialization;
    must(specialization->count >= 1 && specialization->count <= VULKAN_CONSTANTS_MAX);
    must(specialization->values[0] >= 1 &&
         specialization->values[0] <= kernels->device->facts.max_invocations);
    struct kernel_entry **bucket = &kernels->buckets[bucket_of(wanted->code, specialization)];
    for (struct kernel_entry *entry = *bucket; entry; entry = entry->next) {
        if (entry->code == wanted->code && same(&entry->specialization, specialization)) {
            *kernel = &entry->kernel;
            return RESULT_OK;
        }
    }
    struct kernel_entry *entry = must_alloc(1, sizeof *entry);
    *entry = *wanted;
    entry->kernel.layout = kernels->layout;
    enum result result = kernels->noting ? RESULT_OK : make_kernel(kernels, entry, error);
    if (result != RESULT_OK) {
        free(entry);
        return result;
    }
    if (kernels->complete) {
        log_late(entry->kernel.name, specialization);
        vulkan_kernels_save(kernels); /* so that the next worker has it in the cache */
    }
    entry->next = *bucket;
    *bucket = entry;
    kernels->count++;
    *kernel = &entry->kernel;
    return RESULT_OK;
}

enum result vulkan_kernels_get_words(struct vulkan_kernels *kernels, const char *name,
                                     const uint32_t *words, uint32_t word_count,
                                     const struct vulkan_specialization *specialization,
                                     const struct vulkan_kernel **kernel, struct error_text *error)
{
    const struct kernel_entry wanted = {.code = words,
                                        .word_count = word_count,
                                        .specialization = *specialization,
                                        .kernel.name = name};
    return get(kernels, &wanted, kernel, error);
}

void vulkan_kernels_note(struct vulkan_kernels *kernels)
{
    kernels->noting = true;
}

/* Noted kernels, distributed over threads. */
struct making {
    struct vulkan_kernels *kernels;
    struct kernel_entry **entries; /* [count] without a pipeline */
    uint32_t count;
    _Atomic uint32_t next;
    _Atomic uint32_t made;
    enum result *results; /* [threads] */
    struct error_text *errors;
    vulkan_kernels_progress_fn *progress;
    void *context;
};

static void make_share(void *context, uint32_t thread)
{
    struct making *making = context;
    while (making->results[thread] == RESULT_OK) {
        uint32_t index = atomic_fetch_add(&making->next, 1);
        if (index >= making->count)
            return;
        making->results[thread] =
            make_kernel(making->kernels, making->entries[index], &making->errors[thread]);
        uint32_t made = atomic_fetch_add(&making->made, 1) + 1;
        if (thread == 0 && making->progress) /* only on the calling thread */
            making->progress(making->context, made, making->count);
    }
}

enum result vulkan_kernels_make_noted(struct vulkan_kernels *kernels, struct thread_pool *pool,
                                      vulkan_kernels_progress_fn *progress, void *context,
                                      struct error_text *error)
{
    uint32_t threads = thread_pool_threads(pool);
    struct making making = {.kernels = kernels, .progress = progress, .context = context};
    making.entries = must_alloc(kernels->count + 1, sizeof(struct kernel_entry *));
    making.results = must_alloc(threads, sizeof *making.results);
    making.errors = must_alloc(threads, sizeof *making.errors);
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct kernel_entry *entry = kernels->buckets[i]; entry; entry = entry->next)
            if (!is_made(entry))
                making.entries[making.count++] = entry;
    thread_pool_run(pool, make_share, &making);
    kernels->noting = false;
    kernels->complete = true;
    enum result result = RESULT_OK;
    for (uint32_t t = 0; t < threads && result == RESULT_OK; t++)
        if (making.results[t] != RESULT_OK)
            result = error_set(error, making.results[t], "%s", making.errors[t].text);
    free(making.entries);
    free(making.results);
    free(making.errors);
    return result;
}

static const struct vulkan_shader *find_shader(const char *name)
{
    for (uint32_t i = 0; i < vulkan_shader_count; i++)
        if (strcmp(vulkan_shaders[i].name, name) == 0)
            return &vulkan_shaders[i];
    return NULL;
}

bool vulkan_kernels_has(const char *name)
{
    const struct vulkan_shader *shader = find_shader(name);
    return shader && shader->word_count > 0;
}

enum result vulkan_kernels_get(struct vulkan_kernels *kernels, const char *name,
                               const struct vulkan_specialization *specialization,
                               const struct vulkan_kernel **kernel, struct error_text *error)
{
    const struct vulkan_shader *shader = find_shader(name);
    if (!shader) {
        const struct vulkan_ptx *ptx = vulkan_ptx_find(name);
        must(ptx && specialization->count >= PTX_CONSTANTS &&
             specialization->count - PTX_CONSTANTS <= VULKAN_PTX_CONSTANTS_MAX);
        const struct kernel_entry wanted = {
            .code = ptx, .ptx = ptx, .specialization = *specialization, .kernel.name = ptx->name};
        return get(kernels, &wanted, kernel, error);
    }
    if (shader->word_count == 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "the shader compiler of this build could not compile %s", name);
    return vulkan_kernels_get_words(kernels, shader->name, shader->words, shader->word_count,
                                    specialization, kernel, error);
}

uint32_t vulkan_kernels_count(const struct vulkan_kernels *kernels)
{
    return kernels->count;
}
