/*
 * The prefix cache in the engine: thousands of requests of conversations that continue, branch and
 * share their beginnings, with the cache on, off, and so small that it always evicts. Each request
 * gets the same tokens as when it runs alone. The fake backend aborts if a row reads a cell or a
 * state that is not its own sequence's; the rig checks the invariants of all sequences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/request_crowd.h"

#define TEXT_MAX      400u
#define CONVERSATIONS 6u
#define TENANTS       2u
#define IMAGES        8u

struct scene {
    uint32_t vocab;
    struct drawn_catalog catalog; /* empty: text alone */
    struct drawn_request conversations[TENANTS][CONVERSATIONS];
};

static void make_request(void *context, struct test_random *random, struct drawn_request *drawn)
{
    struct scene *scene = context;
    struct test_request *request = &drawn->request;
    request->cache_salt = test_random_below(random, TENANTS);
    drawn->conversation = test_random_below(random, CONVERSATIONS);
    const struct drawn_request *from =
        &scene->conversations[request->cache_salt][test_random_below(random, 4)
                                                       ? drawn->conversation
                                                       : test_random_below(random, 6)];
    /* The whole of it, the same again, or a branch. */
    uint32_t all = from->request.prompt_tokens;
    uint32_t shared = test_random_below(random, 3) ? all : test_random_below(random, all + 1);
    uint32_t more = 1 + test_random_below(random, 40);
    if (shared + more > TEXT_MAX - 200)
        shared = test_random_below(random, all < 50 ? all + 1 : 50);
    drawn_request_share(drawn, from, shared);
    bool shows = scene->catalog.count > 0 && test_random_below(random, 3) == 0;
    if (shows && request->image_count < DRAWN_IMAGES_MAX)
        drawn_request_add_image(drawn, &scene->catalog,
                                test_random_below(random, scene->catalog.count), random);
    drawn_request_add_text(drawn, random, more, scene->vocab);
    request->max_new_tokens = 1 + test_random_below(random, 50);
    request->flags = SUBMIT_FLAG_IGNORE_END;
    request->sampling.seed = test_random_next(random);
    if (test_random_below(random, 8) == 0)
        request->flags |= SUBMIT_FLAG_NO_PREFIX_CACHE;
    if (test_random_below(random, 5) == 0)
        request->sampling.presence_penalty = 0.5f;
}

/* The answer becomes a part of the conversation. */
static void settle(void *context, const struct drawn_request *drawn, const struct test_reply *reply)
{
    struct scene *scene = context;
    struct drawn_request *to =
        &scene->conversations[drawn->request.cache_salt][drawn->conversation];
    drawn_request_begin(to);
    drawn_request_share(to, drawn, drawn->request.prompt_tokens);
    for (uint32_t i = 0; i < reply->token_count; i++)
        drawn_request_add_token(to, reply->tokens[i]);
}

/* The part of all prompt tokens that was there. */
static double check_run(struct engine_rig_options *options, uint64_t seed, uint32_t requests)
{
    double least = 1.0;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct scene *scene = must_alloc(1, sizeof *scene);
        scene->vocab = options->vocab_tokens;
        if (options->vision)
            drawn_catalog_make(&scene->catalog, IMAGES, 4, scene->vocab - 1);
        struct request_crowd_totals totals =
            request_crowd_run(&rig, &(struct request_crowd_options){.seed = seed + 10 * overlap,
                                                                    .slots = 16,
                                                                    .requests = requests,
                                                                    .cancels = 80,
                                                                    .cache_resets = 500,
                                                                    .make = make_request,
                                                                    .settle = settle,
                                                                    .context = scene});
        double share = (double)totals.cached_tokens / (double)totals.prompt_tokens;
        least = share < least ? share : least;
        drawn_catalog_fini(&scene->catalog);
        free(scene);
        engine_rig_close(&rig);
    }
    return least;
}

static struct engine_rig_options options_with(bool prefix_cache, uint32_t blocks)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.prefix_cache = prefix_cache;
    options.kv_blocks[0] = blocks;
    options.context_tokens = TEXT_MAX;
    return options;
}

static void test_without_it_nothing_is_shared(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(false, 200);
    assert_true(check_run(&options, 1, 300) == 0.0);
}

static void test_plenty_of_blocks(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 600);
    assert_true(check_run(&options, 2, 600) > 0.3);
}

static void test_no_more_blocks_than_one_sequence_needs(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 26);
    assert_true(check_run(&options, 3, 600) > 0.05);
}

