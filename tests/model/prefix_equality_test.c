/*
 * Real models with the prefix cache on, thrashing and off: 1,000 random turns of conversations that
 * continue, branch and share their beginnings give the same tokens. Covers full attention, sliding
 * windows and recurrent states, with and without images, in full precision, quantized, and
 * quantized after a full-precision prefix. Each request runs in two engines at once, one with the
 * cache, beside different other requests.
 *
 * Log-probabilities of the drawn tokens are compared bit for bit, so one wrong key is found long
 * before it would change a token.
 */
// tags: long
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/drawn_request.h"
#include "tests/support/engine_rig.h"
#include "tests/support/sanitized.h"
#include "tests/support/tower_scene.h"
#include "worker/backend/host/backend.h"
#include "worker/model/model.h"

#define SLOTS         10u
#define TEXT_MAX      260u
#define CONVERSATIONS 4u
#define VOCABULARY    200u /* maximum token id in prompts */
#define PATCH_ROWS    2048u
#define FEATURE_ROWS  256u

#define SMOLLM2        "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define STORM_REQUESTS 64u
#define STORM_TOKENS   20u

struct trial {
    const char
        *path; /* checkpoint, or NULL: that of `family`, whose images the conversations use */
    const char *family;
    struct kv_quantization quantization;
    uint32_t sequences; /* number of sequences of maximum length that fit into memory */
    uint32_t requests;
    double least_share; /* minimum share of prompt tokens found in the cache */
};

struct scene {
    struct model *model;
    struct engine_rig rigs[2]; /* with the cache, and without */
    uint32_t vocabulary;       /* text ids are below it, image ids above */
    struct test_random random;
    struct tower_scene shown; /* zeroed if there are no images */
    struct drawn_catalog catalog;
    struct drawn_request conversations[CONVERSATIONS];
    struct drawn_request drawn[SLOTS];
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t images;
};

static struct backend *load(const struct model *model, const struct engine_rig_options *options)
{
    struct error_text error;
    struct backend *backend = cpu_backend_create();
    struct backend_options wanted = {.threads = 1,
                                     .max_step_rows = options->step_tokens,
                                     .max_logit_rows = options->max_sequences,
                                     .state_slots =
                                         options->max_sequences + options->checkpoint_slots};
    if (options->vision) {
        wanted.vision = model_vision_plan(model);
        wanted.max_patch_rows = options->patch_rows;
        wanted.feature_rows = options->feature_rows;
    }
    memcpy(wanted.kv_blocks, options->kv_blocks, sizeof wanted.kv_blocks);
    must(backend->interface->load(backend, model_plan(model), &wanted, NULL, NULL, &error) ==
         RESULT_OK);
    return backend;
}

static void open_model(struct scene *scene, const struct trial *trial)
{
    struct error_text error;
    if (trial->family)
        tower_scene_read(trial->family, &scene->shown);
    const char *path = trial->family ? scene->shown.path : trial->path;
    must(model_open(path, &scene->model, &error) == RESULT_OK);
    must(model_quantize_kv(scene->model, &trial->quantization, &error) == RESULT_OK);
    uint32_t ids = model_plan(scene->model)->config.vocab_tokens - 1;
    scene->vocabulary = ids < VOCABULARY ? ids : VOCABULARY;
    if (trial->family)
        drawn_catalog_copy(&scene->catalog, scene->shown.images, scene->shown.image_count,
                           model_vision(scene->model), scene->vocabulary);
}

