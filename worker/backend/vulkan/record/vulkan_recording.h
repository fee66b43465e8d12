/*
 * What is recorded: a program at the shape of a step, and the buffers that its kernels read.
 *
 * What is recorded depends on the shape alone; everything else is read from the batch's buffers, so
 * commands can be submitted again for another step of the same shape.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDING_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECORDING_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_profile.h"
#include "worker/backend/vulkan/program/vulkan_program.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/record/vulkan_patch_batch.h"

struct vulkan_shape {
    uint32_t rows;
    uint32_t sequences;
    uint32_t logit_rows;
    uint32_t decodes;        /* sequences with one row */
    uint32_t tiles;          /* of the others' rows, for attention */
    bool whole;              /* every row is drawn from, in order: the recording may use
                              * vulkan_program_whole() */
    enum vulkan_reach reach; /* of decodes; short only if all rows are decodes and drawn from */
    bool features;           /* some row is a feature */
    bool spans;              /* some row sees positions after its own */
    bool openings;           /* some row lies before --quantized-kv-start */
    bool adapted; /* some row has an adapter: the recording uses vulkan_program_adapted() */
    uint32_t opening_tiles; /* the first tiles: rows that see only the opening */
    /* Of a vision plan. */
    uint32_t patches;
    uint32_t patch_features;
    uint32_t mixes; /* rows of mosaics */
    uint32_t whole_tiles;
    uint32_t window_tiles;
};

struct vulkan_recording {
    const struct vulkan_program *program;
    const struct vulkan_batch *batch;
    const struct vulkan_patch_batch *patches; /* of a vision plan */
    struct vulkan_shape shape;
    uint32_t first_op; /* of a vision plan: ops [first_op, end_op); both 0: all */
    uint32_t end_op;
    uint64_t drawn_before;            /* u32: the tokens that the step before drew */
    struct vulkan_commands *commands; /* NULL: kernels are made and nothing is recorded */
    /* Without commands: if not 0, requests the attention kernels of all steps like the shape:
     * decodes only, with from min_rows to shape.rows rows; or steps with prompts, of any
     * sequences. */
    uint32_t min_rows;
    struct vulkan_profile *profile; /* or NULL */
};

#endif
