/*
 * Answers to one body: prompts of answers, seeds that count up, and copies that outlive the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/api/generation/generation_share.h"

static uint32_t first_ids[] = {1, 2, 3};
static uint32_t second_ids[] = {4, 5};
static uint32_t forced_ids[] = {7, 8, 9};
static struct logit_bias_entry bias[] = {{6, 1.5f}};

static void answers_are_choices_of_prompts(void **state)
{
    (void)state;
    struct token_list more[] = {{.ids = second_ids, .count = 2, .capacity = 2}};
    struct prepared_generation whole = {.prompt = {.ids = first_ids, .count = 3, .capacity = 3},
                                        .more_prompts = more,
                                        .more_prompt_count = 1,
                                        .forced = {.ids = forced_ids,
                                                   .prefix_count = 1,
                                                   .think_start_count = 0,
                                                   .think_end_count = 2},
                                        .request = {.choices = 3,
                                                    .max_new_tokens = 50,
                                                    .logit_bias = bias,
                                                    .logit_bias_count = 1,
                                                    .thinking_end = "</t>",
                                                    .sampling = {.seed = 100}}};
    assert_int_equal(generation_share_answers(&whole), 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_ptr_equal(generation_share_prompt(&whole, i)->ids, i < 3 ? first_ids : second_ids);
    struct prepared_generation own;
    assert_int_equal(generation_share_take(&whole, 20, 5, &own), RESULT_OK);
    assert_int_equal(own.request.sampling.seed, 102);
    assert_int_equal(own.prompt.count, 2);
    assert_memory_equal(own.prompt.ids, second_ids, sizeof second_ids);
    assert_ptr_not_equal(own.prompt.ids, second_ids);
    assert_memory_equal(own.forced.ids, forced_ids, sizeof forced_ids);
    assert_int_equal(own.request.logit_bias_count, 1);
    assert_ptr_not_equal(own.request.logit_bias, bias);
    assert_int_equal(own.max_new_tokens, 18); /* what its own prompt leaves */
    assert_null(own.request.body);
    assert_null(own.request.thinking_end); /* was in the body */
    prepared_generation_fini(&own);
    assert_int_equal(generation_share_take(&whole, 20, 3, &own), RESULT_OK);
    assert_int_equal(own.request.sampling.seed, 100);
    prepared_generation_fini(&own);
}

static void the_default_is_one_answer(void **state)
{
    (void)state;
    struct prepared_generation whole = {.prompt = {.ids = first_ids, .count = 3}};
    assert_int_equal(generation_share_answers(&whole), 1);
    assert_ptr_equal(generation_share_prompt(&whole, 0), &whole.prompt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_choices_of_prompts),
        cmocka_unit_test(the_default_is_one_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
