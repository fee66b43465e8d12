/*
 * Ollama's keep_alive. Durations are those of Go's time.ParseDuration (its documentation), in
 * milliseconds; a whole number of seconds is read too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/api/generation/keep_alive.h"

/* The duration of `value`, JSON; -2: it is refused; -3: it is not given. */
static int64_t read_value(const char *value)
{
    struct api_error error;
    char text[4096];
    bool given;
    int64_t keep_ms;
    snprintf(text, sizeof text, "{\"keep_alive\":%s}", value);
    cJSON *body = cJSON_Parse(text);
    assert_non_null(body);
    enum result result = keep_alive_read(body, &given, &keep_ms, &error);
    cJSON_Delete(body);
    if (result != RESULT_OK)
        assert_string_equal(error.param, "keep_alive");
    return result != RESULT_OK ? -2 : given ? keep_ms : -3;
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t keep_ms;
    } cases[] = {{"null", -3},
                 {"0", 0},
                 {"300", 300000},
                 {"0.25", 250},
                 {"-1", KEEP_ALIVE_FOREVER},
                 {"-0.001", KEEP_ALIVE_FOREVER},
                 {"1e300", KEEP_ALIVE_MOST_MS},
                 {"\"0\"", 0},
                 {"\"-1\"", KEEP_ALIVE_FOREVER},
                 {"\"90\"", 90000},
                 {"\"5m\"", 300000},
                 {"\"1h30m\"", 5400000},
                 {"\"1h15m30.918s\"", 4530918},
                 {"\"300ms\"", 300},
                 {"\"1.5h\"", 5400000},
                 {"\".5s\"", 500},
                 {"\"1.s\"", 1000},
                 {"\"+2s\"", 2000},
                 {"\"-2s\"", KEEP_ALIVE_FOREVER},
                 {"\"2000us\"", 2},
                 {"\"2000\\u00b5s\"", 2},
                 {"\"2000\\u03bcs\"", 2},
                 {"\"5000000ns\"", 5},
                 {"\"99999999999999999999999999h\"", KEEP_ALIVE_MOST_MS},
                 {"\"\"", -2},
                 {"\"-\"", -2},
                 {"\"5x\"", -2},
                 {"\"m\"", -2},
                 {"\"5m3\"", -2},
                 {"\"1.5\"", -2},
                 {"\"1..5s\"", -2},
                 {"\" 5m\"", -2},
                 {"\"5 m\"", -2},
                 {"\"--5m\"", -2},
                 {"true", -2},
                 {"{}", -2},
                 {"[5]", -2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (read_value(cases[i].value) != cases[i].keep_ms)
            fail_msg("%s: %lld", cases[i].value, (long long)read_value(cases[i].value));
}

/* h, m and s drawn: the sum is exact. */
static void drawn_durations_are_sums(void **state)
{
    (void)state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 200; i++) {
        int64_t hours = rand() % 1000, minutes = rand() % 100, ms = rand() % 100000;
        char value[80];
        snprintf(value, sizeof value, "\"%dh%dm%dms\"", (int)hours, (int)minutes, (int)ms);
        assert_int_equal(read_value(value), hours * 3600000 + minutes * 60000 + ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(drawn_durations_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
