/*
 * A draft model through a whole worker. The fake backend plays both models: it draws by a hash of
 * all tokens before, so the draft model is right wherever it has computed the right tokens with the
 * right parameters, and it aborts if it reads a cell of another sequence or one that was not
 * written. Requests without penalties therefore have every draft accepted, with preemptions,
 * cancels and a prefix cache that always evicts; requests with any parameters get the answers of
 * plain decoding. Also a draft model with another number of tokens, whose guesses are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/draft_oracle.h"
#include "tests/support/request_crowd.h"

#define PROMPT_MAX 100u
#define VOCAB      12u
#define REQUESTS   500u

/* The prefix, what begins thinking, what ends it. */
static const uint32_t forced_ids[] = {9, 8, 3, 4, 5};

/* A drafter that finds nothing. */
static void *empty_open(const struct drafter *drafter, uint32_t tokens_max)
{
    (void)tokens_max;
    return (void *)(uintptr_t)drafter;
}

static void empty_close(void *state)
{
    (void)state;
}

static void empty_propose(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                          struct draft_proposal *proposal)
{
    (void)state, (void)tokens, (void)known, (void)most;
    proposal->count = 0;
}

static const struct drafter empty_drafter = {
    .open = empty_open, .close = empty_close, .propose = empty_propose};

struct scene {
    bool plain;      /* requests have no parameters that change from token to token */
    uint32_t shared; /* tokens with which every other prompt begins */
};

static void draw_more(struct test_random *random, struct test_request *request)
{
    if (test_random_below(random, 3) == 0)
        request->min_tokens = test_random_below(random, request->max_new_tokens);
    if (test_random_below(random, 3) == 0) {
        request->forced_ids = forced_ids;
        request->prefix_count = 2;
        request->think_start_count = 1;
        request->think_end_count = 2;
        request->flags |= SUBMIT_FLAG_THINKING_BUDGET;
        request->thinking_budget = test_random_below(random, 12);
    }
    if (test_random_below(random, 3) == 0) {
        request->sampling.repetition_penalty = 1.1f;
        request->sampling.frequency_penalty = 0.25f;
        request->sampling.repetition_context = test_random_below(random, 2) ? 7 : 0;
        request->sampling.frequency_context = test_random_below(random, 2) ? 40 : 0;
    }
    if (test_random_below(random, 10) == 0)
        request->flags |= SUBMIT_FLAG_NO_SPECULATION;
    if (test_random_below(random, 10) == 0)
        request->flags |= SUBMIT_FLAG_NO_PREFIX_CACHE;
}

static void make_request(void *context, struct test_random *random, struct drawn_request *drawn)
{
    const struct scene *scene = context;
    struct test_request *request = &drawn->request;
    uint32_t shared = test_random_below(random, 2) == 0 ? scene->shared : 0;
    for (uint32_t i = 0; i < shared; i++)
        drawn_request_add_token(drawn, i % VOCAB);
    drawn_request_add_text(drawn, random, 1 + test_random_below(random, PROMPT_MAX - shared),
                           VOCAB);
    drawn_request_sample(drawn, random, VOCAB);
    request->max_new_tokens = 1 + test_random_below(random, 120);
    request->flags |= SUBMIT_FLAG_LOGPROBS;
    request->top_logprobs = test_random_below(random, LIMIT_TOP_LOGPROBS + 1);
    if (!scene->plain) {
        draw_more(random, request);
        return;
    }
    request->stop_token_count = 0;
    request->sampling.presence_penalty = 0.0f;
}

static struct engine_rig_options options_with(uint32_t blocks)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = blocks;
    options.logit_rows = 40;
    options.step_tokens = 48;
    options.vocab_tokens = VOCAB;
    options.draft_vocab_tokens = VOCAB;
    options.drafter = &suffix_drafter;
    options.draft_pace = draft_oracle_pace();
    return options;
}

/* Returns the share of drafts that were accepted. */
static double check_run(const struct engine_rig_options *options, struct scene *scene,
                        uint64_t seed)
{
    struct engine_rig rig;
    engine_rig_open(&rig, options);
    struct request_crowd_totals totals =
        request_crowd_run(&rig, &(struct request_crowd_options){.seed = seed,
                                                                .slots = 16,
                                                                .requests = REQUESTS,
                                                                .cancels = 60,
                                                                .cache_resets = 500,
                                                                .reads_slowly = true,
                                                                .make = make_request,
                                                                .context = scene});
    assert_true(totals.by_length > 50);
    assert_true(totals.cancelled > 10);
    assert_true(engine_rig_preemptions(&rig) > 10);
    const struct test_frontend *frontend = rig.frontend;
    uint64_t accepted = 0;
    for (uint32_t position = 1; position <= LIMIT_DRAFT_TOKENS; position++)
        accepted += frontend->accepted_drafts[position];
    assert_true(frontend->draft_tokens > 2000);
    double share = (double)accepted / (double)frontend->draft_tokens;
    engine_rig_close(&rig);
    return share;
}

static void test_right_guesses_are_accepted(void **state)
{
    (void)state;
    struct scene scene = {.plain = true};
    struct engine_rig_options options = options_with(20);
    options.drafter = &empty_drafter;
    assert_true(check_run(&options, &scene, 1) >= 1.0);
    options.prefix_cache = true;
    scene.shared = 48;
    assert_true(check_run(&options, &scene, 2) >= 1.0);
    options.group_count = 3;
    options.windows[0] = 40;
    options.windows[2] = 2;
    options.kv_blocks[0] = options.kv_blocks[2] = 24;
    options.kv_blocks[1] = 24;
    assert_true(check_run(&options, &scene, 3) >= 1.0);
}

static void test_answers_with_any_parameters(void **state)
{
    (void)state;
    struct scene scene = {.shared = 40};
    struct engine_rig_options options = options_with(20);
    options.prefix_cache = true;
    assert_true(check_run(&options, &scene, 4) > 0.5);
    options.quantized_kv_start = 45;
    options.kv_blocks[1] = 9;
    assert_true(check_run(&options, &scene, 5) > 0.5);
    options.logit_rows = options.max_sequences; /* drafts take what other streams leave */
    assert_true(check_run(&options, &scene, 6) > 0.5);
}

static void test_another_number_of_tokens(void **state)
{
    (void)state;
    struct scene scene = {.shared = 40};
    struct engine_rig_options options = options_with(20);
    options.prefix_cache = true;
    options.draft_vocab_tokens = VOCAB + 5;
    assert_true(check_run(&options, &scene, 7) < 0.5);
    options.draft_vocab_tokens = VOCAB - 3; /* most texts have tokens that it does not know */
    assert_true(check_run(&options, &scene, 8) < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_guesses_are_accepted),
        cmocka_unit_test(test_answers_with_any_parameters),
        cmocka_unit_test(test_another_number_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
