/*
 * Prompts of runs that occur again and again; pools so small that sequences are preempted; the prefix cache
 * is on.
 */
#include "tests/support/draft_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/draft_oracle.h"
#include "tests/support/drawn_request.h"
#include "tests/support/engine_rig.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define REQUESTS    24u
#define PROMPT_MAX  60u
#define ANSWER      70u
#define PIECE       6u /* tokens of a run that prompts repeat */
#define BLOCKS      12u
#define SEQUENCES   8u
#define CHECKPOINTS 4u
#define KNOWN_RIGHT                                                                                \
    2u /* of the oracle's drafts, positions that are accepted often in every trial */

struct answer {
    uint32_t count;
    uint32_t tokens[ANSWER];
    float logprobs[ANSWER];
    uint32_t alternative_counts[ANSWER];
    struct token_logprob alternatives[ANSWER * LIMIT_TOP_LOGPROBS];
};

struct scene {
    struct model *model;
    bool on_vulkan;
    uint32_t vocabulary; /* ids of text that prompts have */
    struct drawn_request requests[REQUESTS];
    struct answer answers[REQUESTS];
    struct draft_oracle oracle;
};

/* A prompt of runs that occur again and again. */
static void draw_request(struct scene *scene, struct test_random *random,
                         struct drawn_request *drawn)
{
    struct test_request *request = &drawn->request;
    uint32_t piece[PIECE];
    drawn_request_begin(drawn);
    for (uint32_t i = 0; i < PIECE; i++)
        piece[i] = test_random_below(random, scene->vocabulary);
    uint32_t tokens = 1 + test_random_below(random, PROMPT_MAX);
    for (uint32_t i = 0; i < tokens; i++) {
        bool repeats = test_random_below(random, 4) > 0;
        drawn_request_add_token(drawn, repeats ? piece[i % PIECE]
                                               : test_random_below(random, scene->vocabulary));
    }
    drawn_request_sample(drawn, random, scene->vocabulary);
    request->flags |= SUBMIT_FLAG_LOGPROBS;
    request->top_logprobs = test_random_below(random, 6);
    request->max_new_tokens = 1 + test_random_below(random, ANSWER);
    request->sampling.top_k = test_random_below(random, 2) ? 20 : request->sampling.top_k;
    request->sampling.min_p = test_random_below(random, 3) ? 0.0f : 0.05f;
    if (test_random_below(random, 3) == 0) {
        request->sampling.repetition_penalty = 1.2f;
        request->sampling.repetition_context = test_random_below(random, 2) ? 9 : 0;
        request->sampling.frequency_penalty = 0.3f;
        request->sampling.frequency_context = test_random_below(random, 2) ? 5 : 0;
    }
    drawn_request_end(drawn);
}

static const struct vulkan_settings vulkan_settings = {
    .tier_limit = VULKAN_TIER_HIGHEST, .batch_invariant = true, .kernels_when_needed = true};

static struct backend *create_backend(const struct scene *scene)
{
    return scene->on_vulkan ? vulkan_backend_create() : cpu_backend_create();
}

/* Of a plan in blocks like those of the first group of the target; `shares`: the lender, whose blocks it uses. */
static struct backend *load_beside(const struct scene *scene, const struct plan *plan,
                                   uint32_t logit_rows, const struct backend *shares)
{
    struct backend *backend = create_backend(scene);
    struct backend_options load = {.threads = 2,
                                   .vulkan = vulkan_settings,
                                   .lender = shares,
                                   .shares_kv = shares != NULL,
                                   .step_depth = 1,
                                   .max_step_rows = DRAFT_MODEL_ROWS,
                                   .max_logit_rows = logit_rows};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        load.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &load, NULL, NULL, NULL) == RESULT_OK);
    return backend;
}

/* A draft model, an ahead layer, or a drafter; one that borrows caches reads those of `backend`, the target's. */
static struct draft_model *open_draft(const struct scene *scene, const struct plan *plan,
                                      const struct backend *backend)
{
    struct draft_model_parts parts = {.max_sequences = SEQUENCES};
    const struct target_drafter *drafter = model_drafter(scene->model);
    const struct plan *target = model_plan(scene->model);
    if (drafter && plan == drafter->plan) {
        parts.token_map = drafter->token_map;
        parts.block_tokens = drafter->block_tokens;
        parts.mask_token = drafter->mask_token;
    }
    parts.backend = load_beside(scene, plan, draft_model_draws(&parts), backend);
    draft_model_describe(target, plan, &parts);
    if (parts.block_tokens > 0) {
        struct draft_model_parts context = {.max_sequences = SEQUENCES};
        context.backend = load_beside(scene, drafter->context_plan, SEQUENCES, parts.backend);
        draft_model_describe(target, drafter->context_plan, &context);
        parts.context = draft_model_create(&context);
    }
    return draft_model_create(&parts);
}

