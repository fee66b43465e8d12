/*
 * Layers that predict a further token against golden proposals (scripts/golden/ahead_layers.py): for
 * every position of a sequence, and along a chain in which the layer takes its own hidden states. From
 * folders and GGUF files, computed in one chunk and row by row. Of a prompt with images too, where the row
 * before an image's token takes its feature. EAGLE-3 heads likewise (scripts/golden/drafters.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/model_runner.h"
#include "tests/support/tower_scene.h"
#include "worker/draft/draft_model.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define TOKENS     28u
#define TOKENS_MAX 64u
#define CHAIN      3u
#define BLOCKS     5u
#define PATCH_ROWS 256u
#define TOLERANCE  2e-5 /* root mean square of a row's differences, of its largest logit */

struct golden {
    uint32_t tokens;                  /* of the sequence */
    uint32_t ids[TOKENS_MAX + CHAIN]; /* the sequence, then the chain */
    uint32_t vocab;
    float *logits;                    /* [tokens - 1 + CHAIN, vocab] */
    struct draft_model_parts columns; /* of states, as draft_model_describe() fills them */
    /* [tokens + CHAIN] as in struct step_batch; NULL without images */
    const uint32_t *feature_rows;
    const struct rope_position *positions;
};

/* `tokens` of them are in golden->ids already if `has_ids`. */
static void read_golden(const char *folder, uint32_t vocab, uint32_t tokens, bool has_ids,
                        struct golden *golden)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s/ids.txt", folder);
    FILE *file = fopen(path, "r");
    must(file && tokens <= TOKENS_MAX);
    golden->tokens = tokens;
    for (uint32_t i = has_ids ? tokens : 0; i < tokens + CHAIN; i++)
        must(fscanf(file, "%u", &golden->ids[i]) == 1);
    fclose(file);
    snprintf(path, sizeof path, "tests/golden/%s/logits.f32", folder);
    file = fopen(path, "rb");
    size_t floats = (size_t)(tokens - 1 + CHAIN) * vocab;
    golden->vocab = vocab;
    golden->logits = must_alloc(floats, sizeof *golden->logits);
    must(file && fread(golden->logits, sizeof *golden->logits, floats, file) == floats);
    fclose(file);
}

/* A plan on the CPU, one sequence in blocks 0, 1 and so on. `vision`: of the model, or NULL. */
static struct backend *load(const struct plan *plan, const struct plan *vision,
                            const struct backend *lender)
{
    struct backend *backend = cpu_backend_create();
    struct backend_options options = {.threads = 2,
                                      .activation_bits = 16,
                                      .lender = lender,
                                      .kv_type = KV_CACHE_F32,
                                      .keeps_logits = true,
                                      .max_step_rows = TOKENS_MAX,
                                      .max_logit_rows = TOKENS_MAX,
                                      .state_slots = 1};
    struct error_text error = {""};
    if (vision && lender)
        options.sights = &vision->vision;
    else
        options.vision = vision;
    if (options.vision) {
        options.max_patch_rows = PATCH_ROWS;
        options.feature_rows = TOKENS_MAX;
    }
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &options, NULL, NULL, &error) == RESULT_OK);
    return backend;
}

/* Computes rows from `first` on, all with logits. Their tokens, which have the features, are those at
 * `first` + shift. */