static void test_full_and_sliding_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 200);
    options.group_count = 3;
    options.windows[1] = 40;
    options.windows[2] = 2;
    options.kv_blocks[1] = 60;
    options.kv_blocks[2] = 30;
    assert_true(check_run(&options, 4, 600) > 0.1);
    options.kv_blocks[0] = 40;
    options.kv_blocks[1] = 10;
    options.kv_blocks[2] = 8;
    (void)check_run(&options, 5, 400);
}

static void test_two_full_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 60);
    options.group_count = 2;
    options.kv_blocks[1] = 45;
    assert_true(check_run(&options, 6, 600) > 0.1);
}

static void test_quantization_after_a_start(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 200);
    options.quantized_kv_start = 72;
    options.kv_blocks[1] = 80;
    assert_true(check_run(&options, 13, 400) > 0.1);
    options.kv_blocks[0] = 40;
    options.kv_blocks[1] = 6;
    assert_true(check_run(&options, 14, 400) > 0.02);
}

/* Images in conversations, windows, recurrent state and a quantized cache with a full-precision
 * start, all at once. */
static void test_images_in_a_quantized_cache(void **state)
{
    (void)state;
    struct model_vision vision = {
        .patch_side = 2, .merge_side = 2, .hidden = 8, .text_hidden = 8, .stages = 3};
    struct engine_rig_options options = options_with(true, 200);
    options.vision = &vision;
    options.patch_rows = 200;
    options.feature_rows = 64;
    options.kept_images = 4;
    options.quantized_kv_start = 72;
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[1] = 60;
    options.kv_blocks[2] = 80;
    assert_true(check_run(&options, 15, 400) > 0.05);
    options.kv_blocks[0] = 40;
    options.kv_blocks[1] = 10;
    options.kv_blocks[2] = 6;
    (void)check_run(&options, 16, 300);
    vision.spans_whole = true;
    (void)check_run(&options, 17, 300);
    vision.spans_whole = false;
    vision.grid_positions = true;
    options.recurrent = true;
    options.checkpoint_slots = 12;
    (void)check_run(&options, 18, 300);
}

static void test_only_sliding_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 100);
    options.windows[0] = 24;
    assert_true(check_run(&options, 7, 600) > 0.3);
    options.kv_blocks[0] = 9;
    (void)check_run(&options, 8, 400);
}

static void test_recurrent_state(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 300);
    options.recurrent = true;
    options.checkpoint_slots = 40;
    assert_true(check_run(&options, 9, 600) > 0.2);
    options.kv_blocks[0] = 40;
    options.checkpoint_slots = 3;
    (void)check_run(&options, 10, 400);
    options.checkpoint_slots = 0;
    assert_true(check_run(&options, 11, 200) == 0.0);
}

static void test_recurrent_state_beside_windows(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 120);
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[1] = 50;
    options.recurrent = true;
    options.checkpoint_slots = 12;
    assert_true(check_run(&options, 12, 600) > 0.03);
}

/* --- one thing at a time ---------------------------------------------------------------------- */

static void fill(uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = i * 7 % 97;
}

static const struct test_reply *ask(struct engine_rig *rig, const uint32_t *prompt,
                                    uint32_t prompt_tokens, uint32_t new_tokens, uint32_t salt)
{
    struct test_request request = {.prompt = prompt,
                                   .prompt_tokens = prompt_tokens,
                                   .max_new_tokens = new_tokens,
                                   .flags = SUBMIT_FLAG_IGNORE_END,
                                   .cache_salt = salt,
                                   .sampling = sampling_params_default()};
    must(test_frontend_submit(rig->frontend, 0, &request));
    engine_rig_finish(rig, 1000);
    engine_rig_check_reply(rig, &request, &rig->frontend->replies[0]);
    return &rig->frontend->replies[0];
}

static void test_a_second_turn_computes_what_is_new(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 64);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    uint32_t text[200];
    fill(text, 100);
    const struct test_reply *reply = ask(&rig, text, 100, 30, 0);
    assert_int_equal(reply->cached_tokens, 0);
    memcpy(text + 100, reply->tokens, 30 * sizeof text[0]);
    fill(text + 130, 20);
    uint64_t rows = fake_backend_totals(rig.backend).rows;
    reply = ask(&rig, text, 150, 1, 0);
    /* 129 positions were computed: 8 blocks, generated tokens among them. */
    assert_int_equal(reply->cached_tokens, 128);
    assert_int_equal(fake_backend_totals(rig.backend).rows - rows, 150 - 128);
    /* Of a prompt that is cached completely, the last token is computed. */
    assert_int_equal(ask(&rig, text, 128, 1, 0)->cached_tokens, 112);
    engine_rig_close(&rig);
}

