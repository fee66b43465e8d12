/*
 * A LoRA adapter (worker/plan/lora_adapter.h) in device memory: of each pair A as it is and B transposed,
 * so that neighbouring invocations read neighbouring numbers. F32, F16 and BF16 keep their type;
 * Q8_0 becomes F32, as on the CPU.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_ADAPTER_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_ADAPTER_H

#include "worker/backend/vulkan/device/vulkan_memory.h"
#include "worker/plan/lora_adapter.h"

/* struct AdapterPair of shaders/adapter.glsl. */
struct vulkan_adapter_pair {
    uint64_t a;     /*  0: [rank, columns of the weight] */
    uint64_t b;     /*  8: [rank, rows, rounded up to an even number] */
    float scale;    /* 16 */
    uint32_t rank;  /* 20: 0: there is no pair */
    uint32_t kinds; /* 24: of a, and of b from bit 8 on: 0 f32, 1 f16, 2 bf16 */
    uint32_t rows;  /* 28: of the weight */
};
_Static_assert(sizeof(struct vulkan_adapter_pair) == 32, "byte map");

struct vulkan_adapter {
    uint32_t rank; /* of the widest pair */
    uint32_t pair_count;
    struct vulkan_adapter_pair *pairs;
    plan_weight_id *weights; /* [pair_count] */
    struct vulkan_arena *memory;
};

/* Copies the adapter's matrices. RESULT_OUT_OF_MEMORY, RESULT_TOO_LARGE; RESULT_UNSUPPORTED if a
 * weight has a number of columns that is no multiple of 4. */
enum result vulkan_adapter_create(const struct vulkan_device *device,
                                  const struct lora_adapter *source,
                                  struct vulkan_adapter **adapter,
                                  struct error_text *error) RESULT_CHECKED;
void vulkan_adapter_destroy(struct vulkan_adapter *adapter); /* NULL is allowed */

#endif
