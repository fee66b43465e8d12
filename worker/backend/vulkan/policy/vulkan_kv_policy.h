/*
 * Size of the KV cache when no option sets it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_KV_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_KV_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct vulkan_kv_question {
    bool own_memory;        /* the device's memory is not the host's */
    uint64_t memory_bytes;  /* of the device */
    uint64_t free_bytes;    /* of these, now */
    uint64_t weights_bytes; /* that the model needs */
    uint64_t step_bytes;    /* approximate need of tensors and scratch memory of the largest step */
    bool weights_there;     /* they are in the vault: free_bytes is without them */
    uint32_t share_percent; /* share of memory_bytes that an option sets; 0: none */
    uint32_t workers;       /* that share the device and its weights, including this one; > 0 */
};

/* Pure. */
uint64_t vulkan_kv_policy_bytes(const struct vulkan_kv_question *question);
/* Memory for each worker after the weights; a larger share cannot work. Pure. */
uint64_t vulkan_kv_policy_most(const struct vulkan_kv_question *question);

#endif
