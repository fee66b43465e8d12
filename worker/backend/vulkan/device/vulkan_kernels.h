/*
 * Compute pipelines, made from the embedded shaders by name and specialization constants, and kernels
 * in PTX, each once. Making one takes the driver milliseconds to seconds, so all are made while the worker
 * loads; what the driver compiled is kept in a file for the next worker if a path is given.
 *
 * Kernels have no descriptor sets: push constants (VULKAN_PUSH_BYTES at most) hold device
 * addresses.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_KERNELS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_KERNELS_H

#include "worker/backend/host/thread_pool.h"
#include "worker/backend/vulkan/device/vulkan_device.h"
#include "worker/backend/vulkan/device/vulkan_ptx.h"

#define VULKAN_PUSH_BYTES    128u
#define VULKAN_CONSTANTS_MAX 32u

/* constant_id i gets values[i]; values[0] is the number of invocations of a workgroup. Of a kernel in
 * PTX values[1] is its bytes of shared memory, and the others, an even number, follow the push constants as
 * parameters, two to a word. */
struct vulkan_specialization {
    uint32_t count;
    uint32_t values[VULKAN_CONSTANTS_MAX];
};

struct vulkan_kernel {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    const char *name;               /* of the shader */
    struct vulkan_ptx_function ptx; /* of a kernel in PTX, which has no pipeline */
};

struct vulkan_kernels;

/* `cache_path`: NULL, or a file that is read now and written by vulkan_kernels_save(). A file that
 * does not fit the device is ignored. */
enum result vulkan_kernels_create(const struct vulkan_device *device, const char *cache_path,
                                  struct vulkan_kernels **kernels,
                                  struct error_text *error) RESULT_CHECKED;
void vulkan_kernels_destroy(struct vulkan_kernels *kernels);
/* Atomic. If the file cannot be written, that is a log line and no error. */
void vulkan_kernels_save(const struct vulkan_kernels *kernels);

/* The kernel lives as long as `kernels`. must() a known shader name. RESULT_UNSUPPORTED when this
 * build's compiler could not compile it. */
enum result vulkan_kernels_get(struct vulkan_kernels *kernels, const char *name,
                               const struct vulkan_specialization *specialization,
                               const struct vulkan_kernel **kernel,
                               struct error_text *error) RESULT_CHECKED;
/* The same from SPIR-V that is not embedded (benchmarks of variants). */
enum result vulkan_kernels_get_words(struct vulkan_kernels *kernels, const char *name,
                                     const uint32_t *words, uint32_t word_count,
                                     const struct vulkan_specialization *specialization,
                                     const struct vulkan_kernel **kernel,
                                     struct error_text *error) RESULT_CHECKED;
/* From now on vulkan_kernels_get() only notes kernels; they must not be dispatched before
 * vulkan_kernels_make_noted(). */
void vulkan_kernels_note(struct vulkan_kernels *kernels);
/* Makes what was noted, on all threads of the pool, and ends the noting. `progress` (may be NULL)
 * is called repeatedly with the number made and the number noted. */
typedef void vulkan_kernels_progress_fn(void *context, uint32_t made, uint32_t count);
enum result vulkan_kernels_make_noted(struct vulkan_kernels *kernels, struct thread_pool *pool,
                                      vulkan_kernels_progress_fn *progress, void *context,
                                      struct error_text *error) RESULT_CHECKED;
/* Whether the build has this shader. */
bool vulkan_kernels_has(const char *name);
uint32_t vulkan_kernels_count(const struct vulkan_kernels *kernels);

#endif
