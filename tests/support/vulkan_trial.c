/*
 * Buffers are READBACK ones: cached host memory on every device, which kernels can write and tests
 * can read like any array.
 */
#include "tests/support/vulkan_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"

static void check(enum result result, const struct error_text *error)
{
    if (result != RESULT_OK)
        fail_msg("%s", error->text);
}

void vulkan_trial_init(struct vulkan_trial *trial, const struct vulkan_device *device)
{
    struct error_text error;
    *trial = (struct vulkan_trial){.device = device};
    check(vulkan_kernels_create(device, NULL, &trial->kernels, &error), &error);
    check(vulkan_commands_create(device, VULKAN_QUEUE_COMPUTE, 0, &trial->commands, &error),
          &error);
}

void vulkan_trial_clear(struct vulkan_trial *trial)
{
    while (trial->buffer_count > 0)
        vulkan_buffer_destroy(trial->device, &trial->buffers[--trial->buffer_count]);
}

void vulkan_trial_fini(struct vulkan_trial *trial)
{
    vulkan_trial_clear(trial);
    vulkan_commands_destroy(trial->commands);
    vulkan_kernels_destroy(trial->kernels);
}

const struct vulkan_buffer *vulkan_trial_buffer(struct vulkan_trial *trial, const void *data,
                                                uint64_t bytes)
{
    struct error_text error;
    assert_true(trial->buffer_count < VULKAN_TRIAL_BUFFERS);
    struct vulkan_buffer *buffer = &trial->buffers[trial->buffer_count++];
    check(vulkan_buffer_create(trial->device, VULKAN_READBACK, bytes, "a test", buffer, &error),
          &error);
    if (data)
        memcpy(buffer->mapped, data, bytes);
    else
        memset(buffer->mapped, 0xAA, bytes);
    return buffer;
}

const struct vulkan_buffer *vulkan_trial_tiles(struct vulkan_trial *trial,
                                               const struct vulkan_step_sequence *sequences,
                                               uint32_t count, uint32_t tile_rows,
                                               uint32_t *tile_count)
{
    uint32_t rows = 0;
    for (uint32_t s = 0; s < count; s++)
        rows += sequences[s].row_count;
    struct vulkan_step_tile *tiles = must_alloc(rows + 2, sizeof *tiles);
    *tile_count = 0;
    for (uint32_t s = 0; s < count; s++) {
        const struct vulkan_step_sequence *sequence = &sequences[s];
        for (uint32_t r = 0; sequence->row_count > 1 && r < sequence->row_count; r += tile_rows) {
            uint32_t left = sequence->row_count - r;
            tiles[(*tile_count)++] = (struct vulkan_step_tile){s, sequence->first_row + r,
                                                               left < tile_rows ? left : tile_rows,
                                                               sequence->first_position + r};
        }
    }
    *tile_count += 2;
    const struct vulkan_buffer *buffer =
        vulkan_trial_buffer(trial, tiles, *tile_count * sizeof *tiles);
    free(tiles);
    return buffer;
}

void vulkan_trial_run(struct vulkan_trial *trial, const char *shader,
                      const struct vulkan_specialization *specialization, const void *push,
                      uint32_t push_bytes, struct vulkan_grid grid)
{
    struct error_text error;
    const struct vulkan_kernel *kernel = NULL;
    check(vulkan_kernels_get(trial->kernels, shader, specialization, &kernel, &error), &error);
    check(vulkan_commands_begin(trial->commands, &error), &error);
    vulkan_commands_dispatch(trial->commands, kernel, push, push_bytes, grid);
    vulkan_commands_barrier(trial->commands);
    check(vulkan_commands_end(trial->commands, &error), &error);
    check(vulkan_commands_run(trial->commands, &error), &error);
}
