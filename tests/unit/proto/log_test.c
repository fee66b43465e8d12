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
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "proto/limits.h"
#include "proto/log.h"

#define LINE_BYTES 8192u /* the longest line, with END_BYTES that close it */
#define END_BYTES  4u
#define HEAD_BYTES (sizeof "2000-01-01T00:00:00.000Z info test: " - 1)

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

static void any_value_stays_one_value(void **state)
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
        /* the first and last characters of 2, 3 and 4 bytes, and their invalid neighbours */
        {"\xc2\xa0\xdf\xbf", "\"\xc2\xa0\xdf\xbf\"}\n"},
        {"\xc1\xbf", "\"\\u00c1\\u00bf\"}\n"},
        {"\xe0\xa0\x80\xef\xbf\xbf", "\"\xe0\xa0\x80\xef\xbf\xbf\"}\n"},
        {"\xe0\x9f\xbf", "\"\\u00e0\\u009f\\u00bf\"}\n"},
        {"\xe1\x80\x80\xee\x80\x80", "\"\xe1\x80\x80\xee\x80\x80\"}\n"},
        {"\xed\x9f\xbf", "\"\xed\x9f\xbf\"}\n"},
        {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"}\n"},
        {"\xf0\x8f\xbf\xbf", "\"\\u00f0\\u008f\\u00bf\\u00bf\"}\n"},
        {"\xf1\x80\x80\x80", "\"\xf1\x80\x80\x80\"}\n"},
        {"\xf5\x80\x80\x80", "\"\\u00f5\\u0080\\u0080\\u0080\"}\n"},
        {"\xe2\x80\x7f", "\"\\u00e2\\u0080\\u007f\"}\n"},
        /* bytes that begin no character, before those that could continue one */
        {"\x80\x80\x80\x80", "\"\\u0080\\u0080\\u0080\\u0080\"}\n"},
        {"\xc1\xbf\xbf\xbf", "\"\\u00c1\\u00bf\\u00bf\\u00bf\"}\n"},
        {"\xc3z", "\"\\u00c3z\"}\n"},
        {"\xc2\xa0z", "\"\xc2\xa0z\"}\n"},
        /* the first and last printable ASCII characters */
        {" ~", "\" ~\"}\n"},
        {"\x1f", "\"\\u001f\"}\n"},
        /* C1 control characters up to U+009F */
        {"\xc2\x9f", "\"\\u00c2\\u009f\"}\n"},
        /* neighbours of the separators */
        {"\xe2\x80\xa7\xe2\x80\xaa\xe2\x81\xa8", "\"\xe2\x80\xa7\xe2\x80\xaa\xe2\x81\xa8\"}\n"},
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

static void text_values_are_quoted_by_their_characters(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *written;
    } cases[] = {
        {"!~", "v=!~\n"},         {"a b", "v=\"a b\"\n"},   {"a\x7f", "v=\"a\\u007f\"\n"},
        {"a\"", "v=\"a\\\"\"\n"}, {"a\\", "v=\"a\\\\\"\n"}, {"a=b", "v=\"a=b\"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        capture(LOG_FORMAT_TEXT);
        const struct log_field field = LOG_TEXT("v", cases[i].value);
        log_event(LOG_INFO, "e", &field, 1);
        assert_string_equal(strstr(captured(), "v="), cases[i].written);
    }
}

/* A value of the largest size is written plain; a longer one is cut there. */
static void long_text_values_are_cut(void **state)
{
    (void)state;
    char value[LIMIT_LOG_VALUE_BYTES + 2];
    const struct log_field field = LOG_TEXT("v", value);
    for (size_t extra = 0; extra < 2; extra++) {
        memset(value, 'a', sizeof value);
        value[LIMIT_LOG_VALUE_BYTES + extra] = '\0';
        capture(LOG_FORMAT_TEXT);
        log_event(LOG_INFO, "e", &field, 1);
        const char *found = strstr(captured(), "v=") + 2;
        assert_int_equal(strspn(found + extra, "a"), LIMIT_LOG_VALUE_BYTES);
        assert_string_equal(found + extra + LIMIT_LOG_VALUE_BYTES, extra ? "\"\n" : "\n");
    }
}

/* The time stamp is the clock's, to the millisecond, and each level has its name. */
static void lines_begin_with_time_and_level(void **state)
{
    (void)state;
    static const char *const names[] = {"error", "warn", "info"};
    for (enum log_level level = LOG_ERROR; level <= LOG_INFO; level++) {
        time_t before = time(NULL);
        capture(LOG_FORMAT_TEXT);
        log_write(level, "words %d\x1f\x7f~", 5);
        const char *line = captured();
        time_t after = time(NULL);
        struct tm tm = {0};
        int read = 0;
        unsigned ms = 1000;
        char name[8] = "";
        char rest[64] = "";
        assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3uZ%n %7s %63[^\n]", &tm.tm_year,
                                &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms,
                                &read, name, rest),
                         9);
        tm.tm_year -= 1900;
        tm.tm_mon -= 1;
        time_t stamp = timegm(&tm);
        assert_true(stamp >= before && stamp <= after);
        assert_int_equal(read, 24);
        assert_string_equal(name, names[level]);
        assert_string_equal(rest, "test: words 5  ~");
    }
}