static void open_scene(struct scene *scene, const struct trial *trial)
{
    *scene = (struct scene){.random = {.state = 20261122}};
    open_model(scene, trial);
    const struct plan *plan = model_plan(scene->model);
    for (uint32_t i = 0; i < 2; i++) {
        struct engine_rig_options options = engine_rig_defaults();
        options.layout = &plan->kv;
        options.vocab_tokens = plan->config.vocab_tokens;
        options.context_tokens = TEXT_MAX;
        options.step_tokens =
            trial->family ? TEXT_MAX : 48; /* a tile may have to fit into one step */
        options.mixed_prefill_tokens = 24;
        options.recurrent = plan->state.layers > 0;
        options.prefix_cache = i == 0;
        options.checkpoint_slots = i == 0 && options.recurrent ? 3 * trial->sequences : 0;
        for (uint32_t group = 0; group < plan->kv.group_count; group++)
            options.kv_blocks[group] =
                trial->sequences *
                    kv_layout_blocks_needed(&plan->kv, group, TEXT_MAX, options.step_tokens) +
                1;
        if (trial->family) {
            options.vision = model_vision(scene->model);
            options.patch_rows = PATCH_ROWS;
            options.feature_rows = FEATURE_ROWS;
            options.kept_images = 2;
        }
        options.backend = load(scene->model, &options);
        engine_rig_open(&scene->rigs[i], &options);
    }
}

static void make_request(struct scene *scene, struct drawn_request *drawn)
{
    struct test_random *random = &scene->random;
    drawn_request_begin(drawn);
    drawn->conversation = test_random_below(random, CONVERSATIONS);
    const struct drawn_request *from =
        &scene->conversations[test_random_below(random, 4) ? drawn->conversation : 0];
    uint32_t all = from->request.prompt_tokens;
    uint32_t shared = test_random_below(random, 3) ? all : test_random_below(random, all + 1);
    uint32_t more = 1 + test_random_below(random, 24);
    const struct drawn_image *image = NULL;
    uint32_t picked = 0;
    if (scene->catalog.count > 0 && test_random_below(random, 2) == 0) {
        picked = test_random_below(random, scene->catalog.count);
        image = &scene->catalog.images[picked];
    }
    uint32_t image_tokens = image ? image->record.tiles * (image->tile_tokens + 1) : 0;
    if (shared + image_tokens + more > TEXT_MAX - 30 ||
        (image && from->request.image_count == DRAWN_IMAGES_MAX))
        shared = 0;
    drawn_request_share(drawn, from, shared);
    if (image && image_tokens + more <= TEXT_MAX - 30)
        drawn_request_add_image(drawn, &scene->catalog, picked, random);
    drawn_request_add_text(drawn, random, more, scene->vocabulary);
    drawn->request.max_new_tokens = 1 + test_random_below(random, 20);
    drawn->request.flags = SUBMIT_FLAG_IGNORE_END | SUBMIT_FLAG_LOGPROBS;
    drawn->request.sampling.temperature = test_random_below(random, 2) ? 0.0f : 1.0f;
    drawn->request.sampling.seed = test_random_next(random);
    drawn_request_end(drawn);
    scene->images += drawn->request.image_count;
}

static void assert_same(const struct test_reply *with, const struct test_reply *without)
{
    assert_int_equal(with->failure, RESULT_OK);
    assert_int_equal(with->finish, FINISH_LENGTH);
    assert_int_equal(with->token_count, without->token_count);
    assert_memory_equal(with->tokens, without->tokens, with->token_count * sizeof(uint32_t));
    assert_memory_equal(with->logprobs, without->logprobs, with->token_count * sizeof(float));
}

static void settle(struct scene *scene, uint32_t slot)
{
    struct drawn_request *drawn = &scene->drawn[slot];
    const struct test_reply *with = &scene->rigs[0].frontend->replies[slot];
    const struct test_reply *without = &scene->rigs[1].frontend->replies[slot];
    assert_same(with, without);
    scene->prompt_tokens += drawn->request.prompt_tokens;
    scene->cached_tokens += with->cached_tokens;
    struct drawn_request *to = &scene->conversations[drawn->conversation];
    drawn_request_begin(to);
    drawn_request_share(to, drawn, drawn->request.prompt_tokens);
    for (uint32_t i = 0; i < with->token_count; i++)
        drawn_request_add_token(to, with->tokens[i]);
    drawn->used = false;
}

