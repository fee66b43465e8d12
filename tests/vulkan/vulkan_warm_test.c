/*
 * Every kernel that a step asks for is made at load, for any step of the scheduler, and few kernels
 * are made that none of the steps here asks for: on this device, and on one with large matrices,
 * whose policies have many more. Nothing is compiled: kernels are noted and counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/plan_sketch.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/backend/vulkan/record/vulkan_plan_walk.h"
#include "worker/backend/vulkan/step/vulkan_warm.h"
#include "worker/model/model.h"

enum { STEPS_OF_ROWS = 24 };

/* Families whose plans differ in ops that depend on the number of rows: layers, experts, states,
 * streams. */
static const char *const checkpoints[] = {
    "tests/golden/checkpoints/llama",       "tests/golden/checkpoints/gemma2",
    "tests/golden/checkpoints/gemma3",      "tests/golden/checkpoints/gemma3n",
    "tests/golden/checkpoints/gemma4",      "tests/golden/checkpoints/gemma4_moe",
    "tests/golden/checkpoints/gpt_oss",     "tests/golden/checkpoints/lfm2",
    "tests/golden/checkpoints/qwen3_5_moe", "tests/golden/checkpoints/qwen3_moe_mixed",
};

/* --- a model in the 8B shape --- */

enum {
    LAYERS = 3,
    HIDDEN = 4096,
    HEADS = 32,
    KV_HEADS = 8,
    HEAD_DIM = 128,
    ATTENDED = HEADS * HEAD_DIM,
    KEYS = KV_HEADS * HEAD_DIM,
    WIDE = 14336,
    VOCAB = 128256
};

/* One row is enough, because nothing here reads weights. */
static plan_weight_id add_weight(struct plan_sketch *sketch, enum ggml_type type, uint32_t rows,
                                 uint32_t columns)
{
    plan_weight_id id = plan_sketch_weight(sketch, type, 1, columns);
    ((struct plan_weight *)(uintptr_t)plan_sketch_plan(sketch)->weights)[id].rows = rows;
    return id;
}

static const union op_params norm_params = {.rms_norm = {1e-5f, 0.0f}};
static const union op_params no_params = {.linear = {0}};

/* From the residual to what was attended. */
static plan_tensor_id append_attention(struct plan_sketch *s, plan_tensor_id residual,
                                       uint32_t layer)
{
    const struct column_slice q = {0, HEADS, HEAD_DIM}, k = {ATTENDED, KV_HEADS, HEAD_DIM},
                              v = {ATTENDED + KEYS, KV_HEADS, HEAD_DIM};
    plan_tensor_id normed = plan_sketch_tensor(s, PLAN_ROWS_STEP, HIDDEN);
    plan_tensor_id qkv = plan_sketch_tensor(s, PLAN_ROWS_STEP, ATTENDED + 2 * KEYS);
    plan_tensor_id attended = plan_sketch_tensor(s, PLAN_ROWS_STEP, ATTENDED);
    plan_weight_id norm = add_weight(s, GGML_F32, 1, HIDDEN);
    plan_weight_id weights[3] = {add_weight(s, GGML_Q4_0, ATTENDED, HIDDEN),
                                 add_weight(s, GGML_Q4_0, KEYS, HIDDEN),
                                 add_weight(s, GGML_Q4_0, KEYS, HIDDEN)};
    plan_sketch_append_op(s, OP_rms_norm, residual, PLAN_NONE, normed, &norm, 1, norm_params);
    plan_sketch_append_op(s, OP_linear, normed, PLAN_NONE, qkv, weights, 3, no_params);
    plan_sketch_append_op(s, OP_rope, qkv, PLAN_NONE, qkv, NULL, 0,
                          (union op_params){.rope = {q, 0}});
    plan_sketch_append_op(s, OP_rope, qkv, PLAN_NONE, qkv, NULL, 0,
                          (union op_params){.rope = {k, 0}});
    plan_sketch_append_op(s, OP_kv_write, qkv, PLAN_NONE, PLAN_NONE, NULL, 0,
                          (union op_params){.kv_write = {k, v, layer}});
    plan_sketch_append_op(s, OP_attention, qkv, PLAN_NONE, attended, NULL, 0,
                          (union op_params){.attention = {q, KV_HEADS, layer, 0, 0.1f, 0.0f}});
    return attended;
}

