/*
 * Properties of a recording that results do not show on drivers that run one dispatch after
 * another: a barrier wherever a dispatch needs the result of an earlier one, and scratch memory for
 * every number of rows.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"

enum { HEADS = 4, HEAD_DIM = 16, QKV = 3 * HEADS * HEAD_DIM, VOCAB = 64, STEP_ROWS = 40 };

/* Every op reads what the one before it wrote. */
static struct plan_sketch *sketch_attention(void)
{
    struct plan_sketch *sketch = plan_sketch_create(1);
    struct plan *plan = plan_sketch_plan(sketch);
    const uint32_t wide = HEADS * HEAD_DIM;
    plan->config.vocab_tokens = VOCAB;
    plan_sketch_set_kv(sketch, 1, HEADS, HEAD_DIM, 0);
    plan_tensor_id qkv = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, QKV);
    plan_tensor_id attended = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, wide);
    plan_tensor_id gathered = plan_sketch_tensor(sketch, PLAN_ROWS_LOGITS, wide);
    plan_sketch_append(
        sketch, (struct plan_op){.stem = OP_embed_rows,
                                 .inputs = {PLAN_NONE, PLAN_NONE},
                                 .output = qkv,
                                 .weights = {plan_sketch_weight(sketch, GGML_F32, VOCAB, QKV),
                                             PLAN_NONE, PLAN_NONE},
                                 .params = {.embed_rows = {1.0f}}});
    plan_sketch_append(
        sketch, (struct plan_op){.stem = OP_kv_write,
                                 .inputs = {qkv, PLAN_NONE},
                                 .output = PLAN_NONE,
                                 .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                 .params = {.kv_write = {.keys = {wide, HEADS, HEAD_DIM},
                                                         .values = {2 * wide, HEADS, HEAD_DIM}}}});
    plan_sketch_append(sketch,
                       (struct plan_op){.stem = OP_attention,
                                        .inputs = {qkv, PLAN_NONE},
                                        .output = attended,
                                        .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                        .params = {.attention = {.queries = {0, HEADS, HEAD_DIM},
                                                                 .kv_heads = HEADS,
                                                                 .scale = 0.25f}}});
    plan_sketch_append(sketch, (struct plan_op){.stem = OP_gather_rows,
                                                .inputs = {attended, PLAN_NONE},
                                                .output = gathered,
                                                .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}});
    plan->logits = gathered;
    return sketch;
}

struct scene {
    struct plan_sketch *sketch;
    struct vulkan_kernels *kernels;
    struct vulkan_program program;
};

static void begin_scene(struct scene *scene, const struct vulkan_device *device,
                        struct plan_sketch *sketch, uint32_t step_rows)
{
    struct error_text error = {""};
    const struct backend_options options = {
        .max_step_rows = step_rows, .max_logit_rows = step_rows, .kv_blocks = {8, 8}};
    scene->sketch = sketch;
    must(vulkan_kernels_create(device, NULL, &scene->kernels, &error) == RESULT_OK);
    must(vulkan_program_init(&scene->program, device, scene->kernels, plan_sketch_plan(sketch),
                             &options, &error) == RESULT_OK);
}

static void end_scene(struct scene *scene)
{
    vulkan_program_fini(&scene->program);
    vulkan_kernels_destroy(scene->kernels);
    plan_sketch_destroy(scene->sketch);
}

static struct vulkan_commands_counts record(const struct scene *scene, struct vulkan_shape shape)
{
    struct error_text error = {""};
    const struct vulkan_batch_limits limits = {.rows = STEP_ROWS,
                                               .layout = &scene->program.plan->kv,
                                               .tile_rows = scene->program.tile_rows};
    struct vulkan_batch batch;
    struct vulkan_commands *commands;
    must(vulkan_batch_init(&batch, scene->program.device, &limits, 64, &error) == RESULT_OK);
    must(vulkan_commands_create(scene->program.device, VULKAN_QUEUE_COMPUTE, 0, &commands,
                                &error) == RESULT_OK);
    const struct vulkan_recording recording = {
        .program = &scene->program, .batch = &batch, .shape = shape, .commands = commands};
    must(vulkan_commands_begin(commands, &error) == RESULT_OK);
    must(vulkan_plan_walk_run(&recording, &error) == RESULT_OK);
    must(vulkan_commands_end(commands, &error) == RESULT_OK);
    struct vulkan_commands_counts counts = vulkan_commands_counts(commands);
    vulkan_commands_destroy(commands);
    vulkan_batch_fini(&batch);
    return counts;
}

