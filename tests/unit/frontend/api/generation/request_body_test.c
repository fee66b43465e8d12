/*
 * Bodies that are refused leave nothing behind: under a leak sanitizer this test fails if one does.
 */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/api/generation/request_fields.h"

static void test_refused_bodies(void **state)
{
    (void)state;
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "7",
                                         "null",
                                         "\"text\"",
                                         "{\"a\":1,\"a\":2}",
                                         "x",
                                         "{} ",
                                         "{\"a\":{}",
                                         "[{\"a\":1}]",
                                         "{\"a\":{\"b\":1,\"c\":2,\"b\":3}}"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        cJSON *body = (cJSON *)(uintptr_t)bodies; /* not NULL */
        struct api_error error;
        bool good = strcmp(bodies[i], "{} ") == 0;
        enum result result = request_fields_read_body(bodies[i], strlen(bodies[i]), &body, &error);
        assert_int_equal(result == RESULT_OK, good);
        assert_int_equal(body != NULL, good);
        if (!good)
            assert_int_equal(error.status, 400);
        cJSON_Delete(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused_bodies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