static void take_turn(struct scene *scene, uint32_t *submitted, uint32_t *finished,
                      uint32_t requests)
{
    uint32_t slot = test_random_below(&scene->random, SLOTS);
    struct drawn_request *drawn = &scene->drawn[slot];
    if (!drawn->used && *submitted < requests) {
        make_request(scene, drawn);
        for (uint32_t i = 0; i < 2; i++)
            must(test_frontend_submit(scene->rigs[i].frontend, slot, &drawn->request));
        (*submitted)++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        engine_rig_turn(&scene->rigs[i]);
        test_frontend_collect(scene->rigs[i].frontend);
    }
    for (slot = 0; slot < SLOTS; slot++) {
        if (!scene->drawn[slot].used || scene->rigs[0].frontend->replies[slot].live ||
            scene->rigs[1].frontend->replies[slot].live)
            continue;
        settle(scene, slot);
        (*finished)++;
    }
}

static void check(const struct trial *trial)
{
    struct scene *scene = must_alloc(1, sizeof *scene);
    open_scene(scene, trial);
    uint32_t submitted = 0, finished = 0, turns = 0;
    while (finished < trial->requests) {
        must(turns++ < trial->requests * 200);
        take_turn(scene, &submitted, &finished, trial->requests);
    }
    double share = (double)scene->cached_tokens / (double)scene->prompt_tokens;
    print_message("%s, memory for %u: %.2f of all prompt tokens were there, %llu images\n",
                  trial->family ? trial->family : trial->path, trial->sequences, share,
                  (unsigned long long)scene->images);
    assert_true(share > trial->least_share);
    assert_true((trial->family != NULL) == (scene->images > 0));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(payload_slab_used_bytes(scene->rigs[i].frontend->slab), 0);
        engine_rig_close(&scene->rigs[i]); /* checks that every block was freed */
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        drawn_request_fini(&scene->drawn[slot]);
    drawn_catalog_fini(&scene->catalog);
    model_close(scene->model);
    if (trial->family)
        tower_scene_free(&scene->shown);
    free(scene);
}

static void check_all(const struct trial *trials, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        check(&trials[i]);
}
#define CHECK_ALL(trials) check_all(trials, sizeof(trials) / sizeof(trials)[0])

#define CHECKPOINT "build/checkpoints/"
#define TURBOQUANT(start)                                                                          \
    {                                                                                              \
        KV_QUANT_TURBOQUANT, 6, 8, 0, start                                                        \
    }
#define UNIFORM(start)                                                                             \
    {                                                                                              \
        KV_QUANT_UNIFORM, 16, 8, 0, start                                                          \
    }
#define FULL                                                                                       \
    {                                                                                              \
        0                                                                                          \
    }

static void test_full_attention(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {CHECKPOINT "llama-bf16", NULL, FULL, 20, 100, 0.5},
        {CHECKPOINT "llama-bf16", NULL, FULL, 1, 100, 0.3},
        {CHECKPOINT "llama-bf16", NULL, UNIFORM(0), 20, 50, 0.5},
        {CHECKPOINT "llama-bf16", NULL, TURBOQUANT(90), 20, 100, 0.4},
        {CHECKPOINT "llama-bf16", NULL, TURBOQUANT(90), 1, 50, 0.1},
    };
    CHECK_ALL(trials);
}

static void test_sliding_windows(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {CHECKPOINT "gemma3-bf16", NULL, FULL, 20, 100, 0.5},
        {CHECKPOINT "gemma3-bf16", NULL, FULL, 2, 50, 0.1},
    };
    CHECK_ALL(trials);
}

static void test_gated_delta_nets(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {CHECKPOINT "qwen3_5-bf16", NULL, FULL, 20, 100, 0.5},
        {CHECKPOINT "qwen3_5-bf16", NULL, FULL, 2, 50, 0.1},
    };
    CHECK_ALL(trials);
}

static void test_short_convolutions(void **state)
{
    (void)state;
    static const struct trial trials[] = {{CHECKPOINT "lfm2-bf16", NULL, FULL, 20, 100, 0.5}};
    CHECK_ALL(trials);
}