static void close_draft(struct draft_model *draft)
{
    struct draft_model_parts parts = *draft_model_parts(draft);
    draft_model_destroy(draft);
    if (parts.context)
        close_draft(parts.context);
    parts.backend->interface->destroy(parts.backend);
}

static void open_engine(struct engine_rig *rig, const struct scene *scene,
                        const struct drafter *drafter, struct draft_model *draft)
{
    const struct plan *plan = model_plan(scene->model);
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = PROMPT_MAX + ANSWER;
    options.max_sequences = SEQUENCES;
    options.step_tokens = 40;
    options.logit_rows = 36;
    options.prefix_cache = true;
    options.recurrent = plan->state.layers > 0;
    options.checkpoint_slots = options.recurrent ? CHECKPOINTS : 0;
    options.backend = create_backend(scene);
    options.layout = &plan->kv;
    options.drafter = drafter;
    options.draft_model = draft;
    options.draft_pace = draft_oracle_pace();
    struct backend_options load = {.threads = 2,
                                   .vulkan = vulkan_settings,
                                   .step_depth = 1,
                                   .max_step_rows = options.step_tokens,
                                   .max_logit_rows = options.logit_rows,
                                   .state_slots = options.recurrent ? SEQUENCES + CHECKPOINTS : 0,
                                   .deferred_places = options.recurrent ? STEP_DRAFTS_PLACES : 0};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = load.kv_blocks[group] = BLOCKS;
    must(options.backend->interface->load(options.backend, plan, &load, NULL, NULL, NULL) ==
         RESULT_OK);
    const struct plan *own = model_ahead_plan(scene->model);
    options.leaves_backend = own && own->config.borrows_caches;
    if (options.leaves_backend)
        options.draft_model = open_draft(scene, own, options.backend);
    engine_rig_open(rig, &options);
}

static void take_answer(const struct test_reply *reply, struct answer *answer)
{
    *answer = (struct answer){.count = reply->token_count};
    assert_int_equal(reply->failure, RESULT_OK);
    assert_true(reply->token_count <= ANSWER);
    memcpy(answer->tokens, reply->tokens, reply->token_count * sizeof *reply->tokens);
    memcpy(answer->logprobs, reply->logprobs, reply->token_count * sizeof *reply->logprobs);
    for (uint32_t i = 0; i < reply->token_count; i++) {
        answer->alternative_counts[i] = reply->alternative_counts[i];
        memcpy(&answer->alternatives[i * LIMIT_TOP_LOGPROBS],
               &reply->alternatives[i * LIMIT_TOP_LOGPROBS],
               reply->alternative_counts[i] * sizeof *reply->alternatives);
    }
}

/* Runs all requests at once; with `learn` their answers become the expected ones. */
static void run(struct scene *scene, const struct drafter *drafter, struct draft_model *draft,
                bool learn, uint64_t accepted[LIMIT_DRAFT_TOKENS + 1])
{
    struct engine_rig rig;
    open_engine(&rig, scene, drafter, draft);
    for (uint32_t i = 0; i < REQUESTS; i++)
        must(test_frontend_submit(rig.frontend, i, &scene->requests[i].request));
    engine_rig_finish(&rig, 20000);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        static struct answer answer;
        take_answer(&rig.frontend->replies[i], &answer);
        if (learn)
            scene->answers[i] = answer;
        assert_memory_equal(&answer, &scene->answers[i], sizeof answer);
    }
    assert_true(engine_rig_preemptions(&rig) > 0);
    memcpy(accepted, rig.frontend->accepted_drafts, sizeof rig.frontend->accepted_drafts);
    engine_rig_close(&rig);
    if (!rig.options.leaves_backend)
        return;
    close_draft(rig.options.draft_model);
    rig.options.backend->interface->destroy(rig.options.backend);
}

