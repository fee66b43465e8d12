/*
 * Overlapping steps on a real checkpoint. A step launched before the previous one is read gives the
 * same result as when every token is known, whatever the order of its rows. The arguments of a
 * launch are not read afterwards. Blocks may have a new owner while a step still has a row of their
 * old one. So it is too where three stages compute a step one after the other.
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
#include "worker/backend/host/backend.h"
#include "worker/model/model.h"

#define SMOLLM2   "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define STREAMS   4u
#define STEPS     12u /* the first computes the prompts; each draws a token for every stream */
#define PROMPT    20u
#define BLOCKS    3u /* blocks of one stream */
#define ROWS_MAX  (STREAMS * PROMPT)
#define STOP_STEP 5u /* the step whose token ends stream 0 */

struct scene {
    struct model *model;
    struct backend *backend;
    uint32_t vocab;
    struct sampling_params params[STREAMS];
    uint32_t prompts[STREAMS][PROMPT];
    uint32_t expected[STREAMS][STEPS];
};

/* The arrays of one step, overwritten with garbage once it is launched. */
struct stage {
    struct step_batch batch;
    uint32_t token_ids[ROWS_MAX];
    struct step_sequence sequences[STREAMS];
    uint32_t tables[STREAMS][BLOCKS];
    uint32_t logit_rows[STREAMS];
    struct sampling_params params[STREAMS];
    struct row_sampling samplings[STREAMS];
};

static void open_scene(struct scene *scene, uint32_t devices)
{
    struct error_text error;
    *scene = (struct scene){0};
    must(model_open(SMOLLM2, &scene->model, &error) == RESULT_OK);
    const struct plan *plan = model_plan(scene->model);
    scene->vocab = plan->config.vocab_tokens;
    struct backend_options options = {.threads = 2,
                                      .step_depth = 2,
                                      .max_step_rows = ROWS_MAX,
                                      .max_logit_rows = STREAMS,
                                      .kv_type = KV_CACHE_F16,
                                      .kv_blocks = {STREAMS * BLOCKS},
                                      .stage_count = devices > 1 ? devices : 0};
    assert_int_equal(plan->kv.group_count, 1);
    scene->backend = devices > 1 ? split_backend_create() : cpu_backend_create();
    must(scene->backend->interface->load(scene->backend, plan, &options, NULL, NULL, &error) ==
         RESULT_OK);
    assert_int_equal(scene->backend->interface->step_depth(scene->backend), 2);
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        scene->params[stream] = sampling_params_default();
        scene->params[stream].seed = stream + 1;
        scene->params[stream].temperature = 1.0f;
        for (uint32_t i = 0; i < PROMPT; i++)
            scene->prompts[stream][i] = (stream * 7919 + i * 104729 + 17) % scene->vocab;
    }
}

static void close_scene(struct scene *scene)
{
    scene->backend->interface->destroy(scene->backend);
    model_close(scene->model);
}

static void begin(struct stage *stage)
{
    stage->batch = (struct step_batch){.token_ids = stage->token_ids,
                                       .sequences = stage->sequences,
                                       .logit_rows = stage->logit_rows,
                                       .samplings = stage->samplings};
}

/* Adds `count` rows of a stream from `position` on; the last one draws a token. The blocks are
 * those of `place`. */
static void add(struct stage *stage, const struct scene *scene, uint32_t stream, uint32_t place,
                uint32_t position, const uint32_t *tokens, uint32_t count)
{
    struct step_batch *batch = &stage->batch;
    uint32_t at = batch->sequence_count++;
    for (uint32_t block = 0; block < BLOCKS; block++)
        stage->tables[at][block] = block * STREAMS + place;
    stage->sequences[at] = (struct step_sequence){.first_row = batch->row_count,
                                                  .row_count = count,
                                                  .first_position = position,
                                                  .block_tables = {stage->tables[at]}};
    memcpy(stage->token_ids + batch->row_count, tokens, count * sizeof *tokens);
    batch->row_count += count;
    stage->logit_rows[at] = batch->row_count - 1;
    stage->params[at] = scene->params[stream];
    stage->samplings[at] =
        (struct row_sampling){.params = &stage->params[at], .position = position + count};
    batch->logit_row_count++;
}

/* Runs every stream alone; each token is known before it is used. */
static void compute_alone(struct scene *scene)
{
    struct stage stage;
    struct sampled_token result;
    struct error_text error;
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        for (uint32_t step = 0; step < STEPS; step++) {
            begin(&stage);
            if (step == 0)
                add(&stage, scene, stream, stream, 0, scene->prompts[stream], PROMPT);
            else
                add(&stage, scene, stream, stream, PROMPT + step - 1,
                    &scene->expected[stream][step - 1], 1);
            assert_int_equal(backend_step_run(scene->backend, &stage.batch, &result, &error),
                             RESULT_OK);
            scene->expected[stream][step] = result.token;
        }
    }
}

