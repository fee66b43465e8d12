/*
 * A cursor over JSON text.
 *
 * The caller asks for the kind of value that it expects; another kind is a failure. Strings
 * are checked in full (escapes, surrogate pairs, UTF-8), because vocabularies are made of them.
 * Skipping checks brackets, strings and depth only: what is skipped is either never read or read
 * again by something that checks the rest. Checking is strict about all of it. Neither recurses.
 */
#include "proto/json_reader.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/utf8.h"

#define NUMBER_BYTES 64u /* of a number that is read; a double prints in 25 */

struct json_reader json_reader_open(const char *json, size_t json_bytes)
{
    return (struct json_reader){.at = json, .end = json ? json + json_bytes : NULL};
}

static void fail(struct json_reader *reader)
{
    reader->failed = true;
    reader->at = reader->end;
}

static void skip_space(struct json_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

char json_reader_peek(struct json_reader *reader)
{
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : 0;
}

static bool take(struct json_reader *reader, char expected)
{
    if (json_reader_peek(reader) != expected) {
        fail(reader);
        return false;
    }
    reader->at++;
    return true;
}

void json_reader_enter(struct json_reader *reader, char bracket)
{
    reader->fresh = take(reader, bracket);
}

/* Comma or closing bracket; true when another element follows. */
static bool next_in(struct json_reader *reader, char closing)
{
    if (reader->failed)
        return false;
    if (json_reader_peek(reader) == closing) {
        reader->at++;
        reader->fresh = false;
        return false;
    }
    if (!reader->fresh && !take(reader, ','))
        return false;
    reader->fresh = false;
    if (json_reader_peek(reader) == 0 || *reader->at == closing)
        fail(reader);
    return !reader->failed;
}

bool json_reader_next_element(struct json_reader *reader)
{
    return next_in(reader, ']');
}

bool json_reader_next_member(struct json_reader *reader, char *name, size_t capacity,
                             size_t *name_bytes)
{
    *name_bytes = 0;
    if (!next_in(reader, '}'))
        return false;
    *name_bytes = json_reader_string(reader, name, capacity);
    take(reader, ':');
    return !reader->failed;
}

/* Four hexadecimal digits; UINT32_MAX on failure. */
static uint32_t read_hex(struct json_reader *reader)
{
    uint32_t value = 0;
    if (reader->end - reader->at < 4)
        return UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        char digit = *reader->at++;
        uint32_t nibble = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                          : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10)
                          : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A' + 10)
                                                         : 16;
        if (nibble == 16)
            return UINT32_MAX;
        value = value << 4 | nibble;
    }
    return value;
}

/* The character of an escape, the backslash being read; UINT32_MAX on failure. */
static uint32_t read_escape(struct json_reader *reader)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return UINT32_MAX;
    char letter = *reader->at++;
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        return (uint8_t)meanings[found - letters];
    if (letter != 'u')
        return UINT32_MAX;
    uint32_t code = read_hex(reader);
    if (code < 0xD800 || code > 0xDFFF)
        return code;
    if (code > 0xDBFF || reader->end - reader->at < 6 || reader->at[0] != '\\' ||
        reader->at[1] != 'u')
        return UINT32_MAX;
    reader->at += 2;
    uint32_t low = read_hex(reader);
    if (low < 0xDC00 || low > 0xDFFF)
        return UINT32_MAX;
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

/* One character of a string, unescaped; returns its bytes, 0 when it is none. */
static size_t take_char(struct json_reader *reader, char bytes[UTF8_MAX_CHAR_BYTES])
{
    if (*reader->at == '\\') {
        reader->at++;
        uint32_t code = read_escape(reader);
        return code == UINT32_MAX ? 0 : utf8_encode(code, bytes);
    }
    bool valid;
    size_t count = utf8_scan(reader->at, (size_t)(reader->end - reader->at), &valid);
    memcpy(bytes, reader->at, count);
    reader->at += count;
    return !valid || (uint8_t)bytes[0] < 0x20 ? 0 : count;
}

size_t json_reader_string(struct json_reader *reader, char *text, size_t capacity)
{
    size_t written = 0;
    if (!take(reader, '"'))
        return 0;
    while (reader->at < reader->end && *reader->at != '"') {
        char bytes[UTF8_MAX_CHAR_BYTES];
        size_t count = take_char(reader, bytes);
        if (count == 0 || count > capacity - written) {
            fail(reader);
            return 0;
        }
        memcpy(text + written, bytes, count);
        written += count;
    }
    return take(reader, '"') ? written : 0;
}

static void check_string(struct json_reader *reader)
{
    char bytes[UTF8_MAX_CHAR_BYTES];
    if (!take(reader, '"'))
        return;
    while (reader->at < reader->end && *reader->at != '"') {
        if (take_char(reader, bytes) == 0) {
            fail(reader);
            return;
        }
    }
    take(reader, '"');
}

uint64_t json_reader_u64(struct json_reader *reader)
{
    uint64_t value = 0;
    char first = json_reader_peek(reader);
    if (first < '0' || first > '9')
        fail(reader);
    if (first == '0' && reader->end - reader->at > 1 && reader->at[1] >= '0' &&
        reader->at[1] <= '9')
        fail(reader);
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        uint64_t digit = (uint64_t)(*reader->at++ - '0');
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            fail(reader);
    }
    if (reader->at < reader->end && strchr(".eE", *reader->at) && *reader->at)
        fail(reader);
    return reader->failed ? 0 : value;
}

