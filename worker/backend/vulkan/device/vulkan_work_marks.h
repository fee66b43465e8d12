/*
 * Counts a device's work in shared memory (shm/device_work.h): the last kernel of every recording for the
 * compute queue adds one to the number of finished submissions. Uploads on the transfer queue are not
 * counted: they write to no memory that outlives the process.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_WORK_MARKS_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_WORK_MARKS_H

#include "shm/device_work.h"
#include "worker/backend/vulkan/device/vulkan_kernels.h"
#include "worker/backend/vulkan/device/vulkan_memory.h"
#include "worker/backend/vulkan/device/vulkan_push.h"

struct vulkan_work_marks {
    struct device_work *work;
    VkBuffer page; /* `work`, for the device */
    VkDeviceMemory memory;
    struct vulkan_buffer count;         /* of the device's own */
    const struct vulkan_kernel *kernel; /* NULL: not begun */
    struct vulkan_work_mark_push push;
};

/* Lets the device write to `work`, which must outlive it. RESULT_UNSUPPORTED if it cannot write to memory
 * that it did not allocate. */
enum result vulkan_work_marks_create(const struct vulkan_device *device, struct device_work *work,
                                     struct vulkan_work_marks **marks,
                                     struct error_text *error) RESULT_CHECKED;
/* Once the device is idle. NULL is allowed. */
void vulkan_work_marks_destroy(const struct vulkan_device *device, struct vulkan_work_marks *marks);
/* From now on recordings count, and work->marked says so. No work is under way. */
enum result vulkan_work_marks_begin(struct vulkan_work_marks *marks, struct vulkan_kernels *kernels,
                                    struct error_text *error) RESULT_CHECKED;
/* Before a recording that counts is submitted. */
void vulkan_work_marks_count(struct vulkan_work_marks *marks);

#endif
