/*
 * Random requests of text, one and three pictures through tiny pools of blocks and features:
 * chunked, preempted, cancelled, continued after a worker's death and encoded in any company, each
 * gets what it gets alone, and pictures that were seen before are not encoded again. The rig and
 * the fake backend assert the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "tests/support/test_random.h"

#define SLOTS       16u
#define IMAGES_MAX  3u
#define PROMPT_MAX  200u
#define PART_BYTES  16384u
#define PICTURES    14u
#define VOCAB       97u
#define PLACEHOLDER (VOCAB - 1)

struct image_request {
    struct test_request request;
    uint32_t prompt[2 * PROMPT_MAX];
    _Alignas(64) uint8_t part[PART_BYTES];
    bool used;
    bool cancelled;
};

static const struct model_vision small_vision = {
    .patch_side = 2, .merge_side = 2, .hidden = 8, .text_hidden = 8, .stages = 3};

/* Which of the pictures it is decides all of it, content and sizes. */
static void describe(uint32_t picture, struct image_record *record)
{
    struct test_random random = {.state = 1000 + picture};
    *record = (struct image_record){.width = 4 * (1 + test_random_below(&random, 5)),
                                    .height = 4 * (1 + test_random_below(&random, 3)),
                                    .tiles = picture % 4 == 0 ? 3 : 1};
    test_random_fill(&random, record->content_hash, sizeof record->content_hash);
    for (uint32_t i = 0; i < 3; i++) {
        record->scale[i] = 0.01f * (float)(1 + i);
        record->bias[i] = -1.0f;
    }
}

static void add_text(struct test_request *request, uint32_t *prompt, struct test_random *random,
                     uint32_t count)
{
    while (count-- > 0)
        prompt[request->prompt_tokens++] = test_random_below(random, 3);
}

static void add_image(struct test_request *request, uint32_t *prompt, struct test_random *random,
                      struct image_record *record)
{
    uint32_t tile_tokens = record->width / 4 * (record->height / 4);
    record->first_token = request->prompt_tokens;
    record->token_count = tile_tokens * record->tiles;
    for (uint32_t tile = 0; tile < record->tiles; tile++) {
        if (tile > 0)
            add_text(request, prompt, random, test_random_below(random, 2));
        for (uint32_t i = 0; i < tile_tokens; i++)
            prompt[request->prompt_tokens++] = PLACEHOLDER;
    }
    record->span_tokens = request->prompt_tokens - record->first_token;
}

static void write_pixels(uint8_t *part, const struct image_record *record)
{
    struct test_random random = {.state = 0};
    memcpy(&random.state, record->content_hash, sizeof random.state);
    test_random_fill(&random, part + record->pixels_offset, record->pixels_bytes);
}

static void make_request(struct image_request *made, struct test_random *random)
{
    static const uint32_t counts[] = {0, 0, 1, 1, 3};
    struct test_request *request = &made->request;
    struct image_record *records = (struct image_record *)(void *)made->part;
    uint32_t images = counts[test_random_below(random, 5)];
    *request = (struct test_request){.prompt = made->prompt,
                                     .max_new_tokens = 1 + test_random_below(random, 40),
                                     .sampling = sampling_params_default(),
                                     .image_part = made->part,
                                     .image_count = images};
    made->used = true;
    made->cancelled = false;
    memset(made->part, 0, sizeof made->part);
    for (uint32_t i = 0; i < images; i++) {
        add_text(request, made->prompt, random, test_random_below(random, 8));
        /* Some pictures come often. */
        uint32_t among = test_random_below(random, 2) ? PICTURES : 3;
        describe(test_random_below(random, among), &records[i]);
        add_image(request, made->prompt, random, &records[i]);
    }
    request->image_bytes = image_record_place(records, images);
    must(request->image_bytes <= PART_BYTES);
    for (uint32_t i = 0; i < images; i++)
        write_pixels(made->part, &records[i]);
    uint32_t tail = 1 + test_random_below(random, 30);
    add_text(request, made->prompt, random, tail);
    must(request->prompt_tokens <= PROMPT_MAX);
    if (test_random_below(random, 4) == 0) /* continued after a death */
        request->generated_tokens = test_random_below(random, tail);
    request->sampling.seed = test_random_next(random);
}

struct totals {
    uint32_t finished;
    uint32_t cancelled;
};

static void settle(struct engine_rig *rig, struct image_request *made, uint32_t slot,
                   struct totals *totals)
{
    const struct test_reply *reply = &rig->frontend->replies[slot];
    engine_rig_check_reply(rig, &made->request, reply);
    must(made->cancelled || reply->finish != FINISH_CANCELLED);
    totals->finished++;
    totals->cancelled += reply->finish == FINISH_CANCELLED;
    made->used = false;
}

static struct totals run(struct engine_rig *rig, uint64_t seed, uint32_t requests)
{
    static struct image_request made[SLOTS];
    struct test_random random = {.state = seed};
    struct totals totals = {0};
    uint32_t submitted = 0;
    uint32_t turns = 0;
    while (totals.finished < requests) {
        must(turns++ < requests * 400);
        uint32_t slot = test_random_below(&random, SLOTS);
        if (!made[slot].used && submitted < requests) {
            make_request(&made[slot], &random);
            must(test_frontend_submit(rig->frontend, slot, &made[slot].request));
            submitted++;
        } else if (made[slot].used && test_random_below(&random, 60) == 0) {
            made[slot].cancelled = true;
            test_frontend_cancel(rig->frontend, slot);
        }
        if (test_random_below(&random, 3) == 0)
            continue;
        engine_rig_turn(rig);
        test_frontend_collect(rig->frontend);
        for (slot = 0; slot < SLOTS; slot++) {
            if (made[slot].used && !rig->frontend->replies[slot].live)
                settle(rig, &made[slot], slot, &totals);
        }
    }
    while (engine_rig_turn(rig) != STEP_IDLE)
        must(turns++ < requests * 400);
    assert_int_equal(payload_slab_used_bytes(rig->frontend->slab), 0);
    assert_int_equal(kv_pools_used(&rig->engine->pools), 0);
    assert_int_equal(feature_cache_figures(rig->engine->pools.features).held_images, 0);
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
    options.kv_blocks[0] = 16;
    options.vision = vision;
    options.patch_rows = 200; /* the largest picture has 180 */
    options.feature_rows = 64;
    options.kept_images = 4;
    return options;
}

