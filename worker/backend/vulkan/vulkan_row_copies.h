/*
 * Rows of logits that the device hands to the host, because the host's sampler tells more about
 * them: log-probabilities with alternatives, of a forced token or of a changed row. Copied by
 * sample_scan as the model gives them, before biases and penalties; finished with
 * worker/sample/row_sampler.h, so what comes of them is exactly what the CPU backend gives for the
 * same logits.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_VULKAN_ROW_COPIES_H
#define SHOAL_WORKER_BACKEND_VULKAN_VULKAN_ROW_COPIES_H

#include "worker/backend/vulkan/vulkan_memory.h"
#include "worker/sample/row_sampler.h"

#define VULKAN_NO_COPY UINT32_MAX

/* What the host does for one row of a step. */
struct vulkan_row_copy {
    bool explains;
    uint32_t top_logprobs;
    uint32_t raw_at; /* number of the row in the buffer, or VULKAN_NO_COPY */
};

/* Of one step at a time. */
struct vulkan_row_copies {
    const struct vulkan_device *device;
    uint32_t vocab_tokens;
    struct vulkan_row_copy *rows; /* [max_rows] */
    struct vulkan_buffer buffer;  /* f32 [copies asked for, vocab_tokens]; grows */
};

void vulkan_row_copies_init(struct vulkan_row_copies *copies, const struct vulkan_device *device,
                            uint32_t vocab_tokens, uint32_t max_rows);
void vulkan_row_copies_fini(struct vulkan_row_copies *copies);

/* Decides for all rows of a step and has room for their copies. *moved: the buffer is another one.
 */
enum result vulkan_row_copies_fill(struct vulkan_row_copies *copies,
                                   const struct row_sampling *samplings, uint32_t row_count,
                                   bool *moved, struct error_text *error) RESULT_CHECKED;
/* After the step: what the host has to add to what the device says of that row. */
void vulkan_row_copies_finish(const struct vulkan_row_copies *copies, uint32_t row,
                              struct row_sampler *sampler, struct sampled_token *sampled);

#endif
