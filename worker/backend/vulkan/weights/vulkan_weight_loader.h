/*
 * Brings a plan's matrices to the device, from the vault of an earlier worker if possible.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_LOADER_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_LOADER_H

#include "proto/worker_weights.h"
#include "worker/backend/vulkan/weights/vulkan_weights.h"

struct vulkan_weight_origin {
    enum worker_weights kind;
    struct error_text reason; /* why a given vault is not used; "" if it is used */
};

/* Places and fills weights->matrices, after vulkan_weights_init(). Waits while another worker of
 * the device fills the vault. The options name the vault; its descriptors stay the caller's. */
enum result vulkan_weight_loader_run(struct vulkan_weights *weights,
                                     const struct backend_options *options,
                                     backend_progress_fn *progress, void *context,
                                     struct vulkan_weight_origin *origin,
                                     struct error_text *error) RESULT_CHECKED;

#endif
