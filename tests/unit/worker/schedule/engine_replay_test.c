/*
 * A replayed request continues where it stopped: index, tokens, penalties and random stream are the
 * same as without interruption, from every point at which a worker could have died.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/engine_rig.h"

#define PROMPT 37u
#define ANSWER 45u

static void check_splits(struct sampling_params sampling, uint32_t overlap)
{
    struct engine_rig rig;
    struct engine_rig_options options = engine_rig_defaults();
    engine_rig_set_overlap(&options, overlap);
    engine_rig_open(&rig, &options);
    uint32_t ids[PROMPT + ANSWER];
    for (uint32_t i = 0; i < PROMPT; i++)
        ids[i] = i % 7;
    struct test_request request = {.prompt = ids,
                                   .prompt_tokens = PROMPT,
                                   .max_new_tokens = ANSWER,
                                   .flags = SUBMIT_FLAG_LOGPROBS,
                                   .sampling = sampling};
    assert_true(test_frontend_submit(rig.frontend, 0, &request));
    engine_rig_finish(&rig, 200);
    const struct test_reply *whole = &rig.frontend->replies[0];
    assert_int_equal(whole->token_count, ANSWER);
    for (uint32_t i = 0; i < ANSWER; i++)
        ids[PROMPT + i] = whole->tokens[i];

    for (uint32_t split = 1; split < ANSWER; split++) {
        request.prompt_tokens = PROMPT + split;
        request.generated_tokens = split;
        request.max_new_tokens = ANSWER - split;
        assert_true(test_frontend_submit(rig.frontend, 1, &request));
        engine_rig_finish(&rig, 200);
        const struct test_reply *rest = &rig.frontend->replies[1];
        assert_int_equal(rest->finish, FINISH_LENGTH);
        assert_int_equal(rest->token_count, ANSWER - split);
        assert_memory_equal(rest->tokens, whole->tokens + split,
                            (ANSWER - split) * sizeof(uint32_t));
        assert_memory_equal(rest->logprobs, whole->logprobs + split,
                            (ANSWER - split) * sizeof(float));
    }
    engine_rig_close(&rig);
}

static void check_every_split(struct sampling_params sampling)
{
    for (uint32_t overlap = 0; overlap < ENGINE_RIG_OVERLAPS; overlap++)
        check_splits(sampling, overlap);
}

static void test_plain(void **state)
{
    (void)state;
    struct sampling_params sampling = sampling_params_default();
    sampling.seed = 99;
    check_every_split(sampling);
}

static void test_with_penalties(void **state)
{
    (void)state;
    struct sampling_params sampling = sampling_params_default();
    sampling.frequency_penalty = 0.3f;
    sampling.repetition_penalty = 1.2f;
    check_every_split(sampling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_with_penalties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