/* With the model itself as its draft model, whose guesses are nearly all right, if it is not
 * recurrent, and with a model of random weights, whose guesses are wrong. */
static void check_draft_models(struct scene *scene, const struct draft_trial *trial)
{
    const char *const paths[] = {trial->path, trial->other};
    uint64_t accepted[2][LIMIT_DRAFT_TOKENS + 1];
    bool recurrent = model_plan(scene->model)->state.layers > 0;
    for (uint32_t i = recurrent ? 1 : 0; i < 2; i++) {
        struct model *model;
        struct error_text error;
        must(model_open(paths[i], &model, &error) == RESULT_OK);
        struct draft_model *draft = open_draft(scene, model_plan(model), NULL);
        run(scene, &suffix_drafter, draft, false, accepted[i]);
        close_draft(draft);
        model_close(model);
    }
    for (uint32_t position = 1; !recurrent && position <= KNOWN_RIGHT; position++) {
        assert_true(accepted[0][position] > 50);
        assert_true(accepted[0][position] > 2 * accepted[1][position]);
    }
}

/* The plan that keeps hidden states gives the same answers, with the checkpoint's layer that predicts a
 * further token or with a drafter. Both are random, so few of their proposals are right. */
static void check_ahead(struct scene *scene, const struct draft_trial *trial)
{
    const char *drafter = trial->drafter;
    struct error_text error;
    uint64_t accepted[LIMIT_DRAFT_TOKENS + 1];
    if (drafter)
        must(model_open_drafter(scene->model, drafter, NULL, &error) == RESULT_OK);
    else
        must(model_open_ahead(scene->model, &error) == RESULT_OK);
    if (model_ahead_plan(scene->model)->config.borrows_caches) {
        must(model_quantize_kv(scene->model, &trial->quantization, &error) == RESULT_OK);
        run(scene, &suffix_drafter, NULL, false, accepted);
        run(scene, &scene->oracle.drafter, NULL, false, accepted);
        return;
    }
    struct draft_model *draft = open_draft(scene, model_ahead_plan(scene->model), NULL);
    run(scene, &suffix_drafter, draft, false, accepted);
    run(scene, &scene->oracle.drafter, draft, false, accepted);
    close_draft(draft);
}

static void check_text_drafters(struct scene *scene)
{
    uint64_t accepted[LIMIT_DRAFT_TOKENS + 1];
    run(scene, &scene->oracle.drafter, NULL, false, accepted);
    for (uint32_t position = 1; position <= KNOWN_RIGHT; position++)
        assert_true(accepted[position] > 20);
    run(scene, &suffix_drafter, NULL, false, accepted);
}

void draft_trial_run(const struct draft_trial *trial)
{
    static struct scene scene;
    struct test_random random = {.state = 20261124};
    struct error_text error;
    uint64_t accepted[LIMIT_DRAFT_TOKENS + 1];
    memset(&scene, 0, sizeof scene);
    scene.on_vulkan = trial->on_vulkan;
    must(model_open(trial->path, &scene.model, &error) == RESULT_OK);
    must(model_quantize_kv(scene.model, &trial->quantization, &error) == RESULT_OK);
    uint32_t vocabulary = model_plan(scene.model)->config.vocab_tokens;
    scene.vocabulary = vocabulary < 300 ? vocabulary : 300;
    for (uint32_t i = 0; i < REQUESTS; i++)
        draw_request(&scene, &random, &scene.requests[i]);
    run(&scene, NULL, NULL, true, accepted);
    assert_int_equal(accepted[1], 0);
    draft_oracle_init(&scene.oracle, 7, vocabulary);
    for (uint32_t i = 0; i < REQUESTS; i++)
        draft_oracle_teach(&scene.oracle, scene.requests[i].prompt,
                           scene.requests[i].request.prompt_tokens, scene.answers[i].tokens,
                           scene.answers[i].count);
    if (!trial->brief)
        check_text_drafters(&scene);
    if (trial->other)
        check_draft_models(&scene, trial);
    if (trial->ahead || trial->drafter)
        check_ahead(&scene, trial);
    for (uint32_t i = 0; i < REQUESTS; i++)
        drawn_request_fini(&scene.requests[i]);
    draft_oracle_fini(&scene.oracle);
    model_close(scene.model);
}
