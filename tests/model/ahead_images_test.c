/*
 * A layer that predicts a further token beside images, through the whole worker. Requests share steps while
 * other images are still being encoded. Answers are those without drafts, and what the layer proposes from the
 * model's own states is, to the bit, what it gives over the finished sequence in one piece: so each of its
 * rows had the right token, feature, rotary position and state, once and in order.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/backend_step.h"
#include "tests/support/draft_oracle.h"
#include "tests/support/engine_rig.h"
#include "tests/support/scene_request.h"
#include "tests/support/test_random.h"
#include "worker/model/model.h"

#define PATH       "build/checkpoints/qwen3_5_images-ahead"
#define FAMILY     "qwen3_5"
#define SEQUENCES  4u
#define ROUNDS     4u /* of all prompts of the scene */
#define ANSWER     30u
#define LONGEST    128u
#define BLOCKS     64u
#define CHUNK      24u
#define PATCH_ROWS 48u /* so few that the images of a prompt are encoded one after the other */
#define FEATURES   256u
#define SMALL_POOL 7u
#define DRAWS_MAX  4000u

/* A row of the layer that drew a token. */
struct noted_draw {
    uint32_t position;
    uint32_t token; /* of the row */
    float *hidden;  /* [hidden] of the row */
    struct sampled_token drawn;
};

/* Notes what the layer's backend is given and draws, and lets it compute. */
struct recorder {
    struct backend base;
    struct backend *inner;
    uint32_t hidden;
    uint32_t image_rows;
    uint32_t first; /* draw of the step under way */
    uint32_t count;
    struct noted_draw draws[DRAWS_MAX];
};

static struct recorder *of(const struct backend *backend)
{
    return (struct recorder *)(uintptr_t)backend;
}

static uint32_t note_depth(const struct backend *backend)
{
    return of(backend)->inner->interface->step_depth(of(backend)->inner);
}

static uint32_t position_of(const struct step_batch *batch, uint32_t row)
{
    uint32_t s = 0;
    while (batch->sequences[s].first_row + batch->sequences[s].row_count <= row)
        s++;
    return batch->sequences[s].first_position + row - batch->sequences[s].first_row;
}

static enum result note_launch(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error)
{
    struct recorder *recorder = of(backend);
    for (uint32_t row = 0; batch->feature_rows && row < batch->row_count; row++)
        recorder->image_rows += batch->feature_rows[row] != ROW_FEATURE_NONE;
    recorder->first = recorder->count;
    for (uint32_t i = 0; i < batch->logit_row_count; i++) {
        uint32_t row = batch->logit_rows[i];
        must(recorder->count < DRAWS_MAX);
        struct noted_draw *draw = &recorder->draws[recorder->count++];
        *draw = (struct noted_draw){.position = position_of(batch, row),
                                    .token = batch->token_ids[row],
                                    .hidden = must_alloc(recorder->hidden, sizeof(float))};
        memcpy(draw->hidden, batch->hidden + (size_t)row * recorder->hidden,
               recorder->hidden * sizeof(float));
    }
    return recorder->inner->interface->step_launch(recorder->inner, batch, error);
}

static enum result note_wait(struct backend *backend, struct sampled_token *results,
                             struct error_text *error)
{
    struct recorder *recorder = of(backend);
    enum result result = recorder->inner->interface->step_wait(recorder->inner, results, error);
    for (uint32_t i = recorder->first; i < recorder->count; i++)
        recorder->draws[i].drawn = results[i - recorder->first];
    return result;
}

static const float *note_hidden(const struct backend *backend)
{
    return of(backend)->inner->interface->last_hidden(of(backend)->inner);
}

static const struct backend_interface noting = {.step_depth = note_depth,
                                                .step_launch = note_launch,
                                                .step_wait = note_wait,
                                                .last_hidden = note_hidden};

