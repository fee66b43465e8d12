/*
 * Forced tokens through a whole worker: budgets end thinking in time in every seeded run, prefixes
 * start answers, stop ids wait for min_tokens, and alternatives come with their tokens. All of it
 * with and without overlapping steps, from every point at which a worker could have died, and with
 * preempted sequences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_rig.h"

#define PROMPT  20u
#define ANSWER  60u
#define VOCAB   12u
#define RUNS    100u
#define START   3u
#define END     4u
#define PREFIX  2u
#define STOP_ID 7u

/* The prefix, what begins thinking, what ends it. */
static const uint32_t forced_ids[] = {9, 8, START, END};
static const uint32_t stop_ids[] = {STOP_ID};

static struct engine_rig_options small_options(uint32_t overlap)
{
    struct engine_rig_options options = engine_rig_defaults();
    options.vocab_tokens = VOCAB;
    engine_rig_set_overlap(&options, overlap);
    return options;
}

static struct test_request request_of(const uint32_t *prompt, uint64_t seed)
{
    struct test_request request = {.prompt = prompt,
                                   .prompt_tokens = PROMPT,
                                   .max_new_tokens = ANSWER,
                                   .sampling = sampling_params_default(),
                                   .forced_ids = forced_ids,
                                   .prefix_count = seed % 3 == 0 ? PREFIX : 0,
                                   .think_start_count = 1,
                                   .think_end_count = 1,
                                   .top_logprobs = (uint32_t)(seed % (LIMIT_TOP_LOGPROBS + 1))};
    if (request.prefix_count == 0)
        request.forced_ids += PREFIX;
    request.sampling.seed = seed;
    request.flags = SUBMIT_FLAG_LOGPROBS | SUBMIT_FLAG_THINKING_BUDGET;
    if (seed % 2 == 0)
        request.flags |= SUBMIT_FLAG_THINKING_OPEN;
    request.thinking_budget = (uint32_t)(seed % 7);
    if (seed % 5 == 0)
        request.sampling.frequency_penalty = 0.5f; /* counts, which some backends want read */
    return request;
}

/* Tokens between a beginning of thinking and its end. */
static uint32_t count_thinking(const struct test_request *request, const struct test_reply *reply)
{
    bool thinking = (request->flags & SUBMIT_FLAG_THINKING_OPEN) != 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < reply->token_count; i++) {
        if (thinking && reply->tokens[i] == END)
            thinking = false;
        else if (thinking)
            count++;
        else
            thinking = reply->tokens[i] == START;
    }
    return count;
}

static void check_runs(uint32_t overlap)
{
    struct engine_rig rig;
    struct engine_rig_options options = small_options(overlap);
    engine_rig_open(&rig, &options);
    uint32_t prompt[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = i % VOCAB;
    uint32_t reached = 0;
    for (uint32_t run = 0; run < RUNS; run += 5) {
        struct test_request requests[5];
        for (uint32_t i = 0; i < 5; i++) {
            requests[i] = request_of(prompt, run + i);
            assert_true(test_frontend_submit(rig.frontend, i, &requests[i]));
        }
        engine_rig_finish(&rig, 2000);
        for (uint32_t i = 0; i < 5; i++) {
            const struct test_reply *reply = &rig.frontend->replies[i];
            engine_rig_check_reply(&rig, &requests[i], reply);
            uint32_t thought = count_thinking(&requests[i], reply);
            assert_true(thought <= requests[i].thinking_budget);
            reached += thought == requests[i].thinking_budget;
            /* The prefix starts the answer, after thinking if the prompt has opened it. */
            if (requests[i].prefix_count > 0 && !(requests[i].flags & SUBMIT_FLAG_THINKING_OPEN))
                assert_memory_equal(reply->tokens, forced_ids, PREFIX * sizeof(uint32_t));
        }
    }
    assert_true(reached > RUNS / 4);
    engine_rig_close(&rig);
}

static void test_budgets_are_kept_in_every_run(void **state)
{
    (void)state;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++)
        check_runs(overlap);
}

