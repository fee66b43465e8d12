/*
 * The dispatches of one step: the plan walked once, with kernels chosen for the step's shape and
 * barriers where one dispatch reads or overwrites what an earlier one touched.
 *
 * What is recorded depends on the shape alone; everything else is read from the batch's buffers, so
 * commands can be submitted again for another step of the same shape.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDER_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDER_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_profile.h"
#include "worker/backend/vulkan/device/vulkan_push.h"
#include "worker/backend/vulkan/policy/vulkan_row_policy.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/record/vulkan_patches.h"
#include "worker/backend/vulkan/record/vulkan_program.h"

struct vulkan_shape {
    uint32_t rows;
    uint32_t sequences;
    uint32_t logit_rows;
    uint32_t decodes;        /* sequences with one row */
    uint32_t tiles;          /* of the others' rows, for attention */
    bool whole;              /* every row is drawn from, in order: vulkan_program_whole() will do */
    enum vulkan_reach reach; /* of decodes; brief only where all rows are decodes, and drawn from */
    bool features;           /* some row is a feature */
    bool spans;              /* some row sees beyond itself */
    bool openings;           /* some row lies before --quantized-kv-start */
    uint32_t opening_tiles;  /* the first of the tiles: of rows that see nothing behind it */
    /* Of a vision plan. */
    uint32_t patches;
    uint32_t patch_features;
    uint32_t whole_tiles;
    uint32_t window_tiles;
};

struct vulkan_recording {
    const struct vulkan_program *program;
    const struct vulkan_batch *batch;
    const struct vulkan_patches *patches; /* of a vision plan */
    struct vulkan_shape shape;
    uint32_t first_op; /* of a vision plan, ops [first_op, end_op); 0 and 0: all */
    uint32_t end_op;
    uint64_t drawn_before;            /* u32: what the step before drew */
    struct vulkan_commands *commands; /* NULL: kernels are made and nothing is recorded */
    /* 0, or (without commands) attention's kernels are those of all steps that are like the shape:
     * decodes alone, of any number of rows from this one on, or not, of any sequences. */
    uint32_t least_rows;
    struct vulkan_profile *profile; /* or NULL */
};

/* Between vulkan_commands_begin() and _end(). */
enum result vulkan_recorder_run(const struct vulkan_recording *recording,
                                struct error_text *error) RESULT_CHECKED;

/* --- for the files that record ops --- */

struct vulkan_recorder {
    const struct vulkan_recording *recording;
    const struct vulkan_program *program;
    uint8_t *forms;         /* [op_count] enum vulkan_form bits that the op's output is wanted in */
    uint8_t *missing_forms; /* likewise: wanted, but not among those that the op's kernels write */
    /* [tensor_count + 4] since the last barrier; then KV cache, scratch, states, groups */
    bool *was_read;
    bool *was_written;
    plan_tensor_id grouped;             /* the route that the groups are of, or PLAN_NONE */
    uint32_t grouped_tile_rows;         /* of their tiles, at most */
    struct vulkan_attention_task asked; /* of the layer whose kernels were asked for last */
    uint32_t op;                        /* being recorded */
    enum result result;
    struct error_text *error;
};

/* What a dispatch touches besides weights and step data. Unused: PLAN_NONE. */
struct vulkan_touch {
    plan_tensor_id reads[3];
    plan_tensor_id writes[2];
    uint64_t weight_bytes; /* that it must read at least, for the profile; 0: none, or not told */
    uint64_t cache_bytes;  /* of keys and values, likewise */
    const char *name;      /* a literal, for the profile; NULL: the shader's */
    bool side_by_side; /* writes other rows than the dispatch before it: no order between them */
};
plan_tensor_id vulkan_recorder_kv(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_scratch(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_states(const struct vulkan_recorder *recorder);
plan_tensor_id vulkan_recorder_groups(const struct vulkan_recorder *recorder);

/* A kernel by name with its push constants. After an error it does nothing. */
void vulkan_recorder_dispatch(struct vulkan_recorder *recorder, const char *shader,
                              const struct vulkan_specialization *specialization, const void *push,
                              uint32_t push_bytes, struct vulkan_grid grid,
                              const struct vulkan_touch *touch);
/* A kernel over one row, as the policy dispatches it. */
void vulkan_recorder_row_kernel(struct vulkan_recorder *recorder,
                                const struct vulkan_row_task *task, const void *push,
                                uint32_t push_bytes, const struct vulkan_touch *touch);
/* The biases of the bias_add op `index` into every row of its output, in place of what is there. */
void vulkan_recorder_lay_bias(struct vulkan_recorder *recorder, uint32_t index);
/* A tensor's f32 rows into another of the same shape. */
void vulkan_recorder_copy(struct vulkan_recorder *recorder, plan_tensor_id from, plan_tensor_id to);
uint32_t vulkan_recorder_rows(const struct vulkan_recorder *recorder, plan_tensor_id tensor);
struct vulkan_outputs_push vulkan_recorder_outputs(const struct vulkan_recorder *recorder,
                                                   plan_tensor_id tensor, uint32_t forms);
/* Whether the op's output is written tiled, and not as f16. */
bool vulkan_recorder_tiled(const struct vulkan_recorder *recorder, uint32_t op);
struct vulkan_matrix_push vulkan_recorder_matrix(const struct vulkan_matrix *matrix);

#endif