/* Before the start both forms are needed, after it only the quantized one. */
static void test_a_prefix_before_the_start_of_quantization(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 64);
    options.quantized_kv_start = 40;
    options.kv_blocks[1] = 3; /* one sequence's */
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    uint32_t text[100], other[40];
    fill(text, 100);
    for (uint32_t i = 0; i < 40; i++)
        other[i] = 96 - i;
    assert_int_equal(ask(&rig, text, 100, 1, 0)->cached_tokens, 0);
    assert_int_equal(ask(&rig, text, 36, 1, 0)->cached_tokens, 32);
    assert_int_equal(ask(&rig, text, 100, 1, 0)->cached_tokens, 96);
    (void)ask(&rig, other, 40, 1, 0); /* takes all that there is in full precision */
    assert_int_equal(ask(&rig, text, 100, 1, 0)->cached_tokens, 96);
    assert_int_equal(ask(&rig, text, 36, 1, 0)->cached_tokens, 0);
    assert_int_equal(ask(&rig, text, 36, 1, 0)->cached_tokens, 32);
    engine_rig_close(&rig);
}

static void test_tenants_never_share(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(true, 64);
    struct engine_rig rig;
    engine_rig_open(&rig, &options);
    uint32_t text[64];
    fill(text, 64);
    (void)ask(&rig, text, 64, 1, 1);
    assert_int_equal(ask(&rig, text, 64, 1, 2)->cached_tokens, 0);
    assert_int_equal(ask(&rig, text, 64, 1, 1)->cached_tokens, 48);
    assert_int_equal(ask(&rig, text, 64, 1, 2)->cached_tokens, 48);
    test_frontend_reset_cache(rig.frontend);
    assert_int_equal(ask(&rig, text, 64, 1, 1)->cached_tokens, 0);
    engine_rig_close(&rig);
}

/* Blocks for four sequences, and sixteen times as many requests with one beginning. */
static void test_a_storm_of_preemptions(void **state)
{
    (void)state;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig_options options = options_with(true, 4 * 12);
        struct engine_rig rig;
        options.max_sequences = 32;
        engine_rig_set_overlap(&options, overlap);
        engine_rig_open(&rig, &options);
        static uint32_t prompts[64][64];
        struct test_request requests[64];
        for (uint32_t i = 0; i < 64; i++) {
            fill(prompts[i], 64);
            prompts[i][40] = i;
            requests[i] = (struct test_request){.prompt = prompts[i],
                                                .prompt_tokens = 64,
                                                .max_new_tokens = 128,
                                                .flags = SUBMIT_FLAG_IGNORE_END,
                                                .sampling = sampling_params_default()};
            must(test_frontend_submit(rig.frontend, i, &requests[i]));
        }
        engine_rig_finish(&rig, 100000);
        for (uint32_t i = 0; i < 64; i++)
            engine_rig_check_reply(&rig, &requests[i], &rig.frontend->replies[i]);
        assert_true(engine_rig_preemptions(&rig) > 0);
        /* A resumed sequence finds most of its blocks. */
        uint64_t rows = fake_backend_totals(rig.backend).rows;
        assert_true(rows < 64 * (64 + 128) * 3 / 2);
        engine_rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_it_nothing_is_shared),
        cmocka_unit_test(test_plenty_of_blocks),
        cmocka_unit_test(test_no_more_blocks_than_one_sequence_needs),
        cmocka_unit_test(test_full_and_sliding_groups),
        cmocka_unit_test(test_two_full_groups),
        cmocka_unit_test(test_quantization_after_a_start),
        cmocka_unit_test(test_images_in_a_quantized_cache),
        cmocka_unit_test(test_only_sliding_groups),
        cmocka_unit_test(test_recurrent_state),
        cmocka_unit_test(test_recurrent_state_beside_windows),
        cmocka_unit_test(test_a_second_turn_computes_what_is_new),
        cmocka_unit_test(test_a_prefix_before_the_start_of_quantization),
        cmocka_unit_test(test_tenants_never_share),
        cmocka_unit_test(test_a_storm_of_preemptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