static struct backend *load(const struct plan *plan, const struct plan *vision,
                            const struct backend *lender, uint32_t rows, uint32_t logit_rows)
{
    struct backend *backend = cpu_backend_create();
    struct backend_options options = {.threads = 1,
                                      .lender = lender,
                                      .max_step_rows = rows,
                                      .max_logit_rows = logit_rows,
                                      .state_slots = SEQUENCES,
                                      .deferred_places = lender ? 0 : STEP_DRAFTS_PLACES};
    struct error_text error = {""};
    if (lender)
        options.sights = &vision->vision;
    else
        options.vision = vision;
    if (options.vision) {
        options.max_patch_rows = 2048;
        options.feature_rows = FEATURES;
    }
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = BLOCKS;
    must(backend->interface->load(backend, plan, &options, NULL, NULL, &error) == RESULT_OK);
    return backend;
}

/* --- one sequence in one piece --------------------------------------------------------------- */

struct whole_sequence {
    uint32_t count;
    uint32_t tokens[LONGEST];
    float *states; /* [count, hidden] of the model */
    struct sampled_token
        drawn[LONGEST]; /* by the layer after each of its count - 1 rows, greedily */
    uint32_t proposals; /* of the engine for it */
};

/* Computes all rows of a plan, one sequence from position 0. */
static void run_whole(struct backend *backend, const struct step_batch *given,
                      struct sampled_token *results)
{
    static const uint32_t blocks[BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    static struct row_sampling samplings[LONGEST];
    static uint32_t logit_rows[LONGEST];
    struct sampling_params greedy = sampling_params_default();
    struct error_text error = {""};
    greedy.temperature = 0.0f;
    for (uint32_t i = 0; i < given->row_count; i++) {
        samplings[i] = (struct row_sampling){.params = &greedy, .wants_logprob = true};
        logit_rows[i] = i;
    }
    const struct step_sequence sequence = {.row_count = given->row_count,
                                           .block_tables = {blocks, blocks},
                                           .state_source = STATE_SLOT_NONE,
                                           .state_copy = STATE_SLOT_NONE};
    struct step_batch batch = *given;
    batch.sequence_count = 1;
    batch.sequences = &sequence;
    batch.logit_rows = logit_rows;
    batch.samplings = samplings;
    batch.logit_row_count = results ? given->row_count : 0;
    must(backend_step_run(backend, &batch, results, &error) == RESULT_OK);
}

static void encode(struct backend *backend, const struct tower_scene *scene)
{
    const struct encode_batch batch = {.image_count = scene->image_count, .images = scene->images};
    struct error_text error;
    uint64_t left;
    must(backend->interface->encode_begin(backend, &batch, &error) == RESULT_OK);
    do
        must(backend->interface->encode_part(backend, UINT64_MAX, &left, &error) == RESULT_OK);
    while (left > 0);
}

/* The prompt and its answer. */
static void compute_whole(const struct model *model, const struct tower_scene *scene,
                          const struct scene_prompt *prompt, const struct test_reply *reply,
                          struct whole_sequence *whole)
{
    static uint32_t feature_rows[LONGEST];
    static struct rope_position positions[LONGEST];
    uint32_t hidden = model_plan(model)->config.hidden;
    size_t state_bytes = (size_t)LONGEST * hidden * sizeof(float);
    whole->count = prompt->count + reply->token_count;
    must(whole->count <= LONGEST);
    memcpy(whole->tokens, prompt->ids, prompt->count * sizeof *whole->tokens);
    memcpy(whole->tokens + prompt->count, reply->tokens,
           reply->token_count * sizeof *whole->tokens);
    for (uint32_t i = 0; i < whole->count; i++) {
        bool asked = i < prompt->count;
        feature_rows[i] = asked ? prompt->feature_rows[i] : ROW_FEATURE_NONE;
        positions[i] = asked ? prompt->positions[i] : positions[i - 1];
        positions[i].time += !asked;
        positions[i].height += !asked;
        positions[i].width += !asked;
    }
    struct backend *target =
        load(model_plan(model), model_vision_plan(model), NULL, LONGEST, LONGEST);
    encode(target, scene);
    run_whole(target,
              &(struct step_batch){.row_count = whole->count,
                                   .token_ids = whole->tokens,
                                   .feature_rows = feature_rows,
                                   .rope_positions = positions},
              NULL);
    whole->states = must_alloc(1, state_bytes);
    memcpy(whole->states, target->interface->last_hidden(target),
           (size_t)whole->count * hidden * sizeof(float));
    struct backend *ahead =
        load(model_ahead_plan(model), model_vision_plan(model), target, LONGEST, LONGEST);
    run_whole(ahead,
              &(struct step_batch){.row_count = whole->count - 1,
                                   .token_ids = whole->tokens + 1,
                                   .feature_rows = feature_rows + 1,
                                   .rope_positions = positions,
                                   .hidden = whole->states},
              whole->drawn);
    ahead->interface->destroy(ahead);
    target->interface->destroy(target);
}

/* --- the engine ------------------------------------------------------------------------------ */

static struct recorder recorder;

/* Proposes nothing, so that the layer is asked in every step. */
static void *silent_open(const struct drafter *drafter, uint32_t tokens_max)
{
    (void)drafter, (void)tokens_max;
    return must_alloc(1, 1);
}

static void silent_propose(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                           struct draft_proposal *proposal)
{
    (void)state, (void)tokens, (void)known, (void)most;
    proposal->count = 0;
}

static const struct drafter silent = {
    .open = silent_open, .close = free, .propose = silent_propose};

static void open_engine(struct engine_rig *rig, const struct model *model, uint32_t feature_rows,
                        bool drafts, struct draft_model **draft)
{
    const struct plan *plan = model_plan(model), *ahead = model_ahead_plan(model);
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = LONGEST;
    options.max_sequences = SEQUENCES;
    options.step_tokens = CHUNK;
    options.logit_rows = CHUNK;
    options.mixed_prefill_tokens = 7;
    options.vision = model_vision(model);
    options.patch_rows = PATCH_ROWS;
    options.feature_rows = feature_rows;
    options.kept_images = 1;
    options.recurrent = true;
    options.kv_blocks[0] = BLOCKS;
    options.layout = &plan->kv;
    options.backend = load(plan, model_vision_plan(model), NULL, CHUNK, CHUNK);
    *draft = NULL;
    if (drafts) {
        recorder = (struct recorder){.base.interface = &noting, .hidden = plan->config.hidden};
        recorder.inner =
            load(ahead, model_vision_plan(model), options.backend, DRAFT_MODEL_ROWS, SEQUENCES);
        *draft = draft_model_create(
            &(struct draft_model_parts){.backend = &recorder.base,
                                        .group_count = ahead->kv.group_count,
                                        .vocab_tokens = ahead->config.vocab_tokens,
                                        .context_tokens = ahead->config.context_tokens,
                                        .max_sequences = SEQUENCES,
                                        .hidden_columns = recorder.hidden,
                                        .state_columns = recorder.hidden,
                                        .takes_images = true});
        options.drafter = &silent;
        options.draft_model = *draft;
        options.draft_pace = draft_oracle_pace();
    }
    engine_rig_open(rig, &options);
}

/* SEQUENCES at a time: while the images of some are encoded, the others' steps go on. */
static void run_all(struct engine_rig *rig, const struct scene_request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < ROUNDS * count; i++) {
        must(test_frontend_submit(rig->frontend, i, &requests[i % count].request));
        for (uint32_t turn = 0; turn < 2; turn++) {
            engine_rig_turn(rig);
            test_frontend_collect(rig->frontend);
        }
        if ((i + 1) % SEQUENCES == 0)
            engine_rig_finish(rig, 4000);
    }
    engine_rig_finish(rig, 4000);
}