/* In mamba2 no layer attends: the cache has checkpoints of state alone. In falcon_h1 each does both. */
static void test_state_space_mixers(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {CHECKPOINT "mamba2-bf16", NULL, FULL, 20, 100, 0.5},
        {CHECKPOINT "mamba2-bf16", NULL, FULL, 2, 50, 0.1},
        {CHECKPOINT "falcon_h1-bf16", NULL, FULL, 20, 50, 0.4},
        {CHECKPOINT "granitemoehybrid-bf16", NULL, FULL, 20, 50, 0.4},
    };
    CHECK_ALL(trials);
}

static void test_images(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {NULL, "qwen3_vl", FULL, 20, 50, 0.3}, {NULL, "qwen3_vl", UNIFORM(40), 2, 50, 0.0},
        {NULL, "gemma3", FULL, 20, 50, 0.2},   {NULL, "gemma3", FULL, 2, 50, 0.0},
        {NULL, "qwen3_5", FULL, 20, 50, 0.2},  {NULL, "qwen3_5", FULL, 2, 50, 0.0},
    };
    CHECK_ALL(trials);
}

/* A real model, memory for four sequences and sixteen times as many requests: a preempted request
 * is recomputed and continues with the same tokens as with ample memory. */
static void open_storm(struct engine_rig *rig, const struct model *model, uint32_t sequences,
                       bool prefix_cache)
{
    const struct plan *plan = model_plan(model);
    struct engine_rig_options options = engine_rig_defaults();
    options.layout = &plan->kv;
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = STORM_TOKENS;
    options.max_sequences = 32;
    options.step_tokens = 128;
    options.mixed_prefill_tokens = 64;
    options.prefix_cache = prefix_cache;
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] =
            sequences * kv_layout_blocks_needed(&plan->kv, group, STORM_TOKENS, 1);
    options.backend = load(model, &options);
    engine_rig_open(rig, &options);
}

static void test_a_storm_of_preemptions(void **state)
{
    (void)state;
    static struct drawn_request drawn[STORM_REQUESTS];
    struct test_random random = {.state = 64};
    struct model *model;
    struct engine_rig rigs[2];
    const uint32_t requests = SANITIZED ? STORM_REQUESTS / 4 : STORM_REQUESTS;
    must(model_open(SMOLLM2, &model, NULL) == RESULT_OK);
    open_storm(&rigs[0], model, 4, true);
    open_storm(&rigs[1], model, STORM_REQUESTS, false);
    for (uint32_t i = 0; i < requests; i++) {
        drawn_request_begin(&drawn[i]);
        drawn_request_add_text(&drawn[i], &random, 6 + test_random_below(&random, 9), 40000);
        drawn[i].request.max_new_tokens = STORM_TOKENS - drawn[i].request.prompt_tokens;
        drawn[i].request.flags = SUBMIT_FLAG_IGNORE_END | SUBMIT_FLAG_LOGPROBS;
        drawn[i].request.sampling.temperature = i % 2 ? 1.0f : 0.0f;
        drawn[i].request.sampling.seed = i;
        drawn_request_end(&drawn[i]);
        for (uint32_t r = 0; r < 2; r++)
            assert_true(test_frontend_submit(rigs[r].frontend, i, &drawn[i].request));
    }
    for (uint32_t r = 0; r < 2; r++)
        engine_rig_finish(&rigs[r], 100000);
    assert_true(engine_rig_preemptions(&rigs[0]) > 0);
    assert_int_equal(engine_rig_preemptions(&rigs[1]), 0);
    print_message("%u requests in memory for 4: %llu preemptions\n", requests,
                  (unsigned long long)engine_rig_preemptions(&rigs[0]));
    for (uint32_t i = 0; i < requests; i++) {
        assert_same(&rigs[0].frontend->replies[i], &rigs[1].frontend->replies[i]);
        drawn_request_fini(&drawn[i]);
    }
    for (uint32_t r = 0; r < 2; r++)
        engine_rig_close(&rigs[r]);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),         cmocka_unit_test(test_sliding_windows),
        cmocka_unit_test(test_gated_delta_nets),       cmocka_unit_test(test_short_convolutions),
        cmocka_unit_test(test_state_space_mixers),     cmocka_unit_test(test_images),
        cmocka_unit_test(test_a_storm_of_preemptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
