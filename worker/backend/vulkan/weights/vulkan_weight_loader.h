/*
 * Getting a plan's matrices onto the device, at best without reading them: an earlier worker's are
 * in the vault.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_LOADER_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHT_LOADER_H

#include "worker/backend/vulkan/weights/vulkan_weights.h"

struct vulkan_weight_origin {
    enum worker_weights kind;
    struct error_text reason; /* why a vault that was given is not used; "" when it is */
};

/* Places and fills weights->matrices; vulkan_weights_init() came before. Waits while another worker
 * of the device fills the vault. Options say where the vault is; its descriptors stay theirs. */
enum result vulkan_weight_loader_run(struct vulkan_weights *weights,
                                     const struct backend_options *options,
                                     backend_progress_fn *progress, void *context,
                                     struct vulkan_weight_origin *origin,
                                     struct error_text *error) RESULT_CHECKED;

#endif
