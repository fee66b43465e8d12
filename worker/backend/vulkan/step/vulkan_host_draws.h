/*
 * Rows that the host draws: those with DRY, XTC, mirostat, dynamic temperature or rules of speech, which the device's
 * sampler does not have. Their step copies its logits to the host and is waited for when it is
 * launched; the rows are then drawn by worker/sample/row_sampler.h, one after another. The device
 * draws the other rows of the step.
 *
 * Because the step is over before the launch returns, nothing that a row's parameters point to has to
 * outlive the launch.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_HOST_DRAWS_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_HOST_DRAWS_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/sample/row_sampler.h"

struct vulkan_host_draws; /* opaque */

/* For steps of up to `max_rows` rows of logits. Memory for logits is allocated when first needed. */
struct vulkan_host_draws *vulkan_host_draws_create(const struct vulkan_device *device,
                                                   uint32_t vocab_tokens, uint32_t max_rows);
void vulkan_host_draws_destroy(struct vulkan_host_draws *draws);

/* Whether the host draws such rows; forced ones of such a request too. */
bool vulkan_host_draws_wanted(const struct row_sampling *sampling);

/* Takes a step's rows. *samplings: what the device does instead, if *count, the number of rows that
 * the host draws, is above 0; it is valid until the next call. */
enum result vulkan_host_draws_begin(struct vulkan_host_draws *draws,
                                    const struct row_sampling **samplings, uint32_t row_count,
                                    uint32_t *count, struct error_text *error) RESULT_CHECKED;
/* [rows of the step, vocab_tokens]; copied to before the device's sampler changes the logits. */
const struct vulkan_buffer *vulkan_host_draws_logits(const struct vulkan_host_draws *draws);
/* Draws from the copied logits with the samplings that begin() was given. */
void vulkan_host_draws_run(struct vulkan_host_draws *draws, const struct row_sampling *samplings);
/* Puts the results of the last run() in their rows' places and forgets them. */
void vulkan_host_draws_read(struct vulkan_host_draws *draws, struct sampled_token *results);

#endif