/* Rows of guesses have the layer's own states, which no sequence has. */
static uint32_t check_draws(struct whole_sequence *wholes, uint32_t count)
{
    uint32_t checked = 0, hidden = recorder.hidden;
    for (uint32_t i = 0; i < recorder.count; i++) {
        struct noted_draw *draw = &recorder.draws[i];
        for (uint32_t w = 0; w < count; w++) {
            struct whole_sequence *whole = &wholes[w];
            uint32_t at = draw->position;
            if (at + 1 >= whole->count || whole->tokens[at + 1] != draw->token ||
                memcmp(whole->states + (size_t)at * hidden, draw->hidden, hidden * sizeof(float)) !=
                    0)
                continue;
            assert_int_equal(draw->drawn.token, whole->drawn[at].token);
            assert_memory_equal(&draw->drawn.logprob, &whole->drawn[at].logprob, sizeof(float));
            whole->proposals++;
            checked++;
            break;
        }
        free(draw->hidden);
    }
    return checked;
}

/* Rows of images of all prompts: the layer computes each once. */
static uint32_t count_features(const struct tower_scene *scene)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < scene->prompt_count; p++)
        for (uint32_t i = 0; i < scene->prompts[p].count; i++)
            count += scene->prompts[p].feature_rows[i] != ROW_FEATURE_NONE;
    return count;
}

