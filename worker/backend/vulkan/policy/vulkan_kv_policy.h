/*
 * How much of a device's memory does the KV cache get where nobody says?
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
    uint64_t step_bytes;    /* that tensors and scratch memory of the largest step need, about */
    bool weights_there;     /* they are in the vault: free_bytes is without them */
    uint32_t share_percent; /* of memory_bytes that was asked for; 0: none was */
    uint32_t workers;       /* that share the device and its weights, this one with them; > 0 */
};

/* Pure. */
uint64_t vulkan_kv_policy_bytes(const struct vulkan_kv_question *question);
/* What the weights leave to each worker: a share that is more cannot work. Pure. */
uint64_t vulkan_kv_policy_most(const struct vulkan_kv_question *question);

#endif