/* One before each dispatch and one after the last. */
static void test_what_was_written_is_waited_for(void **state)
{
    struct scene scene;
    begin_scene(&scene, *state, sketch_attention(), STEP_ROWS);
    struct vulkan_commands_counts prompt =
        record(&scene, (struct vulkan_shape){
                           .rows = 20, .sequences = 1, .logit_rows = 1, .decodes = 0, .tiles = 2});
    assert_int_equal(prompt.dispatches, 4);
    assert_int_equal(prompt.barriers, prompt.dispatches + 1);
    struct vulkan_commands_counts decodes =
        record(&scene, (struct vulkan_shape){
                           .rows = 3, .sequences = 3, .logit_rows = 3, .decodes = 3, .tiles = 0});
    assert_int_equal(decodes.dispatches, 4);
    assert_int_equal(decodes.barriers, decodes.dispatches + 1);
    end_scene(&scene);
}

/* Attention of decodes and attention of prompts write different rows. */
static void test_attention_of_both_sorts_runs_side_by_side(void **state)
{
    struct scene scene;
    begin_scene(&scene, *state, sketch_attention(), STEP_ROWS);
    struct vulkan_commands_counts both =
        record(&scene, (struct vulkan_shape){
                           .rows = 22, .sequences = 3, .logit_rows = 3, .decodes = 2, .tiles = 2});
    assert_int_equal(both.dispatches, 5);
    assert_int_equal(both.barriers, both.dispatches);
    end_scene(&scene);
}

/* Rows that see full precision and rows that see codes. Decodes and prompts of one form need no
 * barrier between them; the two forms share scratch memory, so one follows the other; both forms
 * are written without a barrier between. */
static void test_forms_take_turns(void **state)
{
    static const struct kv_quantization quantization = {KV_QUANT_TURBOQUANT, 8, 8, 0, 30};
    struct scene scene;
    struct plan_sketch *sketch = sketch_attention();
    plan_sketch_quantize_kv(sketch, &quantization);
    begin_scene(&scene, *state, sketch, STEP_ROWS);
    struct vulkan_shape shape = {
        .rows = 22, .sequences = 4, .logit_rows = 4, .decodes = 2, .tiles = 3};
    struct vulkan_commands_counts behind = record(&scene, shape);
    assert_int_equal(behind.dispatches, 5);
    assert_int_equal(behind.barriers, 5);
    shape.openings = true;
    shape.opening_tiles = 1;
    struct vulkan_commands_counts both = record(&scene, shape);
    assert_int_equal(both.dispatches, behind.dispatches + 3);
    assert_int_equal(both.barriers, behind.barriers + 1);
    end_scene(&scene);
}

/* With the policy's choices for a device with large matrices, on any device. */
static void test_scratch_memory_suffices_for_every_number_of_rows(void **state)
{
    static const uint32_t max_rows[] = {3, 17, 127, 128, 129, 130, 138, 145, 300};
    const struct vulkan_device *device = *state;
    for (size_t i = 0; i < sizeof max_rows / sizeof *max_rows; i++) {
        struct vulkan_device large = *device;
        struct scene scene;
        struct plan_sketch *sketch = plan_sketch_create(1);
        plan_tensor_id x = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, 96);
        plan_tensor_id out = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, 465);
        plan_sketch_set_kv(sketch, 1, 1, HEAD_DIM, 0);
        plan_sketch_append(
            sketch, (struct plan_op){.stem = OP_linear,
                                     .inputs = {x, PLAN_NONE},
                                     .output = out,
                                     .weights = {plan_sketch_weight(sketch, GGML_Q4_0, 465, 96),
                                                 PLAN_NONE, PLAN_NONE}});
        begin_scene(&scene, device, sketch, max_rows[i]);
        large.facts = vulkan_fixture_large_facts(device);
        scene.program.device = &large;
        uint64_t scratch = vulkan_linear_scratch_bytes(&scene.program);
        scratch -= VULKAN_LINEAR_COUNTERS * sizeof(uint32_t);
        for (uint32_t rows = 3; rows <= max_rows[i]; rows++) {
            const struct vulkan_matrix_request request = {.kind = VULKAN_WEIGHT_Q4_0,
                                                          .rows = rows,
                                                          .n = 465,
                                                          .k = 96,
                                                          .epilogue = VULKAN_LINEAR_STORE,
                                                          .forms = VULKAN_FORM_F32,
                                                          .scratch_bytes = 1ull << 29};
            struct vulkan_matrix_choice choice;
            vulkan_matrix_choose(&large.facts, &request, &choice);
            assert_true(choice.partial_bytes <= scratch);
            assert_true(choice.unpacked_bytes <= scratch);
        }
        scene.program.device = device;
        end_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_waited_for),
        cmocka_unit_test(test_attention_of_both_sorts_runs_side_by_side),
        cmocka_unit_test(test_forms_take_turns),
        cmocka_unit_test(test_scratch_memory_suffices_for_every_number_of_rows),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
