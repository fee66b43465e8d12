/*
 * Drafted tokens through a whole worker: thousands of random requests, half of them for the second
 * time, so that the drafter knows the answer and makes random mistakes. Every number of drafts is
 * accepted, in every company, with preemptions, cancels, stop ids, penalties, forced tokens, a
 * prefix cache that always evicts, sliding windows, quantization after a start and recurrent state; and each request
 * gets the same tokens, log-probabilities and alternatives as when it runs alone. The fake backend
 * aborts if a row reads a cell that is not its own sequence's.
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
#define KNOWN      DRAFT_ORACLE_TEXTS
#define REQUESTS   700u

/* The prefix, what begins thinking, what ends it. */
static const uint32_t forced_ids[] = {9, 8, 3, 4, 5};

struct scene {
    struct draft_oracle oracle;
    struct drawn_request known[KNOWN]; /* requests whose answers the oracle was taught */
    uint32_t known_count;
};

static void draw_forced(struct test_random *random, struct test_request *request)
{
    bool has_prefix = test_random_below(random, 2);
    request->forced_ids = forced_ids + (has_prefix ? 0 : 2);
    request->prefix_count = has_prefix ? 2 : 0;
    request->think_start_count = 1;
    request->think_end_count = 1 + test_random_below(random, 2);
    request->flags |= SUBMIT_FLAG_THINKING_BUDGET;
    if (test_random_below(random, 2))
        request->flags |= SUBMIT_FLAG_THINKING_OPEN;
    request->thinking_budget = test_random_below(random, 12);
}

static void draw_penalties(struct test_random *random, struct sampling_params *sampling)
{
    static const uint32_t contexts[] = {0, 1, 7, 40};
    sampling->repetition_penalty = test_random_below(random, 2) ? 1.1f : 1.0f;
    sampling->frequency_penalty = 0.25f;
    sampling->repetition_context = contexts[test_random_below(random, 4)];
    sampling->presence_context = contexts[test_random_below(random, 4)];
    sampling->frequency_context = contexts[test_random_below(random, 4)];
}

/* The same request as one that has ended. */
static void repeat(const struct drawn_request *from, struct drawn_request *drawn)
{
    *drawn = *from;
    drawn->part = NULL;
    drawn->used = true;
    drawn->cancelled = false;
    drawn->request.prompt = drawn->prompt;
    drawn->request.stop_ids = drawn->stop_ids;
    drawn->request.logit_bias = drawn->bias;
    drawn->request.image_part = NULL;
}

static void make_request(void *context, struct test_random *random, struct drawn_request *drawn)
{
    struct scene *scene = context;
    struct test_request *request = &drawn->request;
    if (scene->known_count > 0 && test_random_below(random, 3) > 0) {
        uint32_t most = scene->known_count < KNOWN ? scene->known_count : KNOWN;
        repeat(&scene->known[test_random_below(random, most)], drawn);
        return;
    }
    drawn_request_add_text(drawn, random, 1 + test_random_below(random, PROMPT_MAX), VOCAB);
    drawn_request_sample(drawn, random, VOCAB);
    request->max_new_tokens = 1 + test_random_below(random, 120);
    request->flags |= SUBMIT_FLAG_LOGPROBS;
    request->top_logprobs = test_random_below(random, LIMIT_TOP_LOGPROBS + 1);
    if (test_random_below(random, 3) == 0)
        request->min_tokens = test_random_below(random, request->max_new_tokens);
    if (test_random_below(random, 3) == 0)
        draw_forced(random, request);
    if (test_random_below(random, 3) == 0)
        draw_penalties(random, &request->sampling);
    if (test_random_below(random, 10) == 0)
        request->flags |= SUBMIT_FLAG_NO_SPECULATION;
    if (test_random_below(random, 10) == 0)
        request->flags |= SUBMIT_FLAG_NO_PREFIX_CACHE;
}

static void settle(void *context, const struct drawn_request *drawn, const struct test_reply *reply)
{
    struct scene *scene = context;
    if (drawn->request.flags & SUBMIT_FLAG_NO_SPECULATION)
        assert_int_equal(reply->drafted, 0);
    if (reply->finish == FINISH_CANCELLED)
        return;
    draft_oracle_teach(&scene->oracle, drawn->request.prompt, drawn->request.prompt_tokens,
                       reply->tokens, reply->token_count);
    scene->known[scene->known_count++ % KNOWN] = *drawn;
}

/* `positions`: of drafts that are accepted often. */
static void check_run(struct engine_rig_options *options, uint64_t seed, uint32_t positions)
{
    static struct scene scene;
    struct engine_rig rig;
    memset(&scene, 0, sizeof scene);
    draft_oracle_init(&scene.oracle, seed, VOCAB);
    options->vocab_tokens = VOCAB;
    options->drafter = &scene.oracle.drafter;
    options->draft_pace = draft_oracle_pace();
    engine_rig_open(&rig, options);
    struct request_crowd_totals totals =
        request_crowd_run(&rig, &(struct request_crowd_options){.seed = seed,
                                                                .slots = 16,
                                                                .requests = REQUESTS,
                                                                .cancels = 60,
                                                                .cache_resets = 500,
                                                                .reads_slowly = true,
                                                                .make = make_request,
                                                                .settle = settle,
                                                                .context = &scene});
    assert_true(totals.by_length > 50);
    assert_true(totals.by_stop > 50);
    assert_true(totals.cancelled > 10);
    assert_true(engine_rig_preemptions(&rig) > 10);
    const struct test_frontend *frontend = rig.frontend;
    assert_true(frontend->draft_tokens > 5000);
    for (uint32_t position = 1; position <= positions; position++)
        assert_true(frontend->accepted_drafts[position] > 20);
    draft_oracle_fini(&scene.oracle);
    engine_rig_close(&rig);
}

static struct engine_rig_options options_with(uint32_t blocks)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.kv_blocks[0] = blocks;
    options.logit_rows = 40;
    options.step_tokens = 48;
    return options;
}

static void test_full_attention(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(20);
    check_run(&options, 1, 10);
    options.logit_rows = options.max_sequences; /* drafts take what other streams leave */
    check_run(&options, 2, 4);
}

static void test_full_and_sliding_groups(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(24);
    options.group_count = 3;
    options.windows[1] = 40;
    options.windows[2] = 2;
    options.kv_blocks[1] = 24;
    options.kv_blocks[2] = 20;
    check_run(&options, 3, 10);
    options.prefix_cache = true;
    check_run(&options, 4, 10);
}

static void test_quantization_after_a_start(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(22);
    options.quantized_kv_start = 45;
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[1] = 24;
    options.kv_blocks[2] = 9;
    check_run(&options, 5, 10);
    options.prefix_cache = true;
    check_run(&options, 6, 10);
}

static void test_prefix_cache_that_evicts(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(20);
    options.prefix_cache = true;
    check_run(&options, 7, 10);
}

static void test_recurrent_state(void **state)
{
    (void)state;
    struct engine_rig_options options = options_with(20);
    options.recurrent = true;
    check_run(&options, 8, 10);
    options.prefix_cache = true;
    options.checkpoint_slots = 12;
    check_run(&options, 9, 10);
    options.group_count = 2;
    options.windows[1] = 40;
    options.kv_blocks[1] = 24;
    options.checkpoint_slots = 3;
    check_run(&options, 10, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention),
        cmocka_unit_test(test_full_and_sliding_groups),
        cmocka_unit_test(test_quantization_after_a_start),
        cmocka_unit_test(test_prefix_cache_that_evicts),
        cmocka_unit_test(test_recurrent_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
