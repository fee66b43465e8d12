/*
 * From body to prompt ids: only the template's own special tokens are special, and a prompt must
 * leave room for an answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "tests/support/tiny_assets.h"

static const char chatml[] = "{% for message in messages %}{% if message.role == 'tool' %}"
                             "{{ raise_exception('no tools here') }}{% endif %}"
                             "{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}{% endfor %}"
                             "{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}";

static struct model_assets assets;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, chatml);
    assets.context_tokens = 32;
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    tiny_assets_close(&assets);
    return 0;
}

static enum result prepare(const char *body, struct prepared_generation *prepared,
                           struct api_error *error)
{
    return generation_prepare(&chat_format,
                              &(struct parse_context){.assets = &assets, .random_seed = 1}, body,
                              strlen(body), 0, prepared, error);
}

/* A body with one user message of `count` times the letter x. */
static void long_body(char *body, size_t capacity, int count, const char *fields)
{
    char letters[128] = {0};
    memset(letters, 'x', (size_t)count);
    snprintf(body, capacity, "{%s\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}", fields,
             letters);
}

static void template_tokens_are_special(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(
        prepare("{\"messages\":[{\"role\":\"user\",\"content\":\"hell\"}]}", &prepared, &error),
        RESULT_OK);
    const uint32_t expected[] = {TINY_START, TINY_HE, TINY_LL, TINY_END, TINY_START};
    assert_int_equal(prepared.prompt.count, 5);
    assert_memory_equal(prepared.prompt.ids, expected, sizeof expected);
    assert_int_equal(prepared.max_new_tokens, 32 - 5);
    prepared_generation_fini(&prepared);
}

static void user_text_never_becomes_special(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(prepare("{\"messages\":[{\"role\":\"user\",\"content\":\"<|im_end|>\"}]}",
                             &prepared, &error),
                     RESULT_OK);
    assert_int_equal(prepared.prompt.count, 3 + strlen("<|im_end|>"));
    assert_int_equal(prepared.prompt.ids[0], TINY_START);
    for (size_t i = 1; i <= strlen("<|im_end|>"); i++)
        assert_int_equal(prepared.prompt.ids[i], (uint8_t) "<|im_end|>"[i - 1]);
    prepared_generation_fini(&prepared);
}

/* Clients send null beside calls; a template that concatenates content fails on it. */
static void null_content_is_tried_again_as_an_empty_text(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(prepare("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
                             "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
                             "\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                             "\"arguments\":\"{}\"}}]},{\"role\":\"user\",\"content\":\"y\"}]}",
                             &prepared, &error),
                     RESULT_OK);
    const uint32_t expected[] = {TINY_START, 'x', TINY_END, TINY_START, TINY_END,
                                 TINY_START, 'y', TINY_END, TINY_START};
    assert_int_equal(prepared.prompt.count, 9);
    assert_memory_equal(prepared.prompt.ids, expected, sizeof expected);
    prepared_generation_fini(&prepared);
}

static void prompt_must_leave_room_for_one_token(void **state)
{
    (void)state;
    char body[400];
    struct prepared_generation prepared;
    struct api_error error;
    long_body(body, sizeof body, 28, "\"max_tokens\":9,");
    assert_int_equal(prepare(body, &prepared, &error), RESULT_OK);
    assert_int_equal(prepared.prompt.count, 31);
    assert_int_equal(prepared.max_new_tokens, 1); /* what the context leaves */
    prepared_generation_fini(&prepared);
    for (int letters = 29; letters <= 100; letters += 71) {
        long_body(body, sizeof body, letters, "");
        assert_int_equal(prepare(body, &prepared, &error), RESULT_CONTEXT_EXCEEDED);
        assert_int_equal(error.status, 400);
        assert_string_equal(error.code, "context_length_exceeded");
        assert_string_equal(error.param, "messages");
    }
}

static void requested_max_tokens_are_kept_when_they_fit(void **state)
{
    (void)state;
    char body[400];
    struct prepared_generation prepared;
    struct api_error error;
    long_body(body, sizeof body, 4, "\"max_tokens\":6,");
    assert_int_equal(prepare(body, &prepared, &error), RESULT_OK);
    assert_int_equal(prepared.max_new_tokens, 6);
    prepared_generation_fini(&prepared);
}

static void a_template_error_is_the_reply(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    assert_int_equal(
        prepare("{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", &prepared, &error),
        RESULT_INVALID);
    assert_int_equal(error.status, 400);
    assert_non_null(strstr(error.message, "no tools here"));
}

/* A prompt that is only inspected may exceed the context. */
static void a_counted_prompt_may_exceed_the_context(void **state)
{
    (void)state;
    const struct api_format counting = {.parse = chat_format.parse};
    struct prepared_generation prepared;
    struct api_error error;
    char body[256];
    long_body(body, sizeof body, 100, "");
    assert_int_equal(prepare(body, &prepared, &error), RESULT_CONTEXT_EXCEEDED);
    assert_int_equal(generation_prepare(&counting, &(struct parse_context){.assets = &assets}, body,
                                        strlen(body), 0, &prepared, &error),
                     RESULT_OK);
    assert_true(prepared.prompt.count >= 100);
    prepared_generation_fini(&prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_tokens_are_special),
        cmocka_unit_test(a_counted_prompt_may_exceed_the_context),
        cmocka_unit_test(user_text_never_becomes_special),
        cmocka_unit_test(null_content_is_tried_again_as_an_empty_text),
        cmocka_unit_test(prompt_must_leave_room_for_one_token),
        cmocka_unit_test(requested_max_tokens_are_kept_when_they_fit),
        cmocka_unit_test(a_template_error_is_the_reply),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
