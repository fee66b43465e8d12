/*
 * A KV cache that is filled with random rows: every layer's keys and values, in codes and in full
 * precision, repeat the host's rows.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/kv_noise.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_kv_noise.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/model/model.h"

#define CHECKPOINT "build/checkpoints/llama-f32"
#define BLOCKS     2500u /* more than differ */

struct noise_scene {
    struct model *model;
    struct vulkan_kernels *kernels;
    struct vulkan_program program;
};

static void check(enum result result, const struct error_text *error)
{
    if (result != RESULT_OK)
        fail_msg("%s", error->text);
}

static void open_scene(struct noise_scene *scene, const struct vulkan_device *device)
{
    static const struct kv_quantization quantization = {KV_QUANT_TURBOQUANT, 6, 8, 0, 40};
    struct error_text error = {""};
    struct backend_options options = {.max_step_rows = 4, .max_logit_rows = 4};
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        options.kv_blocks[g] = BLOCKS;
    check(model_open(CHECKPOINT, &scene->model, &error), &error);
    check(model_quantize_kv(scene->model, &quantization, &error), &error);
    check(vulkan_kernels_create(device, NULL, &scene->kernels, &error), &error);
    check(vulkan_program_init(&scene->program, device, scene->kernels, model_plan(scene->model),
                              &options, &error),
          &error);
    check(vulkan_kv_noise_fill(&scene->program, options.kv_blocks, &error), &error);
}

static void close_scene(struct noise_scene *scene)
{
    vulkan_program_fini(&scene->program);
    vulkan_kernels_destroy(scene->kernels);
    model_close(scene->model);
}

/* The region at `address` repeats the `period` bytes of `expected`. */
static void check_region(const struct noise_scene *scene, uint64_t address, uint64_t bytes,
                         const uint8_t *expected, uint64_t period)
{
    struct error_text error = {""};
    const struct vulkan_buffer *from = NULL;
    struct vulkan_commands *commands;
    struct vulkan_buffer to;
    for (uint32_t i = 0; i < vulkan_arena_chunk_count(scene->program.kv_memory); i++) {
        const struct vulkan_buffer *chunk = vulkan_arena_chunk(scene->program.kv_memory, i);
        if (address >= chunk->address && address + bytes <= chunk->address + chunk->bytes)
            from = chunk;
    }
    assert_non_null(from);
    check(
        vulkan_buffer_create(scene->program.device, VULKAN_READBACK, bytes, "a test", &to, &error),
        &error);
    check(vulkan_commands_create(scene->program.device, VULKAN_QUEUE_COMPUTE, 0, &commands, &error),
          &error);
    check(vulkan_commands_begin(commands, &error), &error);
    vulkan_commands_copy(commands, from, address - from->address, &to, 0, bytes);
    check(vulkan_commands_end(commands, &error), &error);
    check(vulkan_commands_run(commands, &error), &error);
    const uint8_t *found = to.mapped;
    for (uint64_t at = 0; at < bytes; at += period)
        assert_memory_equal(found + at, expected, bytes - at < period ? bytes - at : period);
    vulkan_commands_destroy(commands);
    vulkan_buffer_destroy(scene->program.device, &to);
}

static void check_layer(const struct noise_scene *scene, uint32_t g,
                        const struct vulkan_kv_layer *layer)
{
    enum { DIFFERENT = 4096 };
    const struct kv_layout *layout = &scene->program.plan->kv;
    const struct kv_group *group = &layout->groups[g];
    uint64_t sides = (uint64_t)BLOCKS * group->kv_heads;
    assert_true(sides > DIFFERENT);
    for (uint32_t i = 0; i < 2; i++) {
        enum kv_noise_stream stream = i == 0 ? KV_NOISE_KEYS : KV_NOISE_VALUES;
        uint64_t bytes = (uint64_t)KV_BLOCK_TOKENS * group->head_dim * sizeof(uint16_t);
        uint8_t *expected = must_alloc(DIFFERENT, bytes);
        if (group->quantized) {
            struct kv_codec codec;
            kv_codec_init(&codec, &layout->quantization, group->head_dim);
            const struct kv_side *side = i == 0 ? &codec.key : &codec.value;
            bytes = side->bytes;
            kv_noise_codes(side, stream, DIFFERENT, expected);
            kv_codec_fini(&codec);
        } else {
            kv_noise_halves(group->head_dim, stream, DIFFERENT, (uint16_t *)(void *)expected);
        }
        check_region(scene, i == 0 ? layer->keys : layer->values, sides * bytes, expected,
                     DIFFERENT * bytes);
        free(expected);
    }
}

static void test_every_region_is_full_of_rows(void **state)
{
    struct noise_scene scene;
    uint32_t quantized = 0, openings = 0;
    open_scene(&scene, *state);
    const struct kv_layout *layout = &scene.program.plan->kv;
    for (uint32_t l = 0; l < layout->layer_count; l++) {
        uint32_t group = layout->layer_group[l], opening = kv_layout_opening(layout, group);
        check_layer(&scene, group, &scene.program.kv[l]);
        if (opening != KV_GROUP_NONE) {
            check_layer(&scene, opening, &scene.program.openings[l]);
            openings++;
        }
        quantized += layout->groups[group].quantized;
    }
    assert_true(quantized > 0 && openings == quantized);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_region_is_full_of_rows)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
