/*
 * A batch of images as the kernels of a vision plan read it: pixels, the position of each patch,
 * which patches see each other, and the row of the feature pool for each square. The host writes it
 * into mapped buffers, once for each batch.
 *
 * For attention a batch is one sequence: patch r is at position r of a cache whose block b holds
 * positions 16 b to 16 b + 15, and sees the positions of its span, a tile of the image or a window
 * of it.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PATCH_BATCH_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PATCH_BATCH_H

#include "worker/backend/host/image_patches.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"

/* The inputs of attention over spans of one kind. */
struct vulkan_patch_spans {
    uint64_t sights_address; /* struct vulkan_step_sight [patches] */
    uint64_t tiles_address;  /* struct vulkan_step_tile [tile_count] */
    uint32_t tile_count;
};

struct vulkan_patch_batch {
    const struct vulkan_device *device;
    uint32_t tile_rows;            /* vulkan_attention_policy.h */
    struct image_patches arranged; /* rows in the same order as on the CPU backend */
    struct vulkan_buffer pixels;
    struct vulkan_buffer buffer; /* everything else */
    struct vulkan_batch batch;   /* only addresses of rows, sequences and tables */
    uint64_t images_address;     /* struct vulkan_patch_image [tiles] */
    uint64_t feature_rows_address;
    uint64_t mixes_address; /* struct feature_mix [arranged.mix_count] */
    struct vulkan_patch_spans whole;
    struct vulkan_patch_spans windows; /* as `whole` if the model has no windows */
};

/* For batches of up to `max_rows` patches of this plan, which outlives it. */
enum result vulkan_patch_batch_init(struct vulkan_patch_batch *patches,
                                    const struct vulkan_device *device, const struct plan *plan,
                                    uint32_t max_rows, uint32_t tile_rows,
                                    struct error_text *error) RESULT_CHECKED;
/* A zeroed struct is fine. */
void vulkan_patch_batch_fini(struct vulkan_patch_batch *patches);

/* Writes the batch; the device must not be using the buffers. */
void vulkan_patch_batch_fill(struct vulkan_patch_batch *patches, const struct encode_batch *batch);

#endif