static void a_text_becomes_a_message(void **state)
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

/* Fills a text line up to `room` bytes before its end with the event's name. */
static void log_full_line(size_t room, const struct log_field *fields, size_t field_count)
{
    static char name[LINE_BYTES];
    size_t name_bytes = LINE_BYTES - END_BYTES - HEAD_BYTES - room;
    memset(name, 'e', sizeof name);
    name[name_bytes] = '\0';
    capture(LOG_FORMAT_TEXT);
    log_event(LOG_INFO, name, fields, field_count);
}

/* What follows the event's name in a line of log_full_line(). */
static const char *behind_name(const char *line)
{
    const char *name = line + HEAD_BYTES;
    return name + strspn(name, "e");
}

/* An event's name may use the line up to the bytes that close it; a longer one is left out. */
static void names_fill_the_line(void **state)
{
    (void)state;
    log_full_line(0, NULL, 0);
    assert_int_equal(strlen(captured()), LINE_BYTES - END_BYTES + 1);
    static char name[LINE_BYTES];
    memset(name, 'e', LINE_BYTES - END_BYTES - HEAD_BYTES + 1);
    capture(LOG_FORMAT_TEXT);
    log_event(LOG_INFO, name, NULL, 0);
    assert_string_equal(behind_time(captured()), "info test: \n");
}

/* A field is written if its name and a plain value, or the quotes, fit; its characters while each
 * of them fits. */
static void fields_at_the_end_of_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        size_t room;
        const char *written;
    } cases[] = {
        {"ab", 5, " v=ab\n"},
        {"ab", 4, "\n"},
        {"", 5, " v=\"\"\n"},
        {"", 4, "\n"},
        /* room for all, for the first two characters, and for a character after one that is too long */
        {"a \"c", 9, " v=\"a \\\"c\"\n"},
        {"a \"c", 7, " v=\"a \"\n"},
        {" \001c", 11, " v=\" \\u0001\"\n"},
        {" \001c", 9, " v=\" \"\n"},
        {" \xe6\xbc\xa2z", 7, " v=\" \"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct log_field field = LOG_TEXT("v", cases[i].value);
        log_full_line(cases[i].room, &field, 1);
        assert_string_equal(behind_name(captured()), cases[i].written);
    }
}

/* A wide character that the locale lacks makes the formatting fail. */
static void words_that_cannot_be_formatted_are_empty(void **state)
{
    (void)state;
    capture(LOG_FORMAT_TEXT);
    log_write(LOG_INFO, "ab%lc", (wint_t)0xd800);
    assert_string_equal(behind_time(captured()), "info test: \n");
}

static void levels_and_formats_are_read(void **state)
{
    (void)state;
    enum log_level level = LOG_WARN;
    enum log_format format = LOG_FORMAT_TEXT;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("error", &level), 0);
    assert_int_equal(level, LOG_ERROR);
    assert_int_equal(log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(log_level_parse("info", &level), 0);
    assert_int_equal(level, LOG_INFO);
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(log_level_parse("loud", &level), -1);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_format_parse("json", &format), 0);
    assert_int_equal(format, LOG_FORMAT_JSON);
    assert_int_equal(log_format_parse("xml", &format), -1);
    assert_int_equal(format, LOG_FORMAT_JSON);
    assert_int_equal(log_format_parse("text", &format), 0);
    assert_int_equal(format, LOG_FORMAT_TEXT);
    capture(LOG_FORMAT_JSON);
    log_debug("below the level");
    log_event(LOG_DEBUG, "nor this", NULL, 0);
    assert_string_equal(captured(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_events_quote_only_what_needs_it),
        cmocka_unit_test(json_events_are_one_object_a_line),
        cmocka_unit_test(any_value_stays_one_value),
        cmocka_unit_test(text_values_are_quoted_by_their_characters),
        cmocka_unit_test(long_text_values_are_cut),
        cmocka_unit_test(lines_begin_with_time_and_level),
        cmocka_unit_test(a_text_becomes_a_message),
        cmocka_unit_test(long_lines_are_cut_and_stay_whole),
        cmocka_unit_test(names_fill_the_line),
        cmocka_unit_test(fields_at_the_end_of_a_line),
        cmocka_unit_test(words_that_cannot_be_formatted_are_empty),
        cmocka_unit_test(levels_and_formats_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