static void append_feed_forward(struct plan_sketch *s, plan_tensor_id attended,
                                plan_tensor_id residual, enum plan_rows rows)
{
    plan_tensor_id normed = plan_sketch_tensor(s, rows, HIDDEN);
    plan_tensor_id gate_up = plan_sketch_tensor(s, rows, 2 * WIDE);
    plan_tensor_id gated = plan_sketch_tensor(s, rows, WIDE);
    plan_weight_id o = add_weight(s, GGML_Q4_0, HIDDEN, ATTENDED);
    plan_weight_id norm = add_weight(s, GGML_F32, 1, HIDDEN);
    plan_weight_id weights[2] = {add_weight(s, GGML_Q4_0, WIDE, HIDDEN),
                                 add_weight(s, GGML_Q4_0, WIDE, HIDDEN)};
    plan_weight_id down = add_weight(s, GGML_Q4_0, HIDDEN, WIDE);
    plan_sketch_append_op(s, OP_linear_add, attended, residual, residual, &o, 1, no_params);
    plan_sketch_append_op(s, OP_rms_norm, residual, PLAN_NONE, normed, &norm, 1, norm_params);
    plan_sketch_append_op(s, OP_linear, normed, PLAN_NONE, gate_up, weights, 2, no_params);
    plan_sketch_append_op(s, OP_gate, gate_up, PLAN_NONE, gated, NULL, 0,
                          (union op_params){.gate = {GATE_SILU}});
    plan_sketch_append_op(s, OP_linear_add, gated, residual, residual, &down, 1, no_params);
}

static struct plan_sketch *sketch_llama(void)
{
    struct plan_sketch *s = plan_sketch_create(1);
    struct plan *plan = plan_sketch_plan(s);
    plan->config.vocab_tokens = VOCAB;
    plan->config.rope_count = 1;
    plan->config.ropes[0] =
        (struct rope_config){.pairing = ROPE_PAIRS_HALVES, .dims = HEAD_DIM, .magnitude = 1.0f};
    plan_sketch_set_kv(s, LAYERS, KV_HEADS, HEAD_DIM, 0);
    plan_tensor_id residual = plan_sketch_tensor(s, PLAN_ROWS_STEP, HIDDEN), attended = 0;
    plan_weight_id table = add_weight(s, GGML_Q4_0, VOCAB, HIDDEN);
    plan_sketch_append_op(s, OP_embed_rows, PLAN_NONE, PLAN_NONE, residual, &table, 1,
                          (union op_params){.embed_rows = {1.0f}});
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        attended = append_attention(s, residual, layer);
        if (layer + 1 < LAYERS)
            append_feed_forward(s, attended, residual, PLAN_ROWS_STEP);
    }
    plan_tensor_id last = plan_sketch_tensor(s, PLAN_ROWS_LOGITS, HIDDEN);
    plan_tensor_id last_attended = plan_sketch_tensor(s, PLAN_ROWS_LOGITS, ATTENDED);
    plan_tensor_id normed = plan_sketch_tensor(s, PLAN_ROWS_LOGITS, HIDDEN);
    plan_weight_id norm = add_weight(s, GGML_F32, 1, HIDDEN);
    plan_sketch_append_op(s, OP_gather_rows, residual, PLAN_NONE, last, NULL, 0, no_params);
    plan_sketch_append_op(s, OP_gather_rows, attended, PLAN_NONE, last_attended, NULL, 0,
                          no_params);
    append_feed_forward(s, last_attended, last, PLAN_ROWS_LOGITS);
    plan_sketch_append_op(s, OP_rms_norm, last, PLAN_NONE, normed, &norm, 1, norm_params);
    plan->logits = plan_sketch_tensor(s, PLAN_ROWS_LOGITS, VOCAB);
    plan_sketch_append_op(s, OP_linear, normed, PLAN_NONE, plan->logits, &table, 1, no_params);
    return s;
}

/* --- steps --- */

static uint32_t pick(struct test_random *random, uint32_t least, uint32_t most)
{
    return least + test_random_below(random, most - least + 1);
}

static void add_sequence(const struct vulkan_program *program, struct vulkan_shape *shape,
                         uint32_t rows)
{
    bool decode = rows == 1 && !program->device->facts.batch_invariant;
    shape->sequences++;
    shape->decodes += decode;
    shape->tiles += decode ? 0 : (rows + program->tile_rows - 1) / program->tile_rows;
}

/* The furthest reach of a step of this model. */
static enum vulkan_reach furthest(const struct vulkan_program *program)
{
    return program->plan->config.context_tokens > VULKAN_FAR_CONTEXT ? VULKAN_REACH_FAR
                                                                     : VULKAN_REACH_SHORT;
}

