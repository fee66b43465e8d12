/*
 * A line is composed in one bounded buffer and written with one write(2), so that lines of several
 * threads and of the worker, which inherits standard error, never interleave.
 *
 * Values come from clients and checkpoints: whatever they hold, a line stays one line, a JSON line
 * stays valid JSON in valid UTF-8, and no value can look like another field. So every byte that is
 * not printable ASCII goes through escape(), and a value that does not fit is cut (or left out)
 * before the line's end, never in the middle of an escape.
 */
#include "proto/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/limits.h"

#define LINE_BYTES 8192u /* escaped fields of the longest event: some twelve, two of them long */
#define END_BYTES  4u    /* what closes a line: quote, brace, line end */

static const char *log_process = "shoal";
static enum log_level log_threshold = LOG_INFO;
static enum log_format log_style = LOG_FORMAT_TEXT;
static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};

struct line {
    char bytes[LINE_BYTES];
    size_t length;
};

void log_init(const char *process, enum log_level level)
{
    log_process = process;
    log_threshold = level;
}

void log_set_format(enum log_format format)
{
    log_style = format;
}

static int name_find(const char *const names[], unsigned count, const char *text)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    }
    return -1;
}

int log_level_parse(const char *text, enum log_level *level)
{
    int found = name_find(level_names, sizeof level_names / sizeof level_names[0], text);
    if (found >= 0)
        *level = (enum log_level)found;
    return found >= 0 ? 0 : -1;
}

int log_format_parse(const char *text, enum log_format *format)
{
    int found = name_find(format_names, sizeof format_names / sizeof format_names[0], text);
    if (found >= 0)
        *format = (enum log_format)found;
    return found >= 0 ? 0 : -1;
}

/* All of `text`, or nothing when it does not fit. */
static bool append(struct line *line, const char *text, size_t count)
{
    if (line->length + count > LINE_BYTES - END_BYTES)
        return false;
    memcpy(line->bytes + line->length, text, count);
    line->length += count;
    return true;
}

static bool append_text(struct line *line, const char *text)
{
    return append(line, text, strlen(text));
}

/* Bytes of the valid UTF-8 character at `text`, 0 when there is none. Names and prompts may be in
 * any script, so that they are not escaped beyond need. */
static size_t character_bytes(const unsigned char *text)
{
    unsigned char lead = text[0];
    size_t bytes = lead < 0x80                   ? 1
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                   : (lead & 0xf0) == 0xe0       ? 3
                                                 : 4;
    if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4))
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
    bool beyond = (lead == 0xed && text[1] > 0x9f) || (lead == 0xf4 && text[1] > 0x8f);
    /* U+0080 to U+009F are control characters, some of them line ends to some readers. */
    bool control = lead == 0xc2 && text[1] < 0xa0;
    return overlong || beyond || control ? 0 : bytes;
}

/* One character of `text` as it stands inside quotes; returns the bytes it took of `text`, 0 when
 * the line is full. */
static size_t escape(struct line *line, const unsigned char *text)
{
    char code[8];
    size_t bytes = character_bytes(text);
    if (text[0] == '"' || text[0] == '\\') {
        code[0] = '\\';
        code[1] = (char)text[0];
        return append(line, code, 2) ? 1 : 0;
    }
    /* U+2028 and U+2029 end lines in JavaScript. */
    bool separator = bytes == 3 && text[0] == 0xe2 && text[1] == 0x80 && (text[2] & 0xfe) == 0xa8;
    if (bytes > 0 && text[0] >= 0x20 && text[0] != 0x7f && !separator)
        return append(line, (const char *)text, bytes) ? bytes : 0;
    snprintf(code, sizeof code, "\\u%04x", separator ? 0x2000u + (text[2] & 0x3fu) : text[0]);
    return append(line, code, 6) ? (separator ? 3 : 1) : 0;
}

static void append_quoted(struct line *line, const char *text, size_t most_bytes)
{
    if (!append(line, "\"", 1))
        return;
    for (size_t at = 0; text[at] != '\0' && at < most_bytes;) {
        size_t taken = escape(line, (const unsigned char *)text + at);
        if (taken == 0)
            break;
        at += taken;
    }
    line->bytes[line->length++] = '"'; /* END_BYTES keeps room */
}

/* Text lines quote only what would be ambiguous without. */
static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text <= 0x20 || *text >= 0x7f || *text == '"' || *text == '\\' || *text == '=')
            return false;
    }
    return true;
}

static void append_field(struct line *line, const struct log_field *field)
{
    if (field->kind == LOG_FIELD_TEXT && !field->text)
        return;
    bool json = log_style == LOG_FORMAT_JSON;
    size_t start = line->length;
    bool fits = append_text(line, json ? ",\"" : " ") && append_text(line, field->name) &&
                append_text(line, json ? "\":" : "=");
    char number[48];
    if (field->kind == LOG_FIELD_WHOLE)
        snprintf(number, sizeof number, "%lld", (long long)field->whole);
    else if (field->kind == LOG_FIELD_REAL)
        snprintf(number, sizeof number, "%.3f", field->real);
    if (fits && field->kind != LOG_FIELD_TEXT)
        fits = append_text(line, number);
    else if (fits && !json && strlen(field->text) <= LIMIT_LOG_VALUE_BYTES && is_plain(field->text))
        fits = append_text(line, field->text);
    else if (fits && line->length + 2 <= LINE_BYTES - END_BYTES)
        append_quoted(line, field->text, LIMIT_LOG_VALUE_BYTES);
    else
        fits = false;
    if (!fits)
        line->length = start;
}

static void line_begin(struct line *line, enum log_level level)
{
    struct timespec now;
    struct tm utc;
    char time_text[96];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    /* Not strftime(), which looks at /etc/localtime: a sandboxed process may open no file. */
    snprintf(time_text, sizeof time_text, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ",
             utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             now.tv_nsec / 1000000);
    bool json = log_style == LOG_FORMAT_JSON;
    int length = snprintf(line->bytes, sizeof line->bytes,
                          json ? "{\"ts\":\"%s\",\"level\":\"%s\",\"process\":\"%.40s\",\"event\":"
                               : "%s %s %.40s: ",
                          time_text, level_names[level], log_process);
    line->length = (size_t)length;
}

static void line_end(struct line *line)
{
    if (log_style == LOG_FORMAT_JSON)
        line->bytes[line->length++] = '}';
    line->bytes[line->length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line->bytes, line->length);
    (void)ignored;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    char words[LIMIT_LOG_WORDS_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (length < 0)
        words[0] = '\0';
    struct line line;
    line_begin(&line, level);
    if (log_style == LOG_FORMAT_JSON) {
        (void)append_text(&line, "\"message\",\"message\":");
        append_quoted(&line, words, sizeof words);
    } else {
        for (char *at = words; *at; at++) {
            if ((unsigned char)*at < 0x20 || *at == 0x7f)
                *at = ' ';
        }
        (void)append_text(&line, words);
    }
    line_end(&line);
}

void log_event(enum log_level level, const char *event, const struct log_field fields[],
               size_t field_count)
{
    if (level > log_threshold)
        return;
    struct line line;
    line_begin(&line, level);
    if (log_style == LOG_FORMAT_JSON)
        append_quoted(&line, event, LIMIT_LOG_VALUE_BYTES);
    else
        (void)append_text(&line, event);
    for (size_t i = 0; i < field_count; i++)
        append_field(&line, &fields[i]);
    line_end(&line);
}
