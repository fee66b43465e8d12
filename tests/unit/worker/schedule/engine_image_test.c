/*
 * Random requests with text and up to three images through tiny pools of blocks and features:
 * chunked, preempted, cancelled, resumed after a worker's death, and encoded in batches with other
 * requests. Each request gets the same result as when it runs alone, and cached images are not
 * encoded again. The rig and the fake backend assert the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/request_crowd.h"

#define PROMPT_MAX  200u
#define IMAGES      14u
#define VOCAB       97u
#define PLACEHOLDER (VOCAB - 1)

static const struct model_vision small_vision = {
    .patch_side = 2, .merge_side = 2, .hidden = 8, .text_hidden = 8, .stages = 3};

static void make_request(void *context, struct test_random *random, struct drawn_request *drawn)
{
    static const uint32_t counts[] = {0, 0, 1, 1, 3};
    uint32_t images = counts[test_random_below(random, 5)];
    for (uint32_t i = 0; i < images; i++) {
        drawn_request_add_text(drawn, random, test_random_below(random, 8), 3);
        /* Some images repeat often. */
        uint32_t among = test_random_below(random, 2) ? IMAGES : 3;
        drawn_request_add_image(drawn, context, test_random_below(random, among), random);
    }
    uint32_t tail = 1 + test_random_below(random, 30);
    drawn_request_add_text(drawn, random, tail, 3);
    must(drawn->request.prompt_tokens <= PROMPT_MAX);
    if (test_random_below(random, 4) == 0) /* continued after a death */
        drawn->request.generated_tokens = test_random_below(random, tail);
    drawn->request.max_new_tokens = 1 + test_random_below(random, 40);
    drawn->request.sampling.seed = test_random_next(random);
}

static struct request_crowd_totals run(struct engine_rig *rig, uint64_t seed, uint32_t requests)
{
    struct drawn_catalog catalog;
    drawn_catalog_make(&catalog, IMAGES, 4, PLACEHOLDER);
    struct request_crowd_totals totals =
        request_crowd_run(rig, &(struct request_crowd_options){.seed = seed,
                                                               .slots = 16,
                                                               .requests = requests,
                                                               .cancels = 60,
                                                               .make = make_request,
                                                               .context = &catalog});
    drawn_catalog_fini(&catalog);
    return totals;
}

static uint64_t gauge(const _Atomic uint64_t *gauge)
{
    return atomic_load_explicit(gauge, memory_order_relaxed);
}

static struct engine_rig_options options_of(const struct model_vision *vision)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = VOCAB;
    options.kv_blocks[0] = 14;
    options.vision = vision;
    options.patch_rows = 200; /* the largest image has 180 */
    options.feature_rows = 64;
    options.kept_images = 4;
    options.pace = (struct step_pace){
        .row_us = 10, .stream_us = 100, .patch_us = 1, .added_us = {10, 20, 40, 80}};
    return options;
}

static void check_runs(struct engine_rig_options *options, uint64_t seed)
{
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct request_crowd_totals totals = run(&rig, seed + 10 * overlap, 400);
        assert_true(totals.cancelled > 5);
        assert_true(engine_rig_preemptions(&rig) > 5);
        const struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
        assert_true(gauge(&gauges->image_hits_total) > 20);
        assert_true(gauge(&gauges->image_misses_total) > 100);
        assert_true(gauge(&gauges->image_evictions_total) > 50);
        assert_true(gauge(&gauges->images_cached) <= 4);
        struct fake_vision_totals vision = fake_backend_vision_totals(rig.backend);
        assert_true(vision.most_images > 1);
        assert_true(vision.parts >= vision.ends * small_vision.stages && vision.ends > 0);
        engine_rig_close(&rig);
    }
}

static void test_spans_that_may_be_cut(void **state)
{
    (void)state;
    struct engine_rig_options options = options_of(&small_vision);
    check_runs(&options, 1);
}

static void test_grid_positions(void **state)
{
    (void)state;
    struct model_vision vision = small_vision;
    vision.grid_positions = true;
    struct engine_rig_options options = options_of(&vision);
    options.recurrent = true;
    check_runs(&options, 2);
}

/* A prefix may end within an image, and is found again only with the same one. */
static void test_prefixes_with_images(void **state)
{
    (void)state;
    struct model_vision vision = small_vision;
    vision.grid_positions = true;
    struct engine_rig_options options = options_of(&vision);
    options.prefix_cache = true;
    check_runs(&options, 4);
    vision.spans_whole = true;
    options.mixed_prefill_tokens = 4;
    check_runs(&options, 5);
}

