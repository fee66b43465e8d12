/*
 * Times and rates of an answer, of several answers together, and of none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/api/generation/answer_timings.h"

static double number(const struct text_buffer *json, const char *name)
{
    cJSON *object = cJSON_ParseWithLength(json->bytes, json->length);
    assert_non_null(object);
    const cJSON *item = cJSON_GetObjectItem(object, name);
    assert_true(cJSON_IsNumber(item));
    double value = item->valuedouble;
    cJSON_Delete(object);
    return value;
}

static void rates_follow_from_times(void **state)
{
    (void)state;
    struct answer_timings timings = {0};
    struct text_buffer out = {0};
    answer_timings_note(&timings, &(struct reply_token){.scheduled_us = 1000, .now_us = 41000});
    answer_timings_note(&timings, &(struct reply_token){.scheduled_us = 9000, .now_us = 51000});
    answer_timings_note(&timings, &(struct reply_token){.now_us = 61000});
    answer_timings_write(&timings, 100, 20, &out);
    assert_true(number(&out, "cache_n") == 20 && number(&out, "prompt_n") == 80);
    assert_true(number(&out, "prompt_ms") == 40 && number(&out, "prompt_per_token_ms") == 0.5);
    assert_true(number(&out, "prompt_per_second") == 2000);
    assert_true(number(&out, "predicted_n") == 3 && number(&out, "predicted_ms") == 20);
    assert_true(number(&out, "predicted_per_second") == 150);
    text_buffer_fini(&out);
}

static void unknown_times_and_rates_are_zero(void **state)
{
    (void)state;
    struct answer_timings timings = {0};
    struct text_buffer out = {0};
    answer_timings_write(&timings, 5, 5, &out);
    assert_true(number(&out, "prompt_per_token_ms") == 0 && number(&out, "predicted_n") == 0);
    text_buffer_clear(&out);
    answer_timings_note(&timings, &(struct reply_token){.now_us = 700}); /* no step told */
    answer_timings_write(&timings, 5, 0, &out);
    assert_true(number(&out, "prompt_ms") == 0 && number(&out, "prompt_per_second") == 0);
    text_buffer_clear(&out);
    answer_timings_write_progress(
        &(struct reply_progress){
            .prompt_tokens = 9, .computed_tokens = 4, .scheduled_us = 2000, .now_us = 5999},
        &out);
    assert_true(number(&out, "total") == 9 && number(&out, "processed") == 4);
    assert_true(number(&out, "time_ms") == 3);
    text_buffer_fini(&out);
}

static void drafts_are_told_if_there_were_any(void **state)
{
    (void)state;
    struct answer_timings timings = {0};
    struct text_buffer out = {0};
    answer_timings_note(&timings, &(struct reply_token){.now_us = 1});
    answer_timings_write(&timings, 5, 0, &out);
    text_buffer_append(&out, "", 1);
    assert_null(strstr(out.bytes, "draft_n"));
    text_buffer_clear(&out);
    answer_timings_note(&timings, &(struct reply_token){.draft_tokens = 3, .is_drafted = true});
    answer_timings_note(&timings, &(struct reply_token){.is_drafted = true});
    answer_timings_note(&timings, &(struct reply_token){.now_us = 2});
    answer_timings_note(&timings, &(struct reply_token){.draft_tokens = 2});
    answer_timings_write(&timings, 5, 0, &out);
    assert_true(number(&out, "draft_n") == 5 && number(&out, "draft_n_accepted") == 2);
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_from_times),
        cmocka_unit_test(unknown_times_and_rates_are_zero),
        cmocka_unit_test(drafts_are_told_if_there_were_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