static enum vulkan_reach pick_reach(const struct vulkan_program *program,
                                    struct test_random *random, bool whole)
{
    enum vulkan_reach reach = pick(random, 0, furthest(program));
    return reach == VULKAN_REACH_SHORT && !whole ? VULKAN_REACH_COMMON : reach;
}

/* This many rows, divided among few or many sequences; each sequence has at most one draw. */
static struct vulkan_shape random_shape(const struct vulkan_program *program,
                                        struct test_random *random, uint32_t rows)
{
    struct vulkan_shape shape = {.rows = rows};
    uint32_t most = rows < program->max_logit_rows ? rows : program->max_logit_rows;
    uint32_t sequences = pick(random, 1, pick(random, 1, most));
    uint32_t left = rows;
    bool decodes_mostly = test_random_below(random, 2) != 0;
    for (uint32_t s = 0; s < sequences; s++) {
        uint32_t others = sequences - s - 1;
        uint32_t most_here = left - others;
        uint32_t here = others == 0      ? left
                        : decodes_mostly ? 1
                                         : pick(random, 1, pick(random, 1, most_here));
        add_sequence(program, &shape, here);
        left -= here;
    }
    shape.logit_rows = test_random_below(random, 4) == 0 ? 0 : pick(random, 0, sequences);
    if (test_random_below(random, 2) != 0)
        shape.logit_rows = sequences;
    shape.whole = shape.logit_rows == rows;
    shape.reach = pick_reach(program, random, shape.whole);
    shape.features = program->sees && test_random_below(random, 2) != 0;
    shape.spans = program->spans && shape.tiles > 0 && test_random_below(random, 2) != 0;
    return shape;
}

