/*
 * Steps on the device: at most STEP_DEPTH_MAX in flight, each in a slot with its inputs and
 * results. One submission per step, two if its draws await masks. Commands of pure decode steps are recorded once per slot,
 * number of rows and reach of their contexts and submitted again; other steps are recorded each
 * time.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_STEP_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_STEP_H

#include "worker/backend/host/backend_options.h"
#include "worker/backend/host/step_batch.h"
#include "worker/backend/vulkan/record/vulkan_recording.h"
#include "worker/backend/vulkan/step/vulkan_image_encoder.h"

struct vulkan_steps; /* opaque */

struct vulkan_steps_options {
    uint32_t depth;              /* 1..STEP_DEPTH_MAX */
    _Atomic uint64_t *heartbeat; /* or NULL */
    bool profile;
    bool keeps_logits;        /* struct backend_options */
    bool kernels_when_needed; /* struct vulkan_settings */
};

enum result vulkan_steps_create(struct vulkan_program *program,
                                const struct vulkan_steps_options *options,
                                struct vulkan_steps **steps,
                                struct error_text *error) RESULT_CHECKED;
/* Waits for the device. */
void vulkan_steps_destroy(struct vulkan_steps *steps);

/* Makes every kernel that a step, or an encoder (images, sounds; either may be NULL), can need, so that none
 * waits for the driver's compiler. `threads`: 0 = one per core. */
enum result vulkan_steps_warm(struct vulkan_steps *steps,
                              const struct vulkan_image_encoder *const encoders[2],
                              uint32_t threads, backend_progress_fn *progress, void *context,
                              struct error_text *error) RESULT_CHECKED;

/* As in backend.h. */
bool vulkan_steps_draw_ahead(const struct vulkan_steps *steps, const struct row_sampling *sampling);
enum result vulkan_steps_launch(struct vulkan_steps *steps, const struct step_batch *batch,
                                struct error_text *error) RESULT_CHECKED;
enum result vulkan_steps_draw(struct vulkan_steps *steps, const struct row_sampling *samplings,
                              struct error_text *error) RESULT_CHECKED;
enum result vulkan_steps_wait(struct vulkan_steps *steps, struct sampled_token *results,
                              struct error_text *error) RESULT_CHECKED;
/* Forgets recorded commands, because addresses in them have changed. No step is in flight. */
void vulkan_steps_forget(struct vulkan_steps *steps);
const float *vulkan_steps_last_logits(const struct vulkan_steps *steps);
/* The same of plan->hidden_out, after the step launched last was waited for. */
const float *vulkan_steps_last_hidden(const struct vulkan_steps *steps);
const float *vulkan_steps_last_passed(const struct vulkan_steps *steps, uint32_t index);

#endif
