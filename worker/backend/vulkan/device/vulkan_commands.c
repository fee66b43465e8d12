/*
 * Recording and submitting.
 *
 * A barrier is one global memory barrier over compute and copies: kernels address memory by
 * pointer, so there is nothing narrower to name. The host sees what was written once the recording
 * has ended. Completion is a fence per command buffer; a waiter polls a few times before it sleeps,
 * because a step has nearly ended when it is waited for and waking up costs tens of microseconds.
 */
#include "worker/backend/vulkan/device/vulkan_commands.h"

#include <stdlib.h>
#include <time.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_work_marks.h"

#define RUN_TIMEOUT_MS 300000u /* drivers for the CPU compile kernels when they are first run */
#define LOOKS          2000u   /* some hundred microseconds */
#define TAKEOVER_NS    3000000000u
#define ROOM_COMMANDS  2000u /* as many as the kernels and barriers of a large model's step */

struct vulkan_spare_commands {
    struct vulkan_commands *list[VULKAN_SPARE_COMMANDS_MAX];
    uint32_t count;
    uint64_t poll_until_ns; /* 0: nothing was waited for yet */
};

struct vulkan_commands {
    const struct vulkan_device *device;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer buffer;
    VkFence fence;
    VkQueryPool queries;
    uint32_t query_count;
    const struct vulkan_kernel *bound;
    struct vulkan_commands_counts counts;
    bool counts_work; /* the recording (vulkan_work_marks.h) */
    bool in_flight;
};

static enum result create_parts(struct vulkan_commands *commands, uint32_t family,
                                struct error_text *error)
{
    VkDevice handle = commands->device->handle;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = family};
    VkResult outcome = vkCreateCommandPool(handle, &pool, NULL, &commands->pool);
    if (outcome == VK_SUCCESS) {
        const VkCommandBufferAllocateInfo buffer = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = commands->pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1};
        outcome = vkAllocateCommandBuffers(handle, &buffer, &commands->buffer);
    }
    if (outcome == VK_SUCCESS) {
        const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        outcome = vkCreateFence(handle, &fence, NULL, &commands->fence);
    }
    if (outcome == VK_SUCCESS && commands->query_count > 0) {
        const VkQueryPoolCreateInfo queries = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                               .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                               .queryCount = commands->query_count};
        outcome = vkCreateQueryPool(handle, &queries, NULL, &commands->queries);
    }
    return vulkan_device_check(outcome, "command buffer", error);
}

static enum result make(const struct vulkan_device *device, enum vulkan_queue queue,
                        uint32_t timestamps, struct vulkan_commands **created,
                        struct error_text *error)
{
    struct vulkan_commands *commands = must_alloc(1, sizeof *commands);
    bool compute = queue == VULKAN_QUEUE_COMPUTE;
    commands->device = device;
    commands->queue = compute ? device->queue : device->transfer_queue;
    commands->query_count = device->facts.timestamp_ns > 0 ? timestamps : 0;
    enum result result =
        create_parts(commands, compute ? device->queue_family : device->transfer_family, error);
    if (result != RESULT_OK) {
        vulkan_commands_destroy(commands);
        return result;
    }
    *created = commands;
    return RESULT_OK;
}

enum result vulkan_commands_create(const struct vulkan_device *device, enum vulkan_queue queue,
                                   uint32_t timestamps, struct vulkan_commands **created,
                                   struct error_text *error)
{
    struct vulkan_spare_commands *spare = device->spare;
    if (!spare || spare->count == 0 || queue != VULKAN_QUEUE_COMPUTE || timestamps > 0)
        return make(device, queue, timestamps, created, error);
    *created = spare->list[--spare->count];
    return RESULT_OK;
}

/* Has the driver take the memory that a recording of a step needs; it keeps it for the next one. */
static enum result make_room(struct vulkan_commands *commands, const struct vulkan_buffer *target,
                             struct error_text *error)
{
    enum result result = vulkan_commands_begin(commands, error);
    for (uint32_t i = 0; i < ROOM_COMMANDS && result == RESULT_OK; i++)
        vulkan_commands_fill(commands, target, 0, sizeof(uint32_t), 0);
    if (result == RESULT_OK)
        result = vulkan_commands_end(commands, error);
    return result == RESULT_OK ? vulkan_commands_begin(commands, error) : result;
}

enum result vulkan_spare_commands_create(const struct vulkan_device *device, uint32_t count,
                                         struct vulkan_spare_commands **created,
                                         struct error_text *error)
{
    struct vulkan_spare_commands *spare = must_alloc(1, sizeof *spare);
    struct vulkan_buffer target = {0};
    must(count <= VULKAN_SPARE_COMMANDS_MAX);
    enum result result = vulkan_buffer_create(device, VULKAN_UPLOAD, sizeof(uint32_t),
                                              "spare commands", &target, error);
    while (result == RESULT_OK && spare->count < count) {
        result = make(device, VULKAN_QUEUE_COMPUTE, 0, &spare->list[spare->count], error);
        if (result == RESULT_OK)
            result = make_room(spare->list[spare->count++], &target, error);
    }
    vulkan_buffer_destroy(device, &target);
    if (result != RESULT_OK) {
        vulkan_spare_commands_destroy(spare);
        return result;
    }
    *created = spare;
    return RESULT_OK;
}

