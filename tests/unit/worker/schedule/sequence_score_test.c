/*
 * Scores of prompt tokens: which rows of a chunk are scored, and, with a whole engine, that every
 * token from score_from on is told once, in order, with the log-probability that its prefix gives it,
 * whatever is cached, preempted or launched ahead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/engine_rig.h"
#include "tests/support/test_random.h"
#include "worker/schedule/sequence_score.h"

#define REQUESTS   6u
#define PROMPT_MAX 120u
#define ANSWER     9u

static void rows_are_those_before_unscored_prompt_tokens(void **state)
{
    (void)state;
    struct test_random random = {.state = 11};
    for (int i = 0; i < 20000; i++) {
        uint32_t prompt = 1 + test_random_below(&random, 40);
        uint32_t generated = test_random_below(&random, 10);
        uint32_t rows = 1 + test_random_below(&random, 30);
        struct sequence sequence = {
            .computed_tokens = test_random_below(&random, prompt + generated),
            .next_score = 1 + test_random_below(&random, prompt),
            .request.run = {.prompt_tokens = prompt + generated, .generated_tokens = generated}};
        uint32_t expected = 0, expected_first = 0;
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t told = sequence.computed_tokens + row + 1;
            if (told < sequence.next_score || told >= prompt)
                continue;
            if (expected++ == 0)
                expected_first = told - 1;
        }
        uint32_t first;
        assert_int_equal(sequence_score_rows(&sequence, rows, &first), expected);
        if (expected > 0)
            assert_int_equal(first, expected_first);
        assert_int_equal(sequence_score_is_open(&sequence), sequence.next_score < prompt);

        uint32_t logit_rows = 1 + test_random_below(&random, 9);
        uint32_t most = sequence_score_most_rows(&sequence, logit_rows);
        if (!sequence_score_is_open(&sequence)) {
            assert_int_equal(most, UINT32_MAX);
            continue;
        }
        assert_true(sequence_score_rows(&sequence, most, &first) <= logit_rows);
        if (sequence_score_rows(&sequence, most + 1, &first) > 0 && first + logit_rows + 1 < prompt)
            assert_int_equal(sequence_score_rows(&sequence, most + 1, &first), logit_rows + 1);
    }
}

static void check_scores(const struct engine_rig *rig, const struct test_request *request,
                         const struct test_reply *reply)
{
    static const struct sampling_params plain = {
        .top_p = 1.0f, .typical_p = 1.0f, .repetition_penalty = 1.0f};
    uint32_t prompt = request->prompt_tokens - request->generated_tokens;
    uint64_t prefix = 0;
    uint32_t told = 0;
    for (uint32_t i = 0; i < prompt; i++) {
        if (request->score_from > 0 && i >= request->score_from) {
            const struct row_sampling sampling = {.params = &plain,
                                                  .position = i,
                                                  .is_forced = true,
                                                  .forced_token = request->prompt[i],
                                                  .wants_logprob = true};
            struct sampled_token expected =
                fake_backend_draw(prefix, rig->options.vocab_tokens, &sampling);
            assert_true(told < reply->score_count);
            assert_true(reply->scores[told++] == expected.logprob);
        }
        prefix = fake_backend_hash(prefix, request->prompt[i]);
    }
    assert_int_equal(reply->score_count, told);
    engine_rig_check_reply(rig, request, reply);
}

/* Prompts with common beginnings compete for blocks and logit rows; then each is asked again, as a
 * replay after some of its answer with some of its scores. */
static uint64_t check_company(uint32_t overlap, uint32_t logit_rows, uint64_t seed)
{
    struct test_random random = {.state = seed};
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_set_overlap(&options, overlap);
    options.prefix_cache = true;
    options.kv_blocks[0] = 14;
    options.logit_rows = logit_rows;
    engine_rig_open(&rig, &options);
    static uint32_t ids[REQUESTS][PROMPT_MAX + ANSWER];
    struct test_request requests[REQUESTS];
    for (uint32_t at = 0; at < REQUESTS; at++) {
        uint32_t prompt = 1 + test_random_below(&random, PROMPT_MAX);
        for (uint32_t i = 0; i < prompt; i++)
            ids[at][i] = i < 40 ? i % 7 : (uint32_t)test_random_below(&random, 7);
        requests[at] = test_request_of(ids[at], prompt, ANSWER);
        requests[at].flags = SUBMIT_FLAG_LOGPROBS | SUBMIT_FLAG_IGNORE_END;
        requests[at].score_from = (uint32_t)test_random_below(&random, prompt + 1);
        if (requests[at].score_from > 0)
            requests[at].score_top = (uint32_t)test_random_below(&random, LIMIT_TOP_LOGPROBS + 1);
        requests[at].top_logprobs = (uint32_t)test_random_below(&random, 3);
        assert_true(test_frontend_submit(rig.frontend, at, &requests[at]));
    }
    engine_rig_finish(&rig, 4000);
    for (uint32_t at = 0; at < REQUESTS; at++) {
        const struct test_reply *reply = &rig.frontend->replies[at];
        check_scores(&rig, &requests[at], reply);
        struct test_request again = requests[at];
        uint32_t split = (uint32_t)test_random_below(&random, ANSWER);
        for (uint32_t i = 0; i < split; i++)
            ids[at][again.prompt_tokens + i] = reply->tokens[i];
        again.score_from = 1 + (uint32_t)test_random_below(&random, again.prompt_tokens);
        again.prompt_tokens += split;
        again.generated_tokens = split;
        again.max_new_tokens -= split;
        assert_true(test_frontend_submit(rig.frontend, REQUESTS + at, &again));
        engine_rig_finish(&rig, 4000);
        check_scores(&rig, &again, &rig.frontend->replies[REQUESTS + at]);
    }
    uint64_t preemptions = engine_rig_preemptions(&rig);
    engine_rig_close(&rig);
    return preemptions;
}

static void every_score_is_told_once(void **state)
{
    (void)state;
    uint64_t preemptions = 0;
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++)
        for (uint64_t seed = 1; seed <= 20; seed++)
            preemptions += check_company(overlap, seed % 2 ? 0 : 20, seed);
    assert_true(preemptions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_before_unscored_prompt_tokens),
        cmocka_unit_test(every_score_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