/* Tiles of up to 15 tokens, with 4 tokens of a prompt in a step beside streams. */
static void test_spans_that_must_stay_whole(void **state)
{
    (void)state;
    struct model_vision vision = small_vision;
    vision.spans_whole = true;
    struct engine_rig_options options = options_of(&vision);
    options.mixed_prefill_tokens = 4;
    options.group_count = 2;
    options.windows[1] = 24;
    options.kv_blocks[0] = 14;
    options.kv_blocks[1] = 9;
    check_runs(&options, 3);
}

/* Room for little more than the largest image, and no image is kept. */
static void test_a_pool_of_one_image(void **state)
{
    (void)state;
    struct engine_rig_options options = options_of(&small_vision);
    options.feature_rows = 46;
    options.kept_images = 0;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(&options, overlap);
        engine_rig_open(&rig, &options);
        (void)run(&rig, 77 + overlap, 200);
        assert_int_equal(gauge(&rig.frontend->pair.segment.gauges->images_cached), 0);
        engine_rig_close(&rig);
    }
}

static void submit_one(struct engine_rig *rig, struct drawn_request *drawn,
                       const struct drawn_catalog *catalog, uint32_t slot, uint32_t image)
{
    struct test_random random = {.state = 3};
    drawn_request_begin(drawn);
    drawn_request_add_text(drawn, &random, 3, 3);
    drawn_request_add_image(drawn, catalog, image, &random);
    drawn_request_add_text(drawn, &random, 2, 3);
    drawn->request.max_new_tokens = 5;
    drawn_request_end(drawn);
    assert_true(test_frontend_submit(rig->frontend, slot, &drawn->request));
}

static void test_the_same_image_is_encoded_once(void **state)
{
    (void)state;
    static struct drawn_request made[4];
    struct drawn_catalog catalog;
    drawn_catalog_make(&catalog, IMAGES, 4, PLACEHOLDER);
    struct engine_rig_options options = options_of(&small_vision);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    submit_one(&rig, &made[0], &catalog, 0, 1);
    submit_one(&rig, &made[1], &catalog, 1,
               1); /* together: the second one shares what is pending */
    engine_rig_finish(&rig, 100);
    submit_one(&rig, &made[2], &catalog, 2, 1);
    engine_rig_finish(&rig, 100);
    assert_int_equal(fake_backend_vision_totals(rig.backend).images, 1);
    assert_int_equal(gauge(&rig.frontend->pair.segment.gauges->image_hits_total), 2);
    for (uint32_t slot = 0; slot < 3; slot++) {
        engine_rig_check_reply(&rig, &made[slot].request, &rig.frontend->replies[slot]);
        assert_int_equal(rig.frontend->replies[slot].cached_images, slot > 0);
    }
    submit_one(&rig, &made[3], &catalog, 3, 2);
    engine_rig_finish(&rig, 100);
    assert_int_equal(fake_backend_vision_totals(rig.backend).images, 2);
    engine_rig_close(&rig);
    for (uint32_t slot = 0; slot < 4; slot++)
        drawn_request_fini(&made[slot]);
    drawn_catalog_fini(&catalog);
}

static struct test_request words(uint32_t max_new_tokens)
{
    static const uint32_t ids[] = {1, 2, 3};
    return (struct test_request){.prompt = ids,
                                 .prompt_tokens = 3,
                                 .max_new_tokens = max_new_tokens,
                                 .sampling = sampling_params_default()};
}

static void test_text_is_not_delayed_by_an_image(void **state)
{
    (void)state;
    static struct drawn_request made;
    struct drawn_catalog catalog;
    drawn_catalog_make(&catalog, IMAGES, 4, PLACEHOLDER);
    struct model_vision vision = small_vision;
    vision.stages = 1000000; /* longer than the test */
    struct engine_rig_options options = options_of(&vision);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    submit_one(&rig, &made, &catalog, 0, 1);
    engine_rig_turn(&rig);
    const struct test_request text = words(20);
    assert_true(test_frontend_submit(rig.frontend, 1, &text));
    for (uint32_t turn = 0; turn < 40 && rig.frontend->replies[1].live; turn++) {
        engine_rig_turn(&rig);
        test_frontend_collect(rig.frontend);
    }
    assert_false(rig.frontend->replies[1].live);
    engine_rig_check_reply(&rig, &text, &rig.frontend->replies[1]);
    assert_true(rig.frontend->replies[0].live);
    /* No sequence needs it any more: the batch is dropped, and there is nothing to do. */
    test_frontend_cancel(rig.frontend, 0);
    engine_rig_turn(&rig);
    test_frontend_collect(rig.frontend);
    assert_int_equal(engine_rig_turn(&rig), STEP_IDLE);
    engine_rig_close(&rig);
    drawn_request_fini(&made);
    drawn_catalog_fini(&catalog);
}

