/*
 * Draws tokens on the device: rows of logits in, one token per row out, by the formulas of
 * worker/sample/row_sampler.h. Per step only this crosses the bus: 104 bytes of parameters a row
 * (and its biases, and a mask of a bit a token) to the device, 4 to 192 bytes a row back.
 *
 * Tokens are the CPU sampler's: sums are taken in the same order, or as integers.
 *
 * Counts for penalties are taken from `history`, the tokens that embed_rows keeps beside the KV
 * cache of group 0, so a row may be drawn before the host has read its last token. Without a
 * history (no group keeps all positions) they are uploaded with each step, and must then be
 * complete.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_SAMPLER_H
#define SHOAL_WORKER_BACKEND_VULKAN_STEP_VULKAN_SAMPLER_H

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/sample/row_sampler.h"

#define VULKAN_SAMPLER_SLOTS 2u /* steps in flight, each with its own records and results */

struct vulkan_sampler_options {
    uint32_t vocab_tokens;
    uint32_t max_rows;
    uint64_t logits;          /* device address of f32 [max_rows, vocab_tokens] */
    uint64_t history;         /* device address of u32 [blocks of group 0][KV_BLOCK_TOKENS], or 0 */
    bool kernels_when_needed; /* created by vulkan_sampler_fill() when first needed; else at
                               * creation */
};

/* Device addresses of a step's data (shaders/step.glsl); unused without a history. */
struct vulkan_sampler_step {
    uint64_t rows;
    uint64_t sequences;
    uint64_t tables;
    uint64_t logit_rows;
};

/* What is recorded for a step besides each row's largest logit, as bits. */
enum vulkan_sampler_work {
    VULKAN_SAMPLER_ANY = 1,     /* biases, masks, penalties, forced tokens, or what follows */
    VULKAN_SAMPLER_DRAWS = 2,   /* temperatures, or sums for log-probabilities */
    VULKAN_SAMPLER_FILTERS = 4, /* typical_p, top_n_sigma */
    VULKAN_SAMPLER_EXPLAINS = 8 /* log-probabilities that the draw itself does not give */
};
#define VULKAN_SAMPLER_WORKS 16u

struct vulkan_sampler; /* opaque */

/* `kernels` must live as long. */
enum result vulkan_sampler_create(const struct vulkan_device *device,
                                  struct vulkan_kernels *kernels,
                                  const struct vulkan_sampler_options *options,
                                  struct vulkan_sampler **sampler,
                                  struct error_text *error) RESULT_CHECKED;
void vulkan_sampler_destroy(struct vulkan_sampler *sampler);

/* Whether the row may be drawn before its last token is read (backend.h). */
bool vulkan_sampler_draws_ahead(const struct vulkan_sampler *sampler,
                                const struct row_sampling *sampling);

/* Writes a step's parameters; the slot's previous step has finished. *work: bits of its work.
 * *moved: buffers have moved, so what was recorded for the slot must be recorded again. */
enum result vulkan_sampler_fill(struct vulkan_sampler *sampler, uint32_t slot,
                                const struct row_sampling *samplings, uint32_t row_count,
                                uint32_t *work, bool *moved,
                                struct error_text *error) RESULT_CHECKED;

/* Call after a barrier after the logits. Changes logits by biases and penalties. Results are
 * visible to the host after one more barrier, drawn tokens to the next step after its own
 * barrier. */
void vulkan_sampler_record(const struct vulkan_sampler *sampler, uint32_t slot, uint32_t work,
                           uint32_t row_count, const struct vulkan_sampler_step *step,
                           struct vulkan_commands *commands);

/* u32 [max_rows] on the device: the tokens drawn, for embed_rows of the next step. */
uint64_t vulkan_sampler_drawn(const struct vulkan_sampler *sampler, uint32_t slot);

/* After the step is over: results [rows filled]. RESULT_CORRUPT if the device returns a token
 * outside the vocabulary. */
enum result vulkan_sampler_read(const struct vulkan_sampler *sampler, uint32_t slot,
                                struct sampled_token *results,
                                struct error_text *error) RESULT_CHECKED;

#endif