static void run(struct backend *backend, const struct golden *golden, const float *hidden,
                uint32_t first, uint32_t rows)
{
    static const uint32_t blocks[BLOCKS] = {0, 1, 2, 3, 4};
    struct sampling_params greedy = sampling_params_default();
    uint32_t logit_rows[TOKENS_MAX], at = first + (hidden ? 1 : 0);
    struct row_sampling samplings[TOKENS_MAX];
    struct sampled_token results[TOKENS_MAX];
    struct error_text error = {""};
    for (uint32_t i = 0; i < rows; i++) {
        logit_rows[i] = i;
        samplings[i] = (struct row_sampling){.params = &greedy};
    }
    const struct step_sequence sequence = {.row_count = rows,
                                           .first_position = first,
                                           .block_tables = {blocks, blocks},
                                           .state_slot = hidden ? STATE_SLOT_NONE : 0,
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    struct step_batch batch = {.row_count = rows,
                               .token_ids = golden->ids + at,
                               .sequence_count = 1,
                               .sequences = &sequence,
                               .logit_row_count = rows,
                               .logit_rows = logit_rows,
                               .samplings = samplings,
                               .hidden = hidden};
    if (golden->feature_rows) {
        batch.feature_rows = golden->feature_rows + at;
        batch.rope_positions = golden->positions + first;
    }
    must(backend_step_run(backend, &batch, results, &error) == RESULT_OK);
}

static void compare(const struct golden *golden, const struct backend *backend, uint32_t first,
                    uint32_t rows)
{
    const float *logits = backend->interface->last_logits(backend);
    for (uint32_t i = 0; i < rows; i++) {
        const float *expected = golden->logits + (size_t)(first + i) * golden->vocab;
        double off = model_runner_row_difference(logits + (size_t)i * golden->vocab, expected,
                                                 golden->vocab);
        if (!(off <= TOLERANCE))
            fail_msg("row %u: %g off", first + i, off);
    }
}

/* Columns of states of a row that the layer is given. */
static uint32_t row_columns(const struct draft_model_parts *columns)
{
    return columns->hidden_columns + (columns->states_apart ? columns->state_columns : 0);
}

/* The chain after the first tokens - 1 rows; its states are the layer's own. */
static void check_chain(const struct golden *golden, struct backend *ahead, uint32_t rows)
{
    const struct draft_model_parts *columns = &golden->columns;
    float *state = must_alloc(row_columns(columns), sizeof *state);
    for (uint32_t i = 0; i < CHAIN; i++, rows = 1) {
        memcpy(state + (columns->states_apart ? columns->hidden_columns : 0),
               ahead->interface->last_hidden(ahead) + (size_t)(rows - 1) * columns->state_columns,
               columns->state_columns * sizeof *state);
        run(ahead, golden, state, golden->tokens - 1 + i, 1);
        compare(golden, ahead, golden->tokens - 1 + i, 1);
    }
    free(state);
}

/* [rows, row_columns()] the target's states, and zeros in place of the layer's own. */
static float *given_states(const struct draft_model_parts *columns, const float *states,
                           uint32_t rows)
{
    uint32_t wide = row_columns(columns);
    float *given = must_alloc((size_t)rows * wide, sizeof *given);
    for (uint32_t row = 0; row < rows; row++)
        memcpy(given + (size_t)row * wide, states + (size_t)row * columns->hidden_columns,
               columns->hidden_columns * sizeof *given);
    return given;
}

/* The target's states of the golden sequence, whose images are in its feature pool. */
static void check_rows(const struct model *model, struct golden *golden, struct backend *target)
{
    uint32_t rows = golden->tokens - 1;
    draft_model_describe(model_plan(model), model_ahead_plan(model), &golden->columns);
    uint32_t wide = row_columns(&golden->columns);
    run(target, golden, NULL, 0, golden->tokens);
    float *states =
        given_states(&golden->columns, target->interface->last_hidden(target), golden->tokens);
    const struct plan *vision = model_drafter(model) ? NULL : model_vision_plan(model);
    struct backend *ahead = load(model_ahead_plan(model), vision, target);
    run(ahead, golden, states, 0, rows);
    compare(golden, ahead, 0, rows);
    check_chain(golden, ahead, rows);
    for (uint32_t row = 0; row < rows; row++) { /* again, over the same cells */
        run(ahead, golden, states + (size_t)row * wide, row, 1);
        compare(golden, ahead, row, 1);
    }
    check_chain(golden, ahead, 1);
    free(states);
    ahead->interface->destroy(ahead);
}

static struct model *open_both(const char *path)
{
    struct model *model;
    struct error_text error = {""};
    if (model_open(path, &model, &error) != RESULT_OK ||
        model_open_ahead(model, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    return model;
}

static void check(const char *family, const char *path)
{
    struct golden golden = {0};
    struct model *model = open_both(path);
    char folder[64];
    snprintf(folder, sizeof folder, "ahead/%s", family);
    read_golden(folder, model_plan(model)->config.vocab_tokens, TOKENS, false, &golden);
    struct backend *target = load(model_plan(model), NULL, NULL);
    check_rows(model, &golden, target);
    target->interface->destroy(target);
    model_close(model);
    free(golden.logits);
}

static void test_images(void **state)
{
    (void)state;
    struct golden golden = {0};
    struct tower_scene scene;
    struct error_text error;
    uint32_t feature_rows[TOKENS_MAX + CHAIN];
    struct rope_position positions[TOKENS_MAX + CHAIN];
    tower_scene_read("qwen3_5", &scene);
    struct model *model = open_both("build/checkpoints/qwen3_5_images-ahead");
    const struct scene_prompt *prompt = &scene.prompts[scene.prompt_count - 1];
    must(prompt->count <= TOKENS_MAX);
    memcpy(golden.ids, prompt->ids, prompt->count * sizeof *golden.ids);
    read_golden("ahead/qwen3_5_images", scene.vocab, prompt->count, true, &golden);
    for (uint32_t i = 0; i < prompt->count + CHAIN; i++) {
        bool is_prompt = i < prompt->count;
        feature_rows[i] = is_prompt ? prompt->feature_rows[i] : ROW_FEATURE_NONE;
        positions[i] = is_prompt ? prompt->positions[i] : positions[i - 1];
        positions[i].time += !is_prompt;
        positions[i].height += !is_prompt;
        positions[i].width += !is_prompt;
    }
    golden.feature_rows = feature_rows;
    golden.positions = positions;
    struct backend *target = load(model_plan(model), model_vision_plan(model), NULL);
    const struct encode_batch images = {.image_count = scene.image_count, .images = scene.images};
    uint64_t left;
    must(target->interface->encode_begin(target, &images, &error) == RESULT_OK);
    do
        must(target->interface->encode_part(target, UINT64_MAX, &left, &error) == RESULT_OK);
    while (left > 0);
    check_rows(model, &golden, target);
    target->interface->destroy(target);
    model_close(model);
    free(golden.logits);
    tower_scene_free(&scene);
}

static void test_dense(void **state)
{
    (void)state;
    check("qwen3_5", "build/checkpoints/qwen3_5-ahead");
    check("qwen3_5", "build/checkpoints/qwen3_5-ahead.gguf");
}

static void test_experts(void **state)
{
    (void)state;
    check("qwen3_5_moe", "build/checkpoints/qwen3_5_moe-ahead");
    check("qwen3_5_moe", "build/checkpoints/qwen3_5_moe-ahead.gguf");
}

/* With copies of the embedding and the output matrix. */
static void test_glm4_moe(void **state)
{
    (void)state;
    check("glm4_moe", "build/checkpoints/glm4_moe-ahead");
    check("glm4_moe", "build/checkpoints/glm4_moe-ahead.gguf");
}

static void test_deepseek_v3(void **state)
{
    (void)state;
    check("deepseek_v3", "build/checkpoints/deepseek_v3-ahead");
    check("deepseek_v3", "build/checkpoints/deepseek_v3-ahead.gguf");
}

/* The map of the head's tokens is that of its chain: each proposal is the model's token for the largest logit. */
static void check_map(const struct target_drafter *drafter, const struct golden *golden)
{
    for (uint32_t i = 0; i < CHAIN; i++) {
        const float *logits = golden->logits + (size_t)(golden->tokens - 2 + i) * golden->vocab;
        uint32_t best = 0;
        for (uint32_t token = 1; token < golden->vocab; token++)
            best = logits[token] > logits[best] ? token : best;
        uint32_t told = drafter->token_map ? drafter->token_map[best] : best;
        assert_int_equal(told, golden->ids[golden->tokens + i]);
    }
}

static void check_eagle(const char *folder, const char *path, uint32_t vocab)
{
    struct golden golden = {0};
    struct model *model;
    struct error_text error = {""};
    char drafter[64];
    snprintf(drafter, sizeof drafter, "tests/golden/%s", folder);
    if (model_open(path, &model, &error) != RESULT_OK ||
        model_open_drafter(model, drafter, NULL, &error) != RESULT_OK)
        fail_msg("%s: %s", path, error.text);
    assert_int_equal(plan_drawn_tokens(model_ahead_plan(model)), vocab);
    read_golden(folder, vocab, TOKENS, false, &golden);
    check_map(model_drafter(model), &golden);
    struct backend *target = load(model_plan(model), NULL, NULL);
    check_rows(model, &golden, target);
    target->interface->destroy(target);
    model_close(model);
    free(golden.logits);
}

/* With fewer tokens than the model and the model's embedding. */
static void test_eagle(void **state)
{
    (void)state;
    check_eagle("drafters/eagle3", "build/checkpoints/smollm3-f32", 100);
    check_eagle("drafters/eagle3", "build/checkpoints/smollm3-f32.gguf", 100);
}

/* With an embedding of its own, fewer columns than the model, and both of speculators' options. */
static void test_eagle_of_speculators(void **state)
{
    (void)state;
    check_eagle("drafters/eagle3_speculator", "build/checkpoints/qwen3_5-f32", 263);
}

/* The trained layer of the demo model: what it proposes for each token, and along the chain, as computed with
 * torch by the modules of scripts/demo_model/train_drafters. */
static void test_trained_layer(void **state)
{
    (void)state;
    uint32_t ids[TOKENS_MAX], wanted[TOKENS + CHAIN], hidden, vocab;
    FILE *file = fopen("tests/model/demo_ahead/proposals.txt", "r");
    must(file);
    for (uint32_t i = 0; i < TOKENS; i++)
        must(fscanf(file, "%u", &ids[i]) == 1);
    for (uint32_t i = 0; i + 1 < TOKENS + CHAIN; i++)
        must(fscanf(file, "%u", &wanted[i]) == 1);
    fclose(file);
    struct model *model = open_both("build/checkpoints/demo-ahead");
    hidden = model_plan(model)->config.hidden;
    vocab = model_plan(model)->config.vocab_tokens;
    struct golden golden = {.tokens = TOKENS};
    memcpy(golden.ids, ids, sizeof ids);
    struct backend *target = load(model_plan(model), NULL, NULL);
    struct backend *ahead = load(model_ahead_plan(model), NULL, target);
    run(target, &golden, NULL, 0, TOKENS);
    run(ahead, &golden, target->interface->last_hidden(target), 0, TOKENS - 1);
    float *states = must_alloc(hidden, sizeof *states);
    for (uint32_t i = 0; i + 1 < TOKENS + CHAIN; i++) {
        uint32_t row = i + 1 < TOKENS ? i : 0, last = i + 1 < TOKENS ? TOKENS - 2 : 0, best = 0;
        const float *logits = ahead->interface->last_logits(ahead) + (size_t)row * vocab;
        for (uint32_t token = 1; token < vocab; token++)
            best = logits[token] > logits[best] ? token : best;
        assert_int_equal(best, wanted[i]);
        if (i + 2 < TOKENS || i + 2 == TOKENS + CHAIN)
            continue;
        memcpy(states, ahead->interface->last_hidden(ahead) + (size_t)last * hidden,
               hidden * sizeof *states);
        golden.ids[i + 2] = best;
        run(ahead, &golden, states, i + 1, 1);
    }
    free(states);
    ahead->interface->destroy(ahead);
    target->interface->destroy(target);
    model_close(model);
}

static void expect_none(const char *path, enum result wanted)
{
    struct model *model;
    struct error_text error = {""};
    must(model_open(path, &model, &error) == RESULT_OK);
    assert_int_equal(model_open_ahead(model, &error), wanted);
    assert_null(model_ahead_plan(model));
    assert_false(model_plan(model)->keeps_hidden);
    model_close(model);
}

static void test_without_such_a_layer(void **state)
{
    (void)state;
    expect_none("build/checkpoints/qwen3_5-f32", RESULT_NOT_FOUND);
    expect_none("build/checkpoints/llama-f32.gguf", RESULT_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_glm4_moe),
        cmocka_unit_test(test_deepseek_v3),
        cmocka_unit_test(test_eagle),
        cmocka_unit_test(test_eagle_of_speculators),
        cmocka_unit_test(test_trained_layer),
        cmocka_unit_test(test_without_such_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
