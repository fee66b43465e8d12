/*
 * Images through the whole worker on the CPU backend, with the tiny vision checkpoints. The first
 * token of each prompt is the one that the reference's logits choose. The rest of the answer is the
 * same alone, beside other requests that share steps, blocks and a feature pool too small for all,
 * after a preemption, with prefixes and features from the caches, and when a request resumes after
 * its worker died. Positions are the reference's, and answers where it gives them.
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
#include "tests/support/engine_rig.h"
#include "tests/support/scene_request.h"
#include "tests/support/test_random.h"
#include "tests/support/tower_scene.h"
#include "worker/schedule/sequence_images.h"

#define ANSWER_TOKENS 10u
#define PATCH_ROWS    2048u
#define CROWD         30u
#define SLOTS         6u

/* A prompt of the scene as a request, and its answer when run alone. */
struct shown_prompt {
    struct scene_request made;
    uint32_t answer[ANSWER_TOKENS];
};

static void open_engine(struct engine_rig *rig, const struct model *model, uint32_t feature_rows,
                        uint32_t blocks)
{
    const struct plan *plan = model_plan(model);
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = plan->config.vocab_tokens;
    options.context_tokens = 2 * SCENE_TOKENS;
    options.max_sequences = 4;
    options.step_tokens = 300;
    options.mixed_prefill_tokens = 24;
    options.vision = model_vision(model);
    options.patch_rows = PATCH_ROWS;
    options.feature_rows = feature_rows;
    options.kept_images = 2;
    options.prefix_cache = true;
    options.backend = cpu_backend_create();
    options.layout = &plan->kv;
    struct backend_options load = {.threads = 2,
                                   .kv_type = KV_CACHE_F32,
                                   .max_step_rows = options.step_tokens,
                                   .max_logit_rows = options.max_sequences,
                                   .vision = model_vision_plan(model),
                                   .max_patch_rows = PATCH_ROWS,
                                   .feature_rows = feature_rows};
    options.recurrent = plan->state.layers > 0;
    load.state_slots = options.recurrent ? options.max_sequences : 0;
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = load.kv_blocks[group] = blocks;
    must(options.backend->interface->load(options.backend, plan, &load, NULL, NULL, NULL) ==
         RESULT_OK);
    engine_rig_open(rig, &options);
}

static uint32_t best_token(const struct tower_scene *scene, const struct scene_prompt *prompt)
{
    const float *logits = prompt->logits + (size_t)(prompt->count - 1) * scene->vocab;
    uint32_t best = 0;
    for (uint32_t token = 1; token < scene->vocab; token++) {
        if (logits[token] > logits[best])
            best = token;
    }
    return best;
}

static void check_reply(const struct test_reply *reply, const uint32_t *answer, uint32_t count)
{
    assert_int_equal(reply->failure, RESULT_OK);
    assert_int_equal(reply->token_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reply->tokens[i], answer[i]);
}

static void run_alone(const struct model *model, const struct tower_scene *scene,
                      const struct scene_prompt *prompt, struct shown_prompt *shown)
{
    struct engine_rig rig;
    open_engine(&rig, model, 256, 64);
    assert_true(test_frontend_submit(rig.frontend, 0, &shown->made.request));
    engine_rig_finish(&rig, 2000);
    const struct test_reply *reply = &rig.frontend->replies[0];
    assert_int_equal(reply->token_count, ANSWER_TOKENS);
    assert_int_equal(reply->tokens[0], best_token(scene, prompt));
    memcpy(shown->answer, reply->tokens, sizeof shown->answer);
    engine_rig_close(&rig);
}

