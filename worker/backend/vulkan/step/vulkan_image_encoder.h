/*
 * A model's vision plan on a device: its program, the current batch of images and the stages in
 * flight. Features are written into the feature pool of the text's program.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_IMAGE_ENCODER_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_IMAGE_ENCODER_H

#include "worker/backend/host/encode_batch.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

struct vulkan_image_encoder; /* opaque */

/* For options->vision, into the pool of `text`; both outlive it. Its weights are uploaded here. */
enum result vulkan_image_encoder_create(const struct vulkan_program *text,
                                        const struct backend_options *options,
                                        backend_progress_fn *progress, void *context,
                                        struct vulkan_image_encoder **vision,
                                        struct error_text *error) RESULT_CHECKED;
/* Waits for the device. Accepts NULL. */
void vulkan_image_encoder_destroy(struct vulkan_image_encoder *vision);

/* Requests every kernel that images of any size may need, between vulkan_kernels_note() and
 * _make_noted(). */
enum result vulkan_image_encoder_warm(const struct vulkan_image_encoder *vision,
                                      struct error_text *error) RESULT_CHECKED;

/* As in backend.h; work is cut into whole stages, which are in flight when it returns. */
enum result vulkan_image_encoder_begin(struct vulkan_image_encoder *vision,
                                       const struct encode_batch *batch,
                                       struct error_text *error) RESULT_CHECKED;
enum result vulkan_image_encoder_run(struct vulkan_image_encoder *vision, uint64_t work,
                                     uint64_t *left, struct error_text *error) RESULT_CHECKED;
/* Waits for all stages in flight. */
enum result vulkan_image_encoder_finish(struct vulkan_image_encoder *vision,
                                        struct error_text *error) RESULT_CHECKED;

/* Approximate device memory of a vision plan without weights. */
uint64_t vulkan_image_encoder_bytes(const struct backend_options *options);

#endif
