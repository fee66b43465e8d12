/*
 * A batch of pictures as a tower's kernels read it: pixels, where each patch lies, which patches
 * see each other, and which row of the feature pool each square becomes. Written by the host into
 * mapped buffers, once for each batch.
 *
 * To attention a batch is one sequence: patch r stands at position r of a cache whose block b holds
 * positions 16 b to 16 b + 15, and sees those of its span, a tile of the picture or a window of it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PATCH_BATCH_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PATCH_BATCH_H

#include "worker/backend/host/cpu_patches.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"

/* What attention over spans of one kind reads. */
struct vulkan_patch_spans {
    uint64_t sights_address; /* struct vulkan_step_sight [patches] */
    uint64_t tiles_address;  /* struct vulkan_step_tile [tile_count] */
    uint32_t tile_count;
};

struct vulkan_patch_batch {
    const struct vulkan_device *device;
    uint32_t tile_rows;          /* vulkan_attention_policy.h */
    struct cpu_patches arranged; /* the order of rows is the CPU backend's */
    struct vulkan_buffer pixels;
    struct vulkan_buffer buffer; /* everything else */
    struct vulkan_batch batch;   /* addresses alone: rows, sequences, tables */
    uint64_t pictures_address;   /* struct vulkan_patch_image [tiles] */
    uint64_t feature_rows_address;
    struct vulkan_patch_spans whole;
    struct vulkan_patch_spans windows; /* of towers without: as whole */
};

/* For batches of up to `max_rows` patches of this plan, which outlives it. */
enum result vulkan_patch_batch_init(struct vulkan_patch_batch *patches,
                                    const struct vulkan_device *device, const struct plan *plan,
                                    uint32_t max_rows, uint32_t tile_rows,
                                    struct error_text *error) RESULT_CHECKED;
/* A zeroed struct is fine. */
void vulkan_patch_batch_fini(struct vulkan_patch_batch *patches);

/* Lays the batch down; the device must not be using the buffers. */
void vulkan_patch_batch_fill(struct vulkan_patch_batch *patches, const struct encode_batch *batch);

#endif