struct stage {
    struct tower_scene scene;
    struct model *model;
    struct scene_request requests[SCENE_PROMPTS];
    struct engine_rig plain;
    struct engine_rig drafting;
    struct draft_model *draft;
};

/* Runs the requests without and with drafts; the answers are the same. */
static void run_both(struct stage *stage, uint32_t feature_rows)
{
    struct error_text error;
    struct draft_model *none;
    tower_scene_read(FAMILY, &stage->scene);
    must(model_open(PATH, &stage->model, &error) == RESULT_OK);
    must(model_open_ahead(stage->model, &error) == RESULT_OK);
    uint32_t count = stage->scene.prompt_count;
    for (uint32_t i = 0; i < count; i++)
        scene_request_make(&stage->scene, &stage->scene.prompts[i], model_vision(stage->model),
                           ANSWER, &stage->requests[i]);
    open_engine(&stage->plain, stage->model, feature_rows, false, &none);
    run_all(&stage->plain, stage->requests, count);
    open_engine(&stage->drafting, stage->model, feature_rows, true, &stage->draft);
    run_all(&stage->drafting, stage->requests, count);
    for (uint32_t i = 0; i < ROUNDS * count; i++) {
        const struct test_reply *reply = &stage->drafting.frontend->replies[i],
                                *wanted = &stage->plain.frontend->replies[i];
        assert_int_equal(reply->failure, RESULT_OK);
        assert_int_equal(reply->token_count, wanted->token_count);
        assert_memory_equal(reply->tokens, wanted->tokens,
                            wanted->token_count * sizeof *wanted->tokens);
    }
}

static void end_both(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->scene.prompt_count; i++)
        free(stage->requests[i].part);
    engine_rig_close(&stage->plain);
    engine_rig_close(&stage->drafting);
    draft_model_destroy(stage->draft);
    recorder.inner->interface->destroy(recorder.inner);
    model_close(stage->model);
    tower_scene_free(&stage->scene);
}

static void test_proposals(void **state)
{
    (void)state;
    static struct whole_sequence wholes[SCENE_PROMPTS];
    static struct stage stage;
    run_both(&stage, FEATURES);
    uint32_t count = stage.scene.prompt_count;
    for (uint32_t i = 0; i < count; i++)
        compute_whole(stage.model, &stage.scene, &stage.scene.prompts[i],
                      &stage.plain.frontend->replies[i], &wholes[i]);
    assert_int_equal(recorder.image_rows, ROUNDS * count_features(&stage.scene));
    uint32_t checked = check_draws(wholes, count);
    print_message("%u image rows, %u of %u draws\n", recorder.image_rows, checked, recorder.count);
    assert_true(checked > 80);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(wholes[i].proposals > 10);
        free(wholes[i].states);
    }
    end_both(&stage);
}

/* Images of which the pool holds one at a time: features that the layer waits for block no other image. */
static void test_small_pool(void **state)
{
    (void)state;
    static struct stage stage;
    run_both(&stage, SMALL_POOL);
    assert_true(recorder.image_rows > 0);
    for (uint32_t i = 0; i < recorder.count; i++)
        free(recorder.draws[i].hidden);
    end_both(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proposals),
                                       cmocka_unit_test(test_small_pool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