/* Every token has the position that the reference gives it. */
static void check_positions(const struct model *model, const struct tower_scene *scene,
                            const struct scene_prompt *prompt)
{
    static const uint32_t salt[4];
    const struct model_vision *vision = model_vision(model);
    const struct image_limits limits = {vision, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    struct scene_request made;
    struct sequence_images images;
    struct error_text error = {""};
    if (!vision->grid_positions)
        return;
    scene_request_make(scene, prompt, vision, 1, &made);
    const struct test_request *request = &made.request;
    if (sequence_images_copy(&images, made.part, request->image_bytes, request->image_count,
                             prompt->ids, prompt->count, &error) != RESULT_OK ||
        sequence_images_fit(&images, salt, &limits, &error) != RESULT_OK)
        fail_msg("%s: %s", scene->path, error.text);
    for (uint32_t token = 0; token < prompt->count; token++) {
        struct rope_position at = image_tiles_position(images.tiles, images.tile_count, token);
        const struct rope_position *known = &prompt->positions[token];
        if (at.time != known->time || at.height != known->height || at.width != known->width)
            fail_msg("%s: token %u of prompt %u is at %u %u %u, not %u %u %u", scene->path, token,
                     (uint32_t)(prompt - scene->prompts), at.time, at.height, at.width, known->time,
                     known->height, known->width);
    }
    sequence_images_fini(&images);
    free(made.part);
}

/* The answers that the reference gives, of SCENE_GREEDY tokens, one request after the other. */
static void check_greedy(const struct model *model, const struct tower_scene *scene,
                         const struct scene_prompt *prompt)
{
    struct engine_rig rig;
    struct scene_request made;
    if (prompt->greedy_count == 0)
        return;
    scene_request_make(scene, prompt, model_vision(model), SCENE_GREEDY, &made);
    open_engine(&rig, model, 256, 64);
    assert_true(test_frontend_submit(rig.frontend, 0, &made.request));
    engine_rig_finish(&rig, 2000);
    check_reply(&rig.frontend->replies[0], prompt->greedy, SCENE_GREEDY);
    engine_rig_close(&rig);
    free(made.part);
}

struct crowd_member {
    const struct shown_prompt *shown; /* NULL: the slot is free */
    uint32_t known; /* answer tokens that the request already has when submitted */
    struct test_request request;
    uint32_t prompt[SCENE_TOKENS + ANSWER_TOKENS];
};

static void join_crowd(struct engine_rig *rig, struct crowd_member *member, uint32_t slot,
                       const struct shown_prompt *shown, uint32_t known)
{
    member->shown = shown;
    member->known = known;
    member->request = shown->made.request;
    member->request.prompt = member->prompt;
    member->request.prompt_tokens += known;
    member->request.generated_tokens = known;
    member->request.max_new_tokens -= known;
    memcpy(member->prompt, shown->made.request.prompt,
           shown->made.request.prompt_tokens * sizeof(uint32_t));
    memcpy(member->prompt + shown->made.request.prompt_tokens, shown->answer,
           known * sizeof(uint32_t));
    assert_true(test_frontend_submit(rig->frontend, slot, &member->request));
}

static void run_crowd(struct engine_rig *rig, const struct shown_prompt *shown, uint32_t count)
{
    static struct crowd_member members[SLOTS];
    struct test_random random = {.state = 5};
    uint32_t joined = 0;
    uint32_t finished = 0;
    for (uint32_t turns = 0; finished < CROWD; turns++) {
        must(turns < 20000);
        uint32_t slot = test_random_below(&random, SLOTS);
        struct crowd_member *member = &members[slot];
        if (!member->shown && joined < CROWD) {
            uint32_t known = test_random_below(&random, 3) ? 0 : 5;
            join_crowd(rig, member, slot, &shown[test_random_below(&random, count)], known);
            joined++;
        }
        engine_rig_turn(rig);
        test_frontend_collect(rig->frontend);
        for (slot = 0; slot < SLOTS; slot++) {
            member = &members[slot];
            if (!member->shown || rig->frontend->replies[slot].live)
                continue;
            check_reply(&rig->frontend->replies[slot], member->shown->answer + member->known,
                        ANSWER_TOKENS - member->known);
            member->shown = NULL;
            finished++;
        }
    }
}

static uint32_t largest_of(const struct tower_scene *scene, const struct model_vision *vision)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < scene->image_count; i++) {
        uint32_t rows =
            model_vision_image_rows(vision, scene->images[i].shape, &scene->images[i].mosaic);
        largest = rows > largest ? rows : largest;
    }
    return largest;
}

struct crowd_totals {
    uint64_t preemptions;
    uint64_t hits;
    uint64_t evictions;
};

static void check_family(const char *name, struct crowd_totals *totals)
{
    struct tower_scene scene;
    struct model *model;
    struct shown_prompt shown[SCENE_PROMPTS];
    struct engine_rig rig;
    tower_scene_read(name, &scene);
    must(model_open(scene.path, &model, NULL) == RESULT_OK);
    const struct model_vision *vision = model_vision(model);
    uint32_t longest = 0;
    for (uint32_t i = 0; i < scene.prompt_count; i++) {
        scene_request_make(&scene, &scene.prompts[i], vision, ANSWER_TOKENS, &shown[i].made);
        run_alone(model, &scene, &scene.prompts[i], &shown[i]);
        check_greedy(model, &scene, &scene.prompts[i]);
        check_positions(model, &scene, &scene.prompts[i]);
        longest = scene.prompts[i].count > longest ? scene.prompts[i].count : longest;
    }
    /* Pools that hold little more than one request, which holds all of its images if rows attend to them. */
    open_engine(&rig, model,
                (vision->crossed_layers > 0 ? scene.feature_rows : largest_of(&scene, vision)) + 4,
                (longest + ANSWER_TOKENS) / KV_BLOCK_TOKENS + 2);
    run_crowd(&rig, shown, scene.prompt_count);
    const struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
    totals->preemptions += engine_rig_preemptions(&rig);
    totals->hits += atomic_load(&gauges->image_hits_total);
    totals->evictions += atomic_load(&gauges->image_evictions_total);
    engine_rig_close(&rig);
    for (uint32_t i = 0; i < scene.prompt_count; i++)
        free(shown[i].made.part);
    model_close(model);
    tower_scene_free(&scene);
}

/* For the worker, these families have the same tower and positions as another tested family. */
static bool is_like_another(const char *family)
{
    static const char *const alike[] = {"qwen2_vl", "qwen3_vl_moe", "qwen3_5_moe"};
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++)
        if (strcmp(family, alike[i]) == 0)
            return true;
    return false;
}

static void test_families(void **state)
{
    (void)state;
    char names[SCENE_FAMILIES][SCENE_NAME_BYTES];
    struct crowd_totals totals = {0};
    uint32_t count = tower_scene_families(names);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++)
        if (!is_like_another(names[i]))
            check_family(names[i], &totals);
    assert_true(totals.preemptions > 0 && totals.hits > 0 && totals.evictions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
