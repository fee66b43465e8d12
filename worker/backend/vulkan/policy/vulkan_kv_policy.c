/*
 * The cache gets the device's own memory less weights and a reserve (activations, the driver, a
 * display), divided among the workers. This figure does not depend on free memory, so it is the
 * same after a restart: the next worker must be able to hold any request that the last one held.
 * Free memory only lowers it, since other programs may use the device. Half of the reserve absorbs
 * changes of free memory between restarts; the largest step fits into the other half.
 *
 * If the memory is the host's: a quarter of it, like the CPU backend, and at most 2 GiB.
 *
 * Never less than a usable minimum; if even that is not free, the allocation fails with the
 * driver's error.
 */
#include "worker/backend/vulkan/policy/vulkan_kv_policy.h"

#include "proto/must.h"

#define RESERVE_SHARE     10u
#define RESERVE_BYTES_MIN (1ull << 30)
#define HOST_SHARE        4u
#define HOST_BYTES_MAX    (2ull << 30)
#define KV_BYTES_MIN      (64ull << 20)

static uint64_t less(uint64_t from, uint64_t bytes)
{
    return from > bytes ? from - bytes : 0;
}

static uint64_t min(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t max(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

uint64_t vulkan_kv_policy_bytes(const struct vulkan_kv_question *question)
{
    must(question->workers > 0);
    if (question->share_percent > 0)
        return question->memory_bytes / 100 * question->share_percent / question->workers;
    if (!question->own_memory)
        return max(min(question->memory_bytes / HOST_SHARE / question->workers, HOST_BYTES_MAX),
                   KV_BYTES_MIN);
    uint64_t reserve_bytes =
        max(question->memory_bytes / RESERVE_SHARE, RESERVE_BYTES_MIN + 2 * question->step_bytes);
    uint64_t always_bytes =
        less(question->memory_bytes, question->weights_bytes + reserve_bytes) / question->workers;
    uint64_t missing_bytes = question->weights_there ? 0 : question->weights_bytes;
    uint64_t now_bytes = less(question->free_bytes, missing_bytes + reserve_bytes / 2);
    return max(min(always_bytes, now_bytes), KV_BYTES_MIN);
}

uint64_t vulkan_kv_policy_most(const struct vulkan_kv_question *question)
{
    return less(question->memory_bytes, question->weights_bytes + question->step_bytes) /
           question->workers;
}