static void ask(const struct vulkan_program *program, const struct vulkan_shape *shape)
{
    struct error_text error = {""};
    const struct vulkan_program whole = vulkan_program_whole(program);
    const struct vulkan_batch batch = {0};
    const struct vulkan_recording recording = {
        .program = shape->whole ? &whole : program, .batch = &batch, .shape = *shape};
    if (vulkan_plan_walk_run(&recording, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static const char *const reaches[VULKAN_REACHES] = {"", ", brief", ", far"};

static void check_step(const char *name, const struct vulkan_program *program,
                       const struct vulkan_shape *shape)
{
    uint32_t before = vulkan_kernels_count(program->kernels);
    ask(program, shape);
    uint32_t more = vulkan_kernels_count(program->kernels) - before;
    if (more > 0)
        fail_msg("%s: %u kernels more for a step of %u rows, %u sequences, %u decodes, %u tiles, "
                 "%u drawn%s%s",
                 name, more, shape->rows, shape->sequences, shape->decodes, shape->tiles,
                 shape->logit_rows, shape->whole ? ", whole" : "", reaches[shape->reach]);
}

static void each_step(const char *name, const struct vulkan_program *program,
                      void (*see)(const char *, const struct vulkan_program *,
                                  const struct vulkan_shape *))
{
    struct test_random random = {62};
    for (uint32_t rows = 1; rows <= program->max_step_rows; rows++) {
        bool tiles = program->device->facts.batch_invariant;
        struct vulkan_shape decodes = {.rows = rows,
                                       .sequences = rows,
                                       .logit_rows = rows,
                                       .decodes = tiles ? 0 : rows,
                                       .tiles = tiles ? rows : 0,
                                       .whole = true};
        for (uint32_t r = 0; r <= furthest(program) && rows <= program->max_logit_rows; r++) {
            decodes.reach = r;
            see(name, program, &decodes);
        }
        for (uint32_t i = 0; i < STEPS_OF_ROWS; i++) {
            const struct vulkan_shape shape = random_shape(program, &random, rows);
            see(name, program, &shape);
        }
    }
}

static void just_ask(const char *name, const struct vulkan_program *program,
                     const struct vulkan_shape *shape)
{
    (void)name;
    ask(program, shape);
}

/* --- programs --- */

struct trial {
    const char *name;
    uint32_t step_rows;
    uint32_t sequences;
    bool images; /* in prompts, whose rows see beyond themselves */
};

static void begin(const struct vulkan_device *device, const struct plan *plan,
                  const struct trial *trial, struct vulkan_program *program)
{
    struct error_text error = {""};
    struct vulkan_kernels *kernels;
    const struct backend_options options = {.max_step_rows = trial->step_rows,
                                            .max_logit_rows = trial->sequences,
                                            .kv_blocks = {64, 64, 64, 64},
                                            .state_slots = 4};
    must(vulkan_kernels_create(device, NULL, &kernels, &error) == RESULT_OK);
    if (vulkan_program_init(program, device, kernels, plan, &options, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    program->sees = program->axes = program->spans = trial->images;
    vulkan_kernels_note(kernels);
}

static void end(struct vulkan_program *program)
{
    struct vulkan_kernels *kernels = program->kernels;
    vulkan_program_fini(program);
    vulkan_kernels_destroy(kernels);
}

static void check_model(const struct vulkan_device *device, const struct plan *plan,
                        const struct trial *trial)
{
    struct error_text error = {""};
    struct vulkan_program program, other;
    begin(device, plan, trial, &program);
    must(vulkan_warm_ask(&program, &error) == RESULT_OK);
    uint32_t made = vulkan_kernels_count(program.kernels);
    each_step(trial->name, &program, check_step);
    begin(device, plan, trial, &other);
    each_step(trial->name, &other, just_ask);
    uint32_t needed = vulkan_kernels_count(other.kernels);
    if (needed > made || made - needed > made / 8) /* steps here are a sample */
        fail_msg("%s: %u kernels are made, %u needed", trial->name, made, needed);
    end(&other);
    end(&program);
}

static uint32_t count_made(const struct vulkan_device *device, struct plan *plan,
                           const struct trial *trial, uint32_t context_tokens)
{
    struct error_text error = {""};
    struct vulkan_program program;
    plan->config.context_tokens = context_tokens;
    begin(device, plan, trial, &program);
    must(vulkan_warm_ask(&program, &error) == RESULT_OK);
    uint32_t made = vulkan_kernels_count(program.kernels);
    end(&program);
    return made;
}

/* A model without far contexts has no kernels for them, and codes of 8 bits use the same kernels
 * for both. Leaves a plan of 4-bit codes and far contexts. */
static void check_far(const struct vulkan_device *device, struct plan *plan,
                      const struct trial *trial)
{
    bool may_differ = device->facts.matrix_registers;
    for (uint32_t bits = 8; bits >= 4; bits -= 4) {
        plan->kv.quantization.key_half_bits = plan->kv.quantization.value_half_bits = 2 * bits;
        uint32_t near = count_made(device, plan, trial, VULKAN_FAR_CONTEXT);
        uint32_t far = count_made(device, plan, trial, VULKAN_FAR_CONTEXT + 1);
        assert_int_equal(far > near, may_differ && bits == 4);
        assert_true(far >= near);
    }
}

static void check_models(const struct vulkan_device *device)
{
    struct error_text error = {""};
    struct plan_sketch *llama = sketch_llama();
    struct plan *plan = plan_sketch_plan(llama);
    check_model(device, plan, &(struct trial){"8B", 512, 64, false});
    check_model(device, plan, &(struct trial){"8B, few", 75, 8, false});
    check_model(device, plan, &(struct trial){"8B, 256 sequences", 320, 256, false});
    check_model(device, plan, &(struct trial){"8B, images", 160, 40, true});
    plan->kv.groups[0].quantized = true;
    plan->kv.quantization = (struct kv_quantization){
        .scheme = KV_QUANT_UNIFORM, .key_half_bits = 8, .value_half_bits = 8};
    check_far(device, plan, &(struct trial){"8B, codes", 40, 8, false});
    check_model(device, plan, &(struct trial){"8B, quantized keys", 160, 40, false});
    plan_sketch_destroy(llama);
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct model *model;
        if (model_open(checkpoints[i], &model, &error) != RESULT_OK)
            fail_msg("%s", error.text);
        check_model(device, model_plan(model), &(struct trial){checkpoints[i], 160, 40, false});
        model_close(model);
    }
}

static void test_this_device(void **state)
{
    check_models(*state);
}

static void test_large_matrices(void **state)
{
    const struct vulkan_device *device = *state;
    struct vulkan_device large = *device;
    large.facts = vulkan_fixture_large_facts(device);
    check_models(&large);
}

/* With and without matrix units. */
static void test_batch_invariant(void **state)
{
    const struct vulkan_device *device = *state;
    struct plan_sketch *llama = sketch_llama();
    struct vulkan_device invariant = *device;
    for (uint32_t large = 0; large < 2; large++) {
        invariant.facts = large ? vulkan_fixture_large_facts(device) : device->facts;
        invariant.facts.batch_invariant = true;
        check_model(&invariant, plan_sketch_plan(llama),
                    &(struct trial){"8B, invariant", 320, 64, false});
    }
    plan_sketch_destroy(llama);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_matrices),
        cmocka_unit_test(test_batch_invariant),
        cmocka_unit_test(test_this_device),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
