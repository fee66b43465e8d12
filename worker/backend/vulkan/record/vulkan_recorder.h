/*
 * The state of a recording, and what the files that record ops use: dispatches with barriers where
 * one dispatch reads or overwrites what an earlier one touched.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDER_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDER_H

#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/record/vulkan_recording.h"

struct vulkan_recorder {
    const struct vulkan_recording *recording;
    const struct vulkan_program *program;
    uint8_t *forms;         /* [op_count] enum vulkan_form bits of the op's output */
    uint8_t *missing_forms; /* [op_count] forms that are needed but not written by the op's own
                             * kernel */
    /* [tensor_count + 5] since the last barrier; then KV cache, scratch, states, groups, and the
     * products of rows with A of adapters */
    bool *was_read;
    bool *was_written;
    plan_tensor_id grouped;                 /* the route that the groups are of, or PLAN_NONE */
    uint32_t grouped_tile_rows;             /* of their tiles, at most */
    struct vulkan_attention_task requested; /* of the layer whose kernels were requested last */
    uint32_t op;                            /* being recorded */
    enum result result;
    struct error_text *error;
};

/* Nothing read or written yet, no forms chosen. `recording` outlives it. */
void vulkan_recorder_init(struct vulkan_recorder *recorder,
                          const struct vulkan_recording *recording, struct error_text *error);
void vulkan_recorder_fini(struct vulkan_recorder *recorder);

/* Tensors that a dispatch reads and writes. Unused: PLAN_NONE. */
struct vulkan_touch {
    plan_tensor_id reads[3];
    plan_tensor_id writes[2];
    uint64_t weight_bytes; /* weights read, for the profile; 0: none or unknown */
    uint64_t cache_bytes;  /* keys and values read, likewise */
    const char *name;      /* a literal, for the profile; NULL: the shader's */
    bool side_by_side; /* writes other rows than the dispatch before it: no barrier between them */
};
plan_tensor_id vulkan_recorder_kv(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_scratch(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_states(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_groups(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_low(const struct vulkan_recorder *recorder);

/* Dispatches a kernel by name with its push constants. Does nothing after an error. */
void vulkan_recorder_dispatch(struct vulkan_recorder *recorder, const char *shader,
                              const struct vulkan_specialization *specialization, const void *push,
                              uint32_t push_bytes, struct vulkan_grid grid,
                              const struct vulkan_touch *touch);
/* Dispatches a kernel over one row as the policy chooses. */
void vulkan_recorder_row_kernel(struct vulkan_recorder *recorder,
                                const struct vulkan_row_task *task, const void *push,
                                uint32_t push_bytes, const struct vulkan_touch *touch);
/* Copies a tensor's f32 rows to a tensor of the same shape. */
void vulkan_recorder_copy(struct vulkan_recorder *recorder, plan_tensor_id from, plan_tensor_id to);
uint32_t vulkan_recorder_rows(const struct vulkan_recorder *recorder, plan_tensor_id tensor);
struct vulkan_outputs_push vulkan_recorder_outputs(const struct vulkan_recorder *recorder,
                                                   plan_tensor_id tensor, uint32_t forms);
/* Whether the op's output is written tiled, and not as f16. */
bool vulkan_recorder_tiled(const struct vulkan_recorder *recorder, uint32_t op);
/* Likewise staged. */
bool vulkan_recorder_staged(const struct vulkan_recorder *recorder, uint32_t op);
struct vulkan_matrix_push vulkan_recorder_matrix(const struct vulkan_matrix *matrix);

#endif