/* The same tokens, logprobs and alternatives if it resumes from any of its own tokens. */
static void check_splits(uint64_t seed, uint32_t overlap)
{
    struct engine_rig rig;
    struct engine_rig_options options = small_options(overlap);
    engine_rig_open(&rig, &options);
    uint32_t ids[PROMPT + ANSWER];
    for (uint32_t i = 0; i < PROMPT; i++)
        ids[i] = i % VOCAB;
    struct test_request request = request_of(ids, seed);
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    engine_rig_finish(&rig, 500);
    const struct test_reply *whole = &rig.frontend->replies[0];
    assert_int_equal(whole->token_count, ANSWER);
    memcpy(ids + PROMPT, whole->tokens, ANSWER * sizeof *ids);
    for (uint32_t split = 1; split < ANSWER; split++) {
        request.prompt_tokens = PROMPT + split;
        request.generated_tokens = split;
        request.max_new_tokens = ANSWER - split;
        assert_true(test_frontend_submit(rig.frontend, 1, &request));
        engine_rig_finish(&rig, 500);
        const struct test_reply *rest = &rig.frontend->replies[1];
        assert_int_equal(rest->token_count, ANSWER - split);
        size_t count = ANSWER - split;
        assert_memory_equal(rest->tokens, whole->tokens + split, count * sizeof(uint32_t));
        assert_memory_equal(rest->logprobs, whole->logprobs + split, count * sizeof(float));
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(rest->alternatives + i * LIMIT_TOP_LOGPROBS,
                                whole->alternatives + (split + i) * LIMIT_TOP_LOGPROBS,
                                request.top_logprobs * sizeof(struct token_logprob));
    }
    engine_rig_close(&rig);
}

static void test_a_replay_forces_the_same(void **state)
{
    (void)state;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++)
        for (uint64_t seed = 30; seed < 34; seed++)
            check_splits(seed, overlap);
}

static void test_preempted_sequences_force_the_same(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct engine_rig_options options = small_options(2);
    options.kv_blocks[0] = 12; /* two whole sequences of five blocks and a part of a third */
    engine_rig_open(&rig, &options);
    uint32_t prompt[PROMPT] = {0};
    struct test_request requests[6];
    for (uint32_t i = 0; i < 6; i++) {
        requests[i] = request_of(prompt, 60 + i);
        assert_true(test_frontend_submit(rig.frontend, i, &requests[i]));
    }
    engine_rig_finish(&rig, 5000);
    for (uint32_t i = 0; i < 6; i++)
        engine_rig_check_reply(&rig, &requests[i], &rig.frontend->replies[i]);
    assert_true(engine_rig_preemptions(&rig) > 0);
    engine_rig_close(&rig);
}

static void test_stop_ids_wait_for_min_tokens(void **state)
{
    (void)state;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++) {
        struct engine_rig rig;
        struct engine_rig_options options = small_options(overlap);
        engine_rig_open(&rig, &options);
        uint32_t prompt[PROMPT] = {0};
        uint32_t stopped = 0;
        for (uint32_t seed = 0; seed < 20; seed++) {
            struct test_request request = {.prompt = prompt,
                                           .prompt_tokens = PROMPT,
                                           .max_new_tokens = ANSWER,
                                           .stop_ids = stop_ids,
                                           .stop_token_count = 1,
                                           .min_tokens = 30,
                                           .sampling = sampling_params_default()};
            request.sampling.seed = seed;
            assert_true(test_frontend_submit(rig.frontend, 0, &request));
            engine_rig_finish(&rig, 500);
            const struct test_reply *reply = &rig.frontend->replies[0];
            engine_rig_check_reply(&rig, &request, reply);
            assert_true(reply->token_count > 30);
            stopped += reply->finish == FINISH_STOP_TOKEN;
        }
        assert_true(stopped > 10);
        engine_rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets_are_kept_in_every_run),
        cmocka_unit_test(test_a_replay_forces_the_same),
        cmocka_unit_test(test_preempted_sequences_force_the_same),
        cmocka_unit_test(test_stop_ids_wait_for_min_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
