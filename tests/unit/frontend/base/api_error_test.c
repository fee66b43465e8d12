/*
 * The error object of OpenAI's shape, alone and as an event.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/base/api_error.h"

static void expect_json(const struct api_error *error, const char *expected)
{
    struct text_buffer out = {0};
    api_error_write_json(error, &out);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
}

static void the_type_follows_from_the_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *type;
    } cases[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                 {403, "permission_error"},      {404, "invalid_request_error"},
                 {429, "rate_limit_error"},      {499, "invalid_request_error"},
                 {500, "server_error"},          {503, "server_error"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_error error;
        assert_int_equal(api_error_set(&error, RESULT_FULL, cases[i].status, NULL, "x"),
                         RESULT_FULL);
        assert_int_equal(error.status, cases[i].status);
        assert_string_equal(error.type, cases[i].type);
    }
}

static void parts_that_are_missing_are_null(void **state)
{
    (void)state;
    struct api_error error;
    assert_int_equal(api_error_memory(&error), RESULT_OUT_OF_MEMORY);
    assert_int_equal(error.status, 500);
    expect_json(&error, "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                        "\"param\":null,\"code\":null}}");
    assert_int_equal(api_error_invalid(&error, "a[1]", "%d is too many", 3), RESULT_INVALID);
    expect_json(&error, "{\"error\":{\"message\":\"3 is too many\",\"type\":"
                        "\"invalid_request_error\",\"param\":\"a[1]\",\"code\":null}}");
}

static void an_event_holds_the_object_on_one_line(void **state)
{
    (void)state;
    struct api_error error;
    struct text_buffer out = {0};
    (void)api_error_set(&error, RESULT_FULL, 429, "queue_full", "two\nlines, \xe2\x82");
    api_error_write_event(&error, &out);
    assert_string_equal(out.bytes, "data: {\"error\":{\"message\":\"two\\nlines, \xef\xbf\xbd\","
                                   "\"type\":\"rate_limit_error\",\"param\":null,\"code\":"
                                   "\"queue_full\"}}\n\n");
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_type_follows_from_the_status),
        cmocka_unit_test(parts_that_are_missing_are_null),
        cmocka_unit_test(an_event_holds_the_object_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
