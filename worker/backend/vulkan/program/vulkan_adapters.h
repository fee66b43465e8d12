/*
 * The LoRA adapters that are loaded: a table of their pairs that kernels read by weight and slot, and
 * the rows' products with A between the two parts of a product (record/vulkan_adapter_part.h).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_ADAPTERS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_ADAPTERS_H

#include "proto/limits.h"
#include "worker/backend/vulkan/weights/vulkan_adapter.h"

struct vulkan_adapters {
    const struct vulkan_device *device;
    const struct plan *plan;
    uint32_t max_rows;
    struct vulkan_adapter *slots[LIMIT_ADAPTERS]; /* NULL: empty */
    uint32_t *users;                              /* [plan->weight_count] adapters that change it */
    struct vulkan_buffer table; /* struct vulkan_adapter_pair [weight_count][LIMIT_ADAPTERS] */
    uint32_t rank;              /* columns of low: of the widest pair ever loaded */
    struct vulkan_buffer low;   /* f32 [max_rows][OP_WEIGHTS_MAX][rank], by place in the order */
};

/* No adapters yet. `plan` and `device` outlive it. */
enum result vulkan_adapters_create(const struct vulkan_device *device, const struct plan *plan,
                                   uint32_t max_rows, struct vulkan_adapters **adapters,
                                   struct error_text *error) RESULT_CHECKED;
/* Memory beside the adapters' own matrices, if the widest has USUAL_RANK. */
uint64_t vulkan_adapters_bytes(const struct plan *plan, uint32_t max_rows);
void vulkan_adapters_destroy(struct vulkan_adapters *adapters); /* NULL is allowed */

/* While no step is in flight; recordings made before are not valid afterwards. The slot is empty.
 * The errors of vulkan_adapter_create(). */
enum result vulkan_adapters_load(struct vulkan_adapters *adapters, uint32_t slot,
                                 const struct lora_adapter *source,
                                 struct error_text *error) RESULT_CHECKED;
void vulkan_adapters_drop(struct vulkan_adapters *adapters, uint32_t slot); /* it may be empty */

/* Whether an adapter changes one of the op's weights. */
bool vulkan_adapters_change(const struct vulkan_adapters *adapters, const struct plan_op *op);
/* Address of the pairs of a weight, [LIMIT_ADAPTERS]. */
uint64_t vulkan_adapters_pairs(const struct vulkan_adapters *adapters, plan_weight_id weight);

#endif
