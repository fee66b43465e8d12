/*
 * What counts as text, usage, an end and an error in a chunk.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "scripts/load/chat_event.h"

static struct chat_event read_event(const char *text)
{
    struct chat_event event;
    assert_int_equal(chat_event_read(text, strlen(text), &event), RESULT_OK);
    return event;
}

static void text_is_what_a_reader_sees(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning_content\":\"x\",\"content\":null}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning\":\"x\"}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
        "{\"choices\":[{\"delta\":{}},{\"delta\":{\"content\":\"second\"}}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_true(read_event(texts[i]).has_text);
    static const char *const silent[] = {
        "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":5,\"tool_calls\":[]}}]}",
        "{\"choices\":[]}",
        "{\"choices\":7}",
        "{}",
    };
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        assert_false(read_event(silent[i]).has_text);
}

static void ends_and_usage_are_seen(void **state)
{
    (void)state;
    assert_true(read_event("[DONE]").done);
    assert_true(read_event("{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}").finished);
    assert_false(read_event("{\"choices\":[{\"delta\":{},\"finish_reason\":null}]}").finished);
    struct chat_event event =
        read_event("{\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":34}}");
    assert_true(event.has_usage);
    assert_int_equal(event.prompt_tokens, 12);
    assert_int_equal(event.completion_tokens, 34);
    assert_false(read_event("{\"usage\":null}").has_usage);
    assert_false(
        read_event("{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e99}}").has_usage);
}

static void errors_carry_their_words(void **state)
{
    (void)state;
    struct chat_event event =
        read_event("{\"error\":{\"message\":\"it is gone\",\"code\":\"worker_crashed\"}}");
    assert_true(event.is_error);
    assert_string_equal(event.error, "worker_crashed: it is gone");
    assert_true(read_event("{\"error\":\"text\"}").is_error);
    assert_false(read_event("{\"error\":null}").is_error);
    char long_words[4096] = "{\"error\":{\"message\":\"";
    memset(long_words + strlen(long_words), 'x', 3000);
    strcat(long_words, "\"}}");
    assert_int_equal(strlen(read_event(long_words).error), 95);
}

static void other_data_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "[DONE", "null", "[]", "{\"a\":", "hello", "5"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct chat_event event;
        assert_int_equal(chat_event_read(texts[i], strlen(texts[i]), &event), RESULT_CORRUPT);
    }
    char deep[20000];
    memset(deep, '[', sizeof deep);
    struct chat_event event;
    assert_int_equal(chat_event_read(deep, sizeof deep, &event), RESULT_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_what_a_reader_sees),
        cmocka_unit_test(ends_and_usage_are_seen),
        cmocka_unit_test(errors_carry_their_words),
        cmocka_unit_test(other_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
