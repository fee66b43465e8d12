/*
 * Errors in Anthropic's shape: types by status, the place before the message, valid JSON for any
 * quoted bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/api/messages/messages_error.h"

static void every_status_has_its_type(void **state)
{
    (void)state;
    static const struct {
        int status;
        int shown;
        const char *body;
    } cases[] = {
        {400, 400, "invalid_request_error"},
        {401, 401, "authentication_error"},
        {403, 403, "permission_error"},
        {404, 404, "not_found_error"},
        {405, 405, "invalid_request_error"},
        {408, 408, "timeout_error"},
        {413, 413, "request_too_large"},
        {429, 429, "rate_limit_error"},
        {500, 500, "api_error"},
        {503, 529, "overloaded_error"},
        {504, 504, "timeout_error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_error error;
        struct text_buffer out = {0};
        struct text_buffer expected = {0};
        (void)api_error_set(&error, RESULT_FULL, cases[i].status, "some_code", "no");
        assert_int_equal(messages_error_write(&error, "req-1", &out), cases[i].shown);
        text_buffer_append_format(&expected,
                                  "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":"
                                  "\"no\",\"details\":{\"error_code\":\"some_code\"}},"
                                  "\"request_id\":\"req-1\"}",
                                  cases[i].body);
        assert_string_equal(out.bytes, expected.bytes);
        text_buffer_fini(&out);
        text_buffer_fini(&expected);
    }
}

static void the_place_comes_before_the_message_once(void **state)
{
    (void)state;
    struct api_error error;
    struct text_buffer out = {0};
    (void)api_error_invalid(&error, "messages[2].content", "bad \xc3 byte and \"quotes\"");
    (void)messages_error_write(&error, "r\"1", &out);
    assert_string_equal(
        out.bytes, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
                   "\"messages[2].content: bad \xef\xbf\xbd byte and \\\"quotes\\\"\"},"
                   "\"request_id\":\"r\\\"1\"}");
    text_buffer_clear(&out);
    (void)api_error_invalid(&error, "top_k", "top_k must be an integer");
    (void)messages_error_write(&error, "r", &out);
    assert_string_equal(
        out.bytes, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
                   "\"top_k must be an integer\"},\"request_id\":\"r\"}");
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_type),
        cmocka_unit_test(the_place_comes_before_the_message_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
