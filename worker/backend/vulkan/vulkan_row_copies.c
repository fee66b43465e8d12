/*
 * The price is the row itself: 513 kB over the bus for 128,256 tokens, and one pass of the host's
 * sampler over it, which happens while the device is at the next step. It is paid by rows that ask
 * for it and by no others.
 *
 * What is asked for is kept: a sequence may end, and what belongs to it go, before the step that
 * draws for it is over.
 *
 * Refuses to shrink: a buffer is as large as a step once needed.
 */
#include "worker/backend/vulkan/vulkan_row_copies.h"

#include <stdlib.h>

#include "proto/must.h"

void vulkan_row_copies_init(struct vulkan_row_copies *copies, const struct vulkan_device *device,
                            uint32_t vocab_tokens, uint32_t max_rows)
{
    *copies = (struct vulkan_row_copies){.device = device, .vocab_tokens = vocab_tokens};
    copies->rows = must_alloc(max_rows, sizeof *copies->rows);
}

void vulkan_row_copies_fini(struct vulkan_row_copies *copies)
{
    free(copies->rows);
    if (copies->device)
        vulkan_buffer_destroy(copies->device, &copies->buffer);
    *copies = (struct vulkan_row_copies){0};
}

static struct vulkan_row_copy decide(const struct row_sampling *sampling, uint32_t *used)
{
    bool is_changed = sampling->logit_bias_count > 0 || sampling->barred_count > 0 ||
                      row_sampling_has_penalties(sampling);
    struct vulkan_row_copy copy = {.top_logprobs = sampling->top_logprobs,
                                   .raw_at = VULKAN_NO_COPY};
    /* The device knows the log-probability of what it draws itself from an unchanged row. */
    copy.explains = sampling->wants_logprob &&
                    (sampling->top_logprobs > 0 || sampling->is_forced || is_changed);
    if (copy.explains)
        copy.raw_at = (*used)++;
    return copy;
}

enum result vulkan_row_copies_fill(struct vulkan_row_copies *copies,
                                   const struct row_sampling *samplings, uint32_t row_count,
                                   bool *moved, struct error_text *error)
{
    uint32_t used = 0;
    for (uint32_t row = 0; row < row_count; row++)
        copies->rows[row] = decide(&samplings[row], &used);
    uint64_t row_bytes = (uint64_t)copies->vocab_tokens * sizeof(float);
    *moved = used * row_bytes > copies->buffer.bytes;
    if (!*moved)
        return RESULT_OK;
    uint32_t room = 1;
    while (room < used)
        room *= 2;
    vulkan_buffer_destroy(copies->device, &copies->buffer);
    return vulkan_buffer_create(copies->device, VULKAN_READBACK, room * row_bytes,
                                "rows for the host", &copies->buffer, error);
}

static const float *row_at(const struct vulkan_row_copies *copies, uint32_t at)
{
    must(at != VULKAN_NO_COPY);
    return (const float *)copies->buffer.mapped + (uint64_t)at * copies->vocab_tokens;
}

void vulkan_row_copies_finish(const struct vulkan_row_copies *copies, uint32_t row,
                              struct row_sampler *sampler, struct sampled_token *sampled)
{
    const struct vulkan_row_copy *copy = &copies->rows[row];
    if (copy->explains)
        row_sampler_explain(sampler, row_at(copies, copy->raw_at), copy->top_logprobs, sampled);
}