static void launch(struct scene *scene, struct stage *stage)
{
    struct error_text error;
    assert_int_equal(scene->backend->interface->step_launch(scene->backend, &stage->batch, &error),
                     RESULT_OK);
    memset(stage, 0xAA, sizeof *stage);
}

static void wait_for(struct scene *scene, struct sampled_token *results)
{
    struct error_text error;
    assert_int_equal(scene->backend->interface->step_wait(scene->backend, results, &error),
                     RESULT_OK);
}

/* The stream at place `at` of a step. */
static uint32_t stream_at(uint32_t step, uint32_t at)
{
    return (at * 3 + step) % STREAMS;
}

static uint32_t place_of(uint32_t step, uint32_t stream)
{
    uint32_t at = 0;
    while (stream_at(step, at) != stream)
        at++;
    return at;
}

static int set_up(void **state)
{
    struct scene *scene = must_alloc(1, sizeof *scene);
    open_scene(scene, 1);
    compute_alone(scene);
    *state = scene;
    return 0;
}

/* Of the streams alone on one device, which the layers split over several must give too. */
static uint32_t kept[STREAMS][STEPS];

static int set_up_split(void **state)
{
    struct scene *scene = must_alloc(1, sizeof *scene);
    open_scene(scene, 3);
    memcpy(scene->expected, kept, sizeof kept);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    memcpy(kept, scene->expected, sizeof kept);
    close_scene(scene);
    free(scene);
    return 0;
}

static void test_tokens_that_nobody_has_read(void **state)
{
    struct scene *scene = *state;
    struct stage stage;
    struct sampled_token results[STREAMS];
    for (uint32_t step = 0; step <= STEPS; step++) {
        begin(&stage);
        for (uint32_t at = 0; at < STREAMS && step < STEPS; at++) {
            uint32_t stream = stream_at(step, at);
            uint32_t unread = STEP_TOKEN_SAMPLED | (step > 0 ? place_of(step - 1, stream) : 0);
            add(&stage, scene, stream, stream, step > 0 ? PROMPT + step - 1 : 0,
                step > 0 ? &unread : scene->prompts[stream], step > 0 ? 1 : PROMPT);
        }
        if (step < STEPS)
            launch(scene, &stage);
        if (step == 0)
            continue;
        wait_for(scene, results);
        for (uint32_t at = 0; at < STREAMS; at++)
            assert_int_equal(results[at].token, scene->expected[stream_at(step - 1, at)][step - 1]);
    }
}

/* Stream 0 has one row too many; stream 3 reuses its blocks while that row is in flight. */
static void test_blocks_that_change_hands(void **state)
{
    struct scene *scene = *state;
    struct stage stage;
    struct sampled_token results[STREAMS];
    begin(&stage);
    add(&stage, scene, 0, 0, 0, scene->prompts[0], PROMPT);
    launch(scene, &stage);
    uint32_t unread = STEP_TOKEN_SAMPLED;
    for (uint32_t step = 1; step <= STOP_STEP + 1; step++) {
        begin(&stage);
        add(&stage, scene, 0, 0, PROMPT + step - 1, &unread, 1);
        launch(scene, &stage);
        wait_for(scene, results);
        assert_int_equal(results[0].token, scene->expected[0][step - 1]);
    }
    begin(&stage);
    add(&stage, scene, 3, 0, 0, scene->prompts[3], PROMPT);
    launch(scene, &stage);
    wait_for(scene, results);
    assert_int_equal(results[0].token, scene->expected[0][STOP_STEP + 1]);
    for (uint32_t step = 1; step < STEPS; step++) {
        begin(&stage);
        add(&stage, scene, 3, 0, PROMPT + step - 1, &unread, 1);
        launch(scene, &stage);
        wait_for(scene, results);
        assert_int_equal(results[0].token, scene->expected[3][step - 1]);
    }
    wait_for(scene, results);
    assert_int_equal(results[0].token, scene->expected[3][STEPS - 1]);
}

/* A token that has been read may still be referenced by its draw. */
static void test_tokens_that_were_read(void **state)
{
    struct scene *scene = *state;
    struct stage stage;
    struct sampled_token result;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t drawn = STEP_TOKEN_SAMPLED;
        begin(&stage);
        add(&stage, scene, 1, 1, step > 0 ? PROMPT + step - 1 : 0,
            step > 0 ? &drawn : scene->prompts[1], step > 0 ? 1 : PROMPT);
        launch(scene, &stage);
        wait_for(scene, &result);
        assert_int_equal(result.token, scene->expected[1][step]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_that_nobody_has_read),
        cmocka_unit_test(test_blocks_that_change_hands),
        cmocka_unit_test(test_tokens_that_were_read),
    };
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return failed +
           cmocka_run_group_tests_name("split over three devices", tests, set_up_split, tear_down);
}