/* Copying an image's pixels uses the time that a step beside a stream can spare; without streams,
 * the first part of the tower follows in the same step. */
static void test_beside_a_stream_encoding_begins_a_step_after_its_pixels(void **state)
{
    (void)state;
    for (uint32_t beside = 0; beside < 2; beside++) {
        static struct drawn_request made;
        struct drawn_catalog catalog;
        drawn_catalog_make(&catalog, IMAGES, 4, PLACEHOLDER);
        struct engine_rig_options options = options_of(&small_vision);
        struct engine_rig rig;
        engine_rig_open(&rig, &options);
        const struct test_request text = words(60);
        if (beside)
            assert_true(test_frontend_submit(rig.frontend, 1, &text));
        for (uint32_t turn = 0; turn < 3; turn++)
            engine_rig_turn(&rig);
        submit_one(&rig, &made, &catalog, 0, 1);
        assert_int_equal(engine_rig_turn(&rig), STEP_WORKED);
        assert_int_equal(fake_backend_vision_totals(rig.backend).begins, 1);
        assert_int_equal(fake_backend_vision_totals(rig.backend).parts > 0, !beside);
        assert_int_equal(engine_rig_turn(&rig), STEP_WORKED);
        assert_true(fake_backend_vision_totals(rig.backend).parts > 0);
        engine_rig_finish(&rig, 100);
        engine_rig_check_reply(&rig, &made.request, &rig.frontend->replies[0]);
        engine_rig_close(&rig);
        drawn_request_fini(&made);
        drawn_catalog_fini(&catalog);
    }
}

/* Whether the last step had rows of prompts with images. */
static bool has_image_rows(const struct worker_engine *engine)
{
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        if (engine->candidates[i].has_images && engine->rows[i] > 0)
            return true;
    }
    return false;
}

/* If encoding leaves a step no time for image rows, they have every other step, and no step has
 * both. */
static void test_encoding_and_its_rows_take_turns_beside_a_stream(void **state)
{
    (void)state;
    static struct drawn_request made[3];
    struct drawn_catalog catalog;
    drawn_catalog_make(&catalog, IMAGES, 4, PLACEHOLDER);
    struct engine_rig_options options = options_of(&small_vision);
    options.mixed_prefill_tokens = 4; /* so that the rows take some steps */
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    const struct test_request text = words(60);
    assert_true(test_frontend_submit(rig.frontend, 3, &text));
    for (uint32_t turn = 0; turn < 3; turn++)
        engine_rig_turn(&rig);
    for (uint32_t slot = 0; slot < 3; slot++)
        submit_one(&rig, &made[slot], &catalog, slot, 1 + slot);
    uint32_t encoding = 0, showing = 0;
    for (uint32_t turn = 0; turn < 40; turn++) {
        uint64_t parts = fake_backend_vision_totals(rig.backend).parts;
        engine_rig_turn(&rig);
        test_frontend_collect(rig.frontend);
        bool encodes = fake_backend_vision_totals(rig.backend).parts > parts;
        bool images = has_image_rows(rig.engine);
        assert_false(encodes && images);
        encoding += encodes;
        showing += images;
    }
    assert_true(encoding > 5 && showing > 5);
    for (uint32_t slot = 0; slot < 3; slot++) {
        assert_false(rig.frontend->replies[slot].live);
        engine_rig_check_reply(&rig, &made[slot].request, &rig.frontend->replies[slot]);
    }
    engine_rig_finish(&rig, 100);
    engine_rig_close(&rig);
    for (uint32_t slot = 0; slot < 3; slot++)
        drawn_request_fini(&made[slot]);
    drawn_catalog_fini(&catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_that_may_be_cut),
        cmocka_unit_test(test_grid_positions),
        cmocka_unit_test(test_prefixes_with_images),
        cmocka_unit_test(test_spans_that_must_stay_whole),
        cmocka_unit_test(test_a_pool_of_one_image),
        cmocka_unit_test(test_the_same_image_is_encoded_once),
        cmocka_unit_test(test_text_is_not_delayed_by_an_image),
        cmocka_unit_test(test_beside_a_stream_encoding_begins_a_step_after_its_pixels),
        cmocka_unit_test(test_encoding_and_its_rows_take_turns_beside_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
