/*
 * Memory of its own is there to be used: weights and a reserve (activations, the driver, a display)
 * are taken off, and the workers share the rest. That figure is the same in every life of a worker,
 * because it does not ask what is free; a request that one worker could hold, its successor must be
 * able to hold. What is free now only lowers it: others may be using the device. Half of the
 * reserve is left to changes of that figure from life to life; the largest step fits into either.
 *
 * Memory of the host is shared with everybody on it: a quarter, as the CPU backend takes, and no
 * more than 2 GiB.
 *
 * Never says less than the least that is worth a try; where even that is not free, taking it fails
 * with the driver's words.
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

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t most(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

uint64_t vulkan_kv_policy_bytes(const struct vulkan_kv_question *question)
{
    must(question->workers > 0);
    if (question->share_percent > 0)
        return question->memory_bytes / 100 * question->share_percent / question->workers;
    if (!question->own_memory)
        return most(least(question->memory_bytes / HOST_SHARE / question->workers, HOST_BYTES_MAX),
                    KV_BYTES_MIN);
    uint64_t reserve_bytes =
        most(question->memory_bytes / RESERVE_SHARE, RESERVE_BYTES_MIN + 2 * question->step_bytes);
    uint64_t always_bytes =
        less(question->memory_bytes, question->weights_bytes + reserve_bytes) / question->workers;
    uint64_t missing_bytes = question->weights_there ? 0 : question->weights_bytes;
    uint64_t now_bytes = less(question->free_bytes, missing_bytes + reserve_bytes / 2);
    return most(least(always_bytes, now_bytes), KV_BYTES_MIN);
}

uint64_t vulkan_kv_policy_most(const struct vulkan_kv_question *question)
{
    return less(question->memory_bytes, question->weights_bytes + question->step_bytes) /
           question->workers;
}