void vulkan_spare_commands_destroy(struct vulkan_spare_commands *spare)
{
    for (uint32_t i = 0; spare && i < spare->count; i++)
        vulkan_commands_destroy(spare->list[i]);
    free(spare);
}

void vulkan_commands_destroy(struct vulkan_commands *commands)
{
    if (!commands)
        return;
    VkDevice handle = commands->device->handle;
    if (commands->in_flight)
        (void)vkWaitForFences(handle, 1, &commands->fence, VK_TRUE, UINT64_MAX);
    if (commands->queries)
        vkDestroyQueryPool(handle, commands->queries, NULL);
    if (commands->fence)
        vkDestroyFence(handle, commands->fence, NULL);
    if (commands->pool)
        vkDestroyCommandPool(handle, commands->pool, NULL);
    free(commands);
}

enum result vulkan_commands_begin(struct vulkan_commands *commands, struct error_text *error)
{
    must(!commands->in_flight);
    commands->bound = NULL;
    commands->counts = (struct vulkan_commands_counts){0};
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkResult outcome = vkResetCommandPool(commands->device->handle, commands->pool, 0);
    if (outcome == VK_SUCCESS)
        outcome = vkBeginCommandBuffer(commands->buffer, &info);
    if (outcome == VK_SUCCESS && commands->queries)
        vkCmdResetQueryPool(commands->buffer, commands->queries, 0, commands->query_count);
    return vulkan_device_check(outcome, "recording", error);
}

/* Orders the stages `from` before the stages `to` that follow. Names only the stages that need it:
 * measured on an H200, a barrier between empty dispatches takes 1.19 us among kernels and copies,
 * and 2.0 us if the host waits too. */
#define WORK_STAGES                                                                                \
    (VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_COPY_BIT |                       \
     VK_PIPELINE_STAGE_2_CLEAR_BIT)

static void record_barrier(struct vulkan_commands *commands, VkPipelineStageFlags2 from,
                           VkPipelineStageFlags2 to, VkAccessFlags2 access)
{
    const VkMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                      .srcStageMask = from,
                                      .srcAccessMask = from == WORK_STAGES
                                                           ? VK_ACCESS_2_SHADER_WRITE_BIT |
                                                                 VK_ACCESS_2_TRANSFER_WRITE_BIT
                                                           : VK_ACCESS_2_MEMORY_WRITE_BIT,
                                      .dstStageMask = to,
                                      .dstAccessMask = access};
    const VkDependencyInfo dependency = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
                                         .memoryBarrierCount = 1,
                                         .pMemoryBarriers = &barrier};
    vkCmdPipelineBarrier2(commands->buffer, &dependency);
}

