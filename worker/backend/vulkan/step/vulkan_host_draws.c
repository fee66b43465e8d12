/*
 * The device gets a greedy row in place of one that the host draws; its token is never used, because
 * the sequence's next row waits for the host's token (backend.h, draws_ahead).
 *
 * Results wait here until their step is read. Another step may be launched before that only if it has
 * no such rows of the same sequences, so each slot of steps in flight has an object of its own.
 */
#include "worker/backend/vulkan/step/vulkan_host_draws.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct vulkan_host_draws {
    const struct vulkan_device *device;
    uint32_t vocab_tokens;
    uint32_t max_rows;
    struct sampling_params greedy;
    struct row_sampler *sampler; /* NULL: not needed yet */
    struct vulkan_buffer logits;
    struct row_sampling *device_rows; /* [max_rows] */
    uint32_t *rows;                   /* [count] rows that the host draws */
    struct sampled_token *results;    /* [count] */
    uint32_t count;
};

struct vulkan_host_draws *vulkan_host_draws_create(const struct vulkan_device *device,
                                                   uint32_t vocab_tokens, uint32_t max_rows)
{
    struct vulkan_host_draws *draws = must_alloc(1, sizeof *draws);
    *draws = (struct vulkan_host_draws){.device = device,
                                        .vocab_tokens = vocab_tokens,
                                        .max_rows = max_rows,
                                        .greedy = sampling_params_default()};
    draws->device_rows = must_alloc(max_rows, sizeof *draws->device_rows);
    draws->rows = must_alloc(max_rows, sizeof *draws->rows);
    draws->results = must_alloc(max_rows, sizeof *draws->results);
    return draws;
}

void vulkan_host_draws_destroy(struct vulkan_host_draws *draws)
{
    if (!draws)
        return;
    row_sampler_destroy(draws->sampler);
    vulkan_buffer_destroy(draws->device, &draws->logits);
    free(draws->device_rows);
    free(draws->rows);
    free(draws->results);
    free(draws);
}

bool vulkan_host_draws_wanted(const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    return sampling->speech || sampling_params_has_dry(params) || sampling_params_has_xtc(params) ||
           sampling_params_has_mirostat(params) || sampling_params_has_dynatemp(params);
}

static enum result reserve_logits(struct vulkan_host_draws *draws, uint32_t row_count,
                                  struct error_text *error)
{
    uint64_t row_bytes = (uint64_t)draws->vocab_tokens * sizeof(float);
    uint32_t room = 1;
    if (row_count * row_bytes <= draws->logits.bytes)
        return RESULT_OK;
    while (room < row_count)
        room *= 2;
    vulkan_buffer_destroy(draws->device, &draws->logits);
    return vulkan_buffer_create(draws->device, VULKAN_READBACK, room * row_bytes,
                                "logits that the host draws from", &draws->logits, error);
}

enum result vulkan_host_draws_begin(struct vulkan_host_draws *draws,
                                    const struct row_sampling **samplings, uint32_t row_count,
                                    uint32_t *count, struct error_text *error)
{
    must(row_count <= draws->max_rows);
    draws->count = 0;
    for (uint32_t row = 0; row < row_count; row++)
        if (vulkan_host_draws_wanted(&(*samplings)[row]))
            draws->rows[draws->count++] = row;
    *count = draws->count;
    if (draws->count == 0)
        return RESULT_OK;
    memcpy(draws->device_rows, *samplings, row_count * sizeof **samplings);
    for (uint32_t i = 0; i < draws->count; i++)
        draws->device_rows[draws->rows[i]] = (struct row_sampling){
            .params = &draws->greedy, .position = (*samplings)[draws->rows[i]].position};
    *samplings = draws->device_rows;
    if (!draws->sampler)
        draws->sampler = row_sampler_create(draws->vocab_tokens);
    return reserve_logits(draws, row_count, error);
}

const struct vulkan_buffer *vulkan_host_draws_logits(const struct vulkan_host_draws *draws)
{
    return &draws->logits;
}

void vulkan_host_draws_run(struct vulkan_host_draws *draws, const struct row_sampling *samplings)
{
    const float *logits = draws->logits.mapped;
    for (uint32_t i = 0; i < draws->count; i++) {
        uint32_t row = draws->rows[i];
        draws->results[i] = row_sampler_draw(
            draws->sampler, logits + (uint64_t)row * draws->vocab_tokens, &samplings[row]);
    }
}

void vulkan_host_draws_read(struct vulkan_host_draws *draws, struct sampled_token *results)
{
    for (uint32_t i = 0; i < draws->count; i++)
        results[draws->rows[i]] = draws->results[i];
    draws->count = 0;
}