static void check_runs(struct engine_rig_options *options, uint64_t seed)
{
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct totals totals = run(&rig, seed + 10 * overlap, 400);
        assert_true(totals.cancelled > 5);
        assert_true(engine_rig_preemptions(&rig) > 5);
        const struct worker_gauges *gauges = rig.frontend->pair.segment.gauges;
        assert_true(gauge(&gauges->image_hits_total) > 20);
        assert_true(gauge(&gauges->image_misses_total) > 100);
        assert_true(gauge(&gauges->image_evictions_total) > 50);
        assert_true(gauge(&gauges->images_cached) <= 4);
        struct fake_vision_totals vision = fake_backend_vision_totals(rig.backend);
        assert_true(vision.most_pictures > 1);
        assert_true(vision.stages >= vision.begins);
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

/* A prefix may end within a picture, and is only found again with the same one. */
static void test_prefixes_with_pictures(void **state)
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

/* Tiles of up to 15 tokens, of which 4 go into a step beside streams. */
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

/* Room for hardly more than the largest picture, and nothing is kept. */
static void test_a_pool_of_one_picture(void **state)
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

static void submit_one(struct engine_rig *rig, struct image_request *made, uint32_t slot,
                       uint32_t picture)
{
    struct image_record *record = (struct image_record *)(void *)made->part;
    struct test_random random = {.state = 3};
    made->request = (struct test_request){.prompt = made->prompt,
                                          .max_new_tokens = 5,
                                          .sampling = sampling_params_default(),
                                          .image_part = made->part,
                                          .image_count = 1};
    describe(picture, record);
    add_text(&made->request, made->prompt, &random, 3);
    add_image(&made->request, made->prompt, &random, record);
    add_text(&made->request, made->prompt, &random, 2);
    made->request.image_bytes = image_record_place(record, 1);
    write_pixels(made->part, record);
    assert_true(test_frontend_submit(rig->frontend, slot, &made->request));
}

static void test_the_same_picture_is_encoded_once(void **state)
{
    (void)state;
    static struct image_request made[4];
    struct engine_rig_options options = options_of(&small_vision);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    submit_one(&rig, &made[0], 0, 1);
    submit_one(&rig, &made[1], 1, 1); /* together: the second one shares what is pending */
    engine_rig_finish(&rig, 100);
    submit_one(&rig, &made[2], 2, 1);
    engine_rig_finish(&rig, 100);
    assert_int_equal(fake_backend_vision_totals(rig.backend).pictures, 1);
    assert_int_equal(gauge(&rig.frontend->pair.segment.gauges->image_hits_total), 2);
    for (uint32_t slot = 0; slot < 3; slot++) {
        engine_rig_check_reply(&rig, &made[slot].request, &rig.frontend->replies[slot]);
        assert_int_equal(rig.frontend->replies[slot].cached_images, slot > 0);
    }
    submit_one(&rig, &made[3], 3, 2);
    engine_rig_finish(&rig, 100);
    assert_int_equal(fake_backend_vision_totals(rig.backend).pictures, 2);
    engine_rig_close(&rig);
}

static void test_nobody_waits_for_another_ones_picture(void **state)
{
    (void)state;
    static struct image_request made;
    struct model_vision vision = small_vision;
    vision.stages = 1000000; /* longer than the test */
    struct engine_rig_options options = options_of(&vision);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    submit_one(&rig, &made, 0, 1);
    engine_rig_turn(&rig);
    const uint32_t ids[] = {1, 2, 3};
    struct test_request text = {.prompt = ids,
                                .prompt_tokens = 3,
                                .max_new_tokens = 20,
                                .sampling = sampling_params_default()};
    assert_true(test_frontend_submit(rig.frontend, 1, &text));
    for (uint32_t turn = 0; turn < 40 && rig.frontend->replies[1].live; turn++) {
        engine_rig_turn(&rig);
        test_frontend_collect(rig.frontend);
    }
    assert_false(rig.frontend->replies[1].live);
    engine_rig_check_reply(&rig, &text, &rig.frontend->replies[1]);
    assert_true(rig.frontend->replies[0].live);
    /* Nobody wants it any more: the batch is dropped, and there is nothing to do. */
    test_frontend_cancel(rig.frontend, 0);
    engine_rig_turn(&rig);
    test_frontend_collect(rig.frontend);
    assert_int_equal(engine_rig_turn(&rig), STEP_IDLE);
    engine_rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_that_may_be_cut),
        cmocka_unit_test(test_grid_positions),
        cmocka_unit_test(test_prefixes_with_pictures),
        cmocka_unit_test(test_spans_that_must_stay_whole),
        cmocka_unit_test(test_a_pool_of_one_picture),
        cmocka_unit_test(test_the_same_picture_is_encoded_once),
        cmocka_unit_test(test_nobody_waits_for_another_ones_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