uint32_t json_reader_u32(struct json_reader *reader)
{
    uint64_t value = json_reader_u64(reader);
    if (value > UINT32_MAX)
        fail(reader);
    return reader->failed ? 0 : (uint32_t)value;
}

static size_t digits_at(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && at[count] >= '0' && at[count] <= '9')
        count++;
    return count;
}

/* Bytes of the number at `at` by JSON's grammar; 0 when there is none. */
static size_t number_bytes(const char *at, const char *end)
{
    const char *next = at < end && *at == '-' ? at + 1 : at;
    size_t digits = digits_at(next, end);
    if (digits == 0 || (digits > 1 && *next == '0'))
        return 0;
    next += digits;
    if (next < end && *next == '.') {
        digits = digits_at(++next, end);
        if (digits == 0)
            return 0;
        next += digits;
    }
    if (next < end && (*next == 'e' || *next == 'E')) {
        next++;
        if (next < end && (*next == '+' || *next == '-'))
            next++;
        digits = digits_at(next, end);
        if (digits == 0)
            return 0;
        next += digits;
    }
    return (size_t)(next - at);
}

double json_reader_f64(struct json_reader *reader)
{
    char text[NUMBER_BYTES];
    skip_space(reader);
    size_t bytes = number_bytes(reader->at, reader->end);
    if (bytes == 0 || bytes >= sizeof text) {
        fail(reader);
        return 0;
    }
    memcpy(text, reader->at, bytes);
    text[bytes] = '\0';
    reader->at += bytes;
    return strtod(text, NULL);
}

bool json_reader_bool(struct json_reader *reader)
{
    skip_space(reader);
    size_t left = (size_t)(reader->end - reader->at);
    if (left >= 4 && memcmp(reader->at, "true", 4) == 0) {
        reader->at += 4;
        return true;
    }
    if (left >= 5 && memcmp(reader->at, "false", 5) == 0)
        reader->at += 5;
    else
        fail(reader);
    return false;
}

static void skip_string(struct json_reader *reader)
{
    for (reader->at++; reader->at < reader->end && *reader->at != '"'; reader->at++) {
        if (*reader->at == '\\' && reader->at + 1 < reader->end)
            reader->at++;
    }
    take(reader, '"');
}

/* A number or a bare word: up to the next structural character. */
static void skip_scalar(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && !memchr(",:]} \n\r\t\"[{", *reader->at, 12))
        reader->at++;
    if (reader->at == start)
        fail(reader);
}

const char *json_reader_skip(struct json_reader *reader, size_t *value_bytes)
{
    char closing[LIMIT_JSON_DEPTH];
    unsigned depth = 0;
    json_reader_peek(reader);
    const char *start = reader->at;
    do {
        char current = json_reader_peek(reader);
        if (current == '"') {
            skip_string(reader);
        } else if ((current == '{' || current == '[') && depth < LIMIT_JSON_DEPTH) {
            closing[depth++] = current == '{' ? '}' : ']';
            reader->at++;
        } else if (depth > 0 && current == closing[depth - 1]) {
            depth--;
            reader->at++;
        } else if (depth > 0 && (current == ',' || current == ':')) {
            reader->at++;
        } else {
            skip_scalar(reader);
        }
    } while (depth > 0 && !reader->failed);
    *value_bytes = reader->failed ? 0 : (size_t)(reader->at - start);
    return start;
}

/* --- strict checking ---------------------------------------------------------------------------
 */

/* Python's json writes numbers that are not finite as bare words, so checkpoints contain them. */
static void check_scalar(struct json_reader *reader)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    size_t left = (size_t)(reader->end - reader->at);
    if (left > 0 && *reader->at == '"') {
        check_string(reader);
        return;
    }
    size_t bytes = number_bytes(reader->at, reader->end);
    for (size_t i = 0; i < sizeof words / sizeof words[0] && bytes == 0; i++)
        if (left >= strlen(words[i]) && memcmp(reader->at, words[i], strlen(words[i])) == 0)
            bytes = strlen(words[i]);
    if (bytes == 0)
        fail(reader);
    else
        reader->at += bytes;
}

static void check_name(struct json_reader *reader)
{
    json_reader_peek(reader);
    const char *start = reader->at;
    check_string(reader);
    if (reader->at - start > LIMIT_JSON_NAME_BYTES)
        fail(reader);
    take(reader, ':');
}

/* After a value: leaves the brackets that close, and goes to the next value; false when the
 * outermost closed. */
static bool check_onward(struct json_reader *reader, const char *closing, unsigned *depth)
{
    while (*depth > 0 && json_reader_peek(reader) == closing[*depth - 1]) {
        reader->at++;
        (*depth)--;
    }
    if (*depth == 0)
        return false;
    if (take(reader, ',') && closing[*depth - 1] == '}')
        check_name(reader);
    return !reader->failed;
}

void json_reader_check(struct json_reader *reader)
{
    char closing[LIMIT_JSON_DEPTH];
    unsigned depth = 0;
    do {
        bool empty = false;
        char current = json_reader_peek(reader);
        while ((current == '{' || current == '[') && depth < LIMIT_JSON_DEPTH && !empty) {
            closing[depth++] = current == '{' ? '}' : ']';
            reader->at++;
            empty = json_reader_peek(reader) == closing[depth - 1];
            if (current == '{' && !empty)
                check_name(reader);
            current = json_reader_peek(reader);
        }
        if (!empty)
            check_scalar(reader);
    } while (!reader->failed && check_onward(reader, closing, &depth));
}
