/*
 * Log lines: one line whatever the values hold, JSON that stays JSON, fields that cannot be forged,
 * bounds that cut between characters.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"

static char written[65536];
static FILE *sink;
static int saved_stderr;

/* Standard error goes to a file from here to captured(). */
static void capture(enum log_format format)
{
    log_init("test", LOG_INFO);
    log_set_format(format);
    sink = tmpfile();
    assert_non_null(sink);
    saved_stderr = dup(STDERR_FILENO);
    assert_int_equal(dup2(fileno(sink), STDERR_FILENO), STDERR_FILENO);
}

/* What was written since, as text. */
static const char *captured(void)
{
    assert_int_equal(dup2(saved_stderr, STDERR_FILENO), STDERR_FILENO);
    close(saved_stderr);
    rewind(sink);
    size_t count = fread(written, 1, sizeof written - 1, sink);
    written[count] = '\0';
    fclose(sink);
    log_set_format(LOG_FORMAT_TEXT);
    return written;
}

/* The line behind its time stamp. */
static const char *behind_time(const char *line)
{
    const char *level = strstr(line, "info");
    assert_non_null(level);
    return level;
}

static void text_events_quote_only_what_needs_it(void **state)
{
    (void)state;
    capture(LOG_FORMAT_TEXT);
    const struct log_field fields[] = {
        LOG_TEXT("request_id", "req-1"),  LOG_WHOLE("status", 200), LOG_REAL("duration_ms", 1.25),
        LOG_TEXT("path", "/a b\n=\"x\""), LOG_TEXT("absent", NULL), LOG_TEXT("empty", "")};
    log_event(LOG_INFO, "request", fields, sizeof fields / sizeof fields[0]);
    assert_string_equal(behind_time(captured()),
                        "info test: request request_id=req-1 status=200 duration_ms=1.250 "
                        "path=\"/a b\\u000a=\\\"x\\\"\" empty=\"\"\n");
}

static void json_events_are_one_object_a_line(void **state)
{
    (void)state;
    capture(LOG_FORMAT_JSON);
    const struct log_field fields[] = {LOG_TEXT("request_id", "req-1"), LOG_WHOLE("status", -3),
                                       LOG_REAL("duration_ms", 0.5), LOG_TEXT("absent", NULL)};
    log_event(LOG_INFO, "request", fields, 4);
    const char *line = captured();
    assert_int_equal(strncmp(line, "{\"ts\":\"2", 8), 0);
    assert_string_equal(strstr(line, ",\"level\""),
                        ",\"level\":\"info\",\"process\":\"test\",\"event\":\"request\","
                        "\"request_id\":\"req-1\",\"status\":-3,\"duration_ms\":0.500}\n");
}

static void hostile_values_stay_values(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *written;
    } cases[] = {
        {"a\"},{\"level\":\"error", "\"a\\\"},{\\\"level\\\":\\\"error\"}\n"},
        {"line\r\nend\t\x1b[31m\x7f", "\"line\\u000d\\u000aend\\u0009\\u001b[31m\\u007f\"}\n"},
        {"back\\slash", "\"back\\\\slash\"}\n"},
        {"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", "\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\"}\n"},
        /* not UTF-8: lone bytes, overlong, surrogate, beyond the last, cut short */
        {"\x80\xff", "\"\\u0080\\u00ff\"}\n"},
        {"\xc0\xaf", "\"\\u00c0\\u00af\"}\n"},
        {"\xe0\x80\xaf", "\"\\u00e0\\u0080\\u00af\"}\n"},
        {"\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"}\n"},
        {"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"}\n"},
        {"\xe6\xbc", "\"\\u00e6\\u00bc\"}\n"},
        {"\xf0\x9f\x98", "\"\\u00f0\\u009f\\u0098\"}\n"},
        /* characters that some readers take for line ends */
        {"\xc2\x85", "\"\\u00c2\\u0085\"}\n"},
        {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa6", "\"\\u2028\\u2029\xe2\x80\xa6\"}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        capture(LOG_FORMAT_JSON);
        const struct log_field field = LOG_TEXT("v", cases[i].value);
        log_event(LOG_INFO, "e", &field, 1);
        assert_string_equal(strstr(captured(), "\"v\":") + 4, cases[i].written);
    }
}

static void words_become_a_message(void **state)
{
    (void)state;
    capture(LOG_FORMAT_JSON);
    log_info("worker \"%s\"\n", "x");
    assert_non_null(
        strstr(captured(), "\"event\":\"message\",\"message\":\"worker \\\"x\\\"\\u000a\"}\n"));
    capture(LOG_FORMAT_TEXT);
    log_info("two\nlines");
    assert_string_equal(behind_time(captured()), "info test: two lines\n");
}

static void long_lines_are_cut_and_stay_whole(void **state)
{
    (void)state;
    static char long_value[20000];
    memset(long_value, '\x01', sizeof long_value - 1);
    struct log_field fields[40];
    for (size_t i = 0; i < 40; i++)
        fields[i] = LOG_TEXT("field", long_value);
    capture(LOG_FORMAT_JSON);
    log_event(LOG_INFO, "e", fields, 40);
    const char *line = captured();
    size_t length = strlen(line);
    assert_true(length > 4 * LIMIT_LOG_VALUE_BYTES && length <= 8192);
    assert_string_equal(line + length - 9, "\\u0001\"}\n");
    /* Every field is closed, and one value is not longer than its bound. */
    const char *first = strstr(line, "\"field\":\"") + 9;
    assert_int_equal(strchr(first, '"') - first, 6 * LIMIT_LOG_VALUE_BYTES);

    capture(LOG_FORMAT_JSON);
    log_info("%s", long_value);
    line = captured();
    length = strlen(line);
    assert_true(length <= 8192);
    assert_string_equal(line + length - 9, "\\u0001\"}\n");
    assert_null(memchr(line, '\n', length - 1));
}

static void levels_and_formats_are_read(void **state)
{
    (void)state;
    enum log_level level = LOG_WARN;
    enum log_format format = LOG_FORMAT_TEXT;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("loud", &level), -1);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_format_parse("json", &format), 0);
    assert_int_equal(format, LOG_FORMAT_JSON);
    assert_int_equal(log_format_parse("xml", &format), -1);
    capture(LOG_FORMAT_JSON);
    log_debug("nobody hears this");
    log_event(LOG_DEBUG, "nor this", NULL, 0);
    assert_string_equal(captured(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_events_quote_only_what_needs_it),
        cmocka_unit_test(json_events_are_one_object_a_line),
        cmocka_unit_test(hostile_values_stay_values),
        cmocka_unit_test(words_become_a_message),
        cmocka_unit_test(long_lines_are_cut_and_stay_whole),
        cmocka_unit_test(levels_and_formats_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