void vulkan_commands_dispatch(struct vulkan_commands *commands, const struct vulkan_kernel *kernel,
                              const void *push, uint32_t push_bytes, struct vulkan_grid grid)
{
    must(push_bytes <= VULKAN_PUSH_BYTES);
    if (kernel->ptx.handle) {
        commands->bound = NULL;
        commands->counts.dispatches++;
        vulkan_ptx_launch(commands->device->launch, commands->buffer, &kernel->ptx, push,
                          push_bytes, grid.x, grid.y, grid.z);
        return;
    }
    if (commands->bound != kernel)
        vkCmdBindPipeline(commands->buffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    commands->bound = kernel;
    commands->counts.dispatches++;
    if (push_bytes > 0)
        vkCmdPushConstants(commands->buffer, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           push_bytes, push);
    vkCmdDispatch(commands->buffer, grid.x, grid.y, grid.z);
}

void vulkan_commands_barrier(struct vulkan_commands *commands)
{
    commands->counts.barriers++;
    record_barrier(commands, WORK_STAGES, WORK_STAGES,
                   VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT |
                       VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT);
}

void vulkan_commands_copy(struct vulkan_commands *commands, const struct vulkan_buffer *source,
                          uint64_t source_offset, const struct vulkan_buffer *target,
                          uint64_t target_offset, uint64_t bytes)
{
    must(source_offset <= source->bytes && bytes <= source->bytes - source_offset);
    must(target_offset <= target->bytes && bytes <= target->bytes - target_offset);
    const VkBufferCopy region = {source_offset, target_offset, bytes};
    vkCmdCopyBuffer(commands->buffer, source->handle, target->handle, 1, &region);
}

void vulkan_commands_fill(struct vulkan_commands *commands, const struct vulkan_buffer *target,
                          uint64_t offset, uint64_t bytes, uint32_t word)
{
    must(offset % 4 == 0 && bytes % 4 == 0);
    must(offset <= target->bytes && bytes <= target->bytes - offset);
    vkCmdFillBuffer(commands->buffer, target->handle, offset, bytes, word);
}

void vulkan_commands_timestamp(struct vulkan_commands *commands, uint32_t index)
{
    if (!commands->queries)
        return;
    must(index < commands->query_count);
    vkCmdWriteTimestamp2(commands->buffer, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, commands->queries,
                         index);
}

enum result vulkan_commands_end(struct vulkan_commands *commands, struct error_text *error)
{
    const struct vulkan_work_marks *marks = commands->device->marks;
    commands->counts_work = marks && marks->kernel && commands->queue == commands->device->queue;
    if (commands->counts_work) {
        record_barrier(commands, WORK_STAGES, VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                       VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT);
        vulkan_commands_dispatch(commands, marks->kernel, &marks->push, sizeof marks->push,
                                 (struct vulkan_grid){1, 1, 1});
    }
    record_barrier(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_2_HOST_BIT,
                   VK_ACCESS_2_HOST_READ_BIT); /* transfer queues have no compute stage */
    return vulkan_device_check(vkEndCommandBuffer(commands->buffer), "recording", error);
}

enum result vulkan_commands_submit(struct vulkan_commands *commands, struct error_text *error)
{
    must(!commands->in_flight);
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands->buffer};
    VkResult outcome = vkResetFences(commands->device->handle, 1, &commands->fence);
    if (commands->counts_work)
        vulkan_work_marks_count(commands->device->marks);
    if (outcome == VK_SUCCESS)
        outcome = vkQueueSubmit(commands->queue, 1, &info, commands->fence);
    commands->in_flight = outcome == VK_SUCCESS;
    return vulkan_device_check(outcome, "submission", error);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether this process took over so lately that the driver may still be busy with the one before: then it
 * is not asked to wake this thread up. */
static bool is_taking_over(const struct vulkan_device *device)
{
    struct vulkan_spare_commands *spare = device->spare;
    if (!spare)
        return false;
    if (spare->poll_until_ns == 0)
        spare->poll_until_ns = now_ns() + TAKEOVER_NS;
    return now_ns() < spare->poll_until_ns;
}

static VkResult poll_fence(const struct vulkan_commands *commands, uint64_t timeout_ns)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    uint64_t end_ns = now_ns() + timeout_ns;
    VkResult outcome = VK_NOT_READY;
    while (outcome == VK_NOT_READY) {
        outcome = vkGetFenceStatus(commands->device->handle, commands->fence);
        if (outcome == VK_NOT_READY && now_ns() >= end_ns)
            return VK_TIMEOUT;
        if (outcome == VK_NOT_READY)
            nanosleep(&pause, NULL);
    }
    return outcome;
}

enum result vulkan_commands_wait(struct vulkan_commands *commands, uint32_t timeout_ms,
                                 struct error_text *error)
{
    VkDevice handle = commands->device->handle;
    must(commands->in_flight);
    VkResult outcome = VK_NOT_READY;
    for (uint32_t look = 0; look < LOOKS && outcome == VK_NOT_READY; look++)
        outcome = vkGetFenceStatus(handle, commands->fence);
    uint64_t timeout_ns = (uint64_t)timeout_ms * 1000000u;
    if (outcome == VK_NOT_READY)
        outcome = is_taking_over(commands->device)
                      ? poll_fence(commands, timeout_ns)
                      : vkWaitForFences(handle, 1, &commands->fence, VK_TRUE, timeout_ns);
    if (outcome == VK_SUCCESS)
        commands->in_flight = false;
    return vulkan_device_check(outcome, "waiting for the device", error);
}

enum result vulkan_commands_run(struct vulkan_commands *commands, struct error_text *error)
{
    enum result result = vulkan_commands_submit(commands, error);
    return result == RESULT_OK ? vulkan_commands_wait(commands, RUN_TIMEOUT_MS, error) : result;
}

double vulkan_commands_elapsed_ns(const struct vulkan_commands *commands, uint32_t from,
                                  uint32_t to)
{
    uint64_t ticks[2] = {0, 0};
    if (!commands->queries)
        return 0.0;
    must(from < commands->query_count && to < commands->query_count && !commands->in_flight);
    if (vkGetQueryPoolResults(commands->device->handle, commands->queries, from, 1, sizeof ticks[0],
                              &ticks[0], sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS ||
        vkGetQueryPoolResults(commands->device->handle, commands->queries, to, 1, sizeof ticks[1],
                              &ticks[1], sizeof ticks[1], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return 0.0;
    return (double)(ticks[1] - ticks[0]) * commands->device->facts.timestamp_ns;
}

struct vulkan_commands_counts vulkan_commands_counts(const struct vulkan_commands *commands)
{
    return commands->counts;
}
