/*
 * The prefix cache in the engine: thousands of requests of conversations that go on, branch and
 * share their beginnings, with the cache on, off, and so small that it is given up all the time.
 * Each request gets the tokens that it gets alone. The fake backend aborts where a row finds a cell
 * or a state that is not exactly its own sequence's; the rig checks the facts of all sequences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/engine_rig.h"
#include "tests/support/test_random.h"

#define SLOTS         16u
#define TEXT_MAX      400u
#define CONVERSATIONS 6u
#define TENANTS       2u

struct conversation {
    uint32_t text[TEXT_MAX];
    uint32_t tokens;
};

struct owned_request {
    struct test_request request;
    uint32_t prompt[TEXT_MAX];
    uint32_t conversation;
    bool used;
    bool cancelled;
};

struct run {
    struct engine_rig *rig;
    struct test_random random;
    struct conversation conversations[TENANTS][CONVERSATIONS];
    struct owned_request owned[SLOTS];
    uint32_t submitted;
    uint32_t finished;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
};

static void make_request(struct run *run, struct owned_request *owned)
{
    struct test_random *random = &run->random;
    uint32_t tenant = test_random_below(random, TENANTS);
    owned->conversation = test_random_below(random, CONVERSATIONS);
    const struct conversation *from =
        &run->conversations[tenant][test_random_below(random, 4) ? owned->conversation
                                                                 : test_random_below(random, 6)];
    /* The whole of it, the same again, or a branch. */
    uint32_t shared =
        test_random_below(random, 3) ? from->tokens : test_random_below(random, from->tokens + 1);
    uint32_t more = 1 + test_random_below(random, 40);
    if (shared + more > TEXT_MAX - 100)
        shared = test_random_below(random, 50);
    memcpy(owned->prompt, from->text, shared * sizeof owned->prompt[0]);
    for (uint32_t i = 0; i < more; i++)
        owned->prompt[shared + i] = test_random_below(random, run->rig->options.vocab_tokens);
    owned->used = true;
    owned->cancelled = false;
    owned->request = (struct test_request){.prompt = owned->prompt,
                                           .prompt_tokens = shared + more,
                                           .max_new_tokens = 1 + test_random_below(random, 50),
                                           .flags = SUBMIT_FLAG_IGNORE_END,
                                           .cache_salt = tenant,
                                           .sampling = sampling_params_default()};
    owned->request.sampling.seed = test_random_next(random);
    if (test_random_below(random, 8) == 0)
        owned->request.flags |= SUBMIT_FLAG_NO_PREFIX_CACHE;
    if (test_random_below(random, 5) == 0)
        owned->request.sampling.presence_penalty = 0.5f;
}

/* The answer becomes a part of the conversation. */
static void settle(struct run *run, uint32_t slot)
{
    struct owned_request *owned = &run->owned[slot];
    const struct test_reply *reply = &run->rig->frontend->replies[slot];
    engine_rig_check_reply(run->rig, &owned->request, reply);
    struct conversation *to = &run->conversations[owned->request.cache_salt][owned->conversation];
    uint32_t tokens = owned->request.prompt_tokens;
    memcpy(to->text, owned->prompt, tokens * sizeof to->text[0]);
    memcpy(to->text + tokens, reply->tokens, reply->token_count * sizeof to->text[0]);
    to->tokens = tokens + reply->token_count;
    if (reply->token_count > 0) {
        run->prompt_tokens += owned->request.prompt_tokens;
        run->cached_tokens += reply->cached_tokens;
    }
    if (owned->request.flags & SUBMIT_FLAG_NO_PREFIX_CACHE)
        must(reply->cached_tokens == 0);
    run->finished++;
    owned->used = false;
}

static void step(struct run *run, uint32_t requests)
{
    uint32_t slot = test_random_below(&run->random, SLOTS);
    struct owned_request *owned = &run->owned[slot];
    if (!owned->used && run->submitted < requests) {
        make_request(run, owned);
        must(test_frontend_submit(run->rig->frontend, slot, &owned->request));
        run->submitted++;
    } else if (owned->used && test_random_below(&run->random, 80) == 0) {
        owned->cancelled = true;
        test_frontend_cancel(run->rig->frontend, slot);
    } else if (test_random_below(&run->random, 500) == 0) {
        test_frontend_reset_cache(run->rig->frontend);
    }
    if (test_random_below(&run->random, 3) == 0)
        return;
    engine_rig_turn(run->rig);
    test_frontend_collect(run->rig->frontend);
    for (slot = 0; slot < SLOTS; slot++) {
        if (run->owned[slot].used && !run->rig->frontend->replies[slot].live)
            settle(run, slot);
    }
}

/* The part of all prompt tokens that was there. */
static double check_run(struct engine_rig_options *options, uint64_t seed, uint32_t requests)
{
    double least = 1.0;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        engine_rig_set_overlap(options, overlap);
        engine_rig_open(&rig, options);
        struct run *run = must_alloc(1, sizeof *run);
        run->rig = &rig;
        run->random.state = seed + 10 * overlap;
        uint32_t turns = 0;
        while (run->finished < requests) {
            must(turns++ < requests * 300);
            step(run, requests);
        }
        while (engine_rig_turn(&rig) != STEP_IDLE)
            must(turns++ < requests * 300);
        assert_int_equal(kv_pools_used(&rig.engine->pools), 0);
        assert_int_equal(payload_slab_used_bytes(rig.frontend->slab), 0);
        double share = (double)run->cached_tokens / (double)run->prompt_tokens;
        least = share < least ? share : least;
        free(run);
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

static void test_quantization_behind_a_start(void **state)
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
    /* A prompt that is there whole has its last token computed. */
    assert_int_equal(ask(&rig, text, 128, 1, 0)->cached_tokens, 112);
    engine_rig_close(&rig);
}

/* Before the start both forms are needed, behind it the quantized one alone. */
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

/* Blocks for four sequences, sixteen times as many requests with one beginning. */
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
        /* Whoever comes back finds most of what it had. */
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
        cmocka_unit_test(test_quantization_behind_a_start),
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
