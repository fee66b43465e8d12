/*
 * JSON from a model, byte by byte.
 *
 * Arguments of a call are streamed while they are written. If the model breaks off or writes
 * invalid JSON, the bytes already sent must still become valid JSON. Hence a pushdown automaton in
 * which every state knows how to finish. The stack is one bit a level, since only objects and lists
 * nest.
 *
 * The scanner keeps no value and decodes nothing; a caller that needs the value parses the whole
 * text.
 */
#include "frontend/reply/json_value_scanner.h"

#include <string.h>

#include "proto/limits.h"

_Static_assert(LIMIT_TOOL_DEPTH <= 64, "one bit of `objects` a level");

enum scan_state {
    TOP, /* before the value */
    MEMBER_VALUE,
    FIRST_KEY, /* after { */
    NEXT_KEY,  /* after a comma */
    COLON,
    FIRST_ITEM, /* after [ */
    NEXT_ITEM,
    AFTER, /* a value in a container */
    STRING,
    ESCAPE, /* after a backslash */
    HEX,
    PAIR,        /* after the escape of a high surrogate */
    PAIR_ESCAPE, /* and a backslash */
    WORD,
    MINUS,
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    OVER
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void emit(struct text_buffer *out, const char *bytes, size_t count)
{
    if (out)
        text_buffer_append(out, bytes, count);
}

static void hold(struct json_value_scanner *s, char byte)
{
    if (s->held_bytes < sizeof s->held)
        s->held[s->held_bytes++] = byte;
}

static void release(struct json_value_scanner *s, struct text_buffer *out)
{
    emit(out, s->held, s->held_bytes);
    s->held_bytes = 0;
}

static bool in_object(const struct json_value_scanner *s)
{
    return (s->objects >> (s->depth - 1) & 1) != 0;
}

/* A value is complete. */
static enum json_scan value_end(struct json_value_scanner *s)
{
    s->state = s->depth > 0 ? AFTER : OVER;
    return s->depth > 0 ? JSON_SCAN_MORE : JSON_SCAN_DONE;
}

static enum json_scan open_container(struct json_value_scanner *s, char byte,
                                     struct text_buffer *out)
{
    if (s->depth >= LIMIT_TOOL_DEPTH)
        return JSON_SCAN_BROKEN;
    uint64_t bit = (uint64_t)1 << s->depth++;
    s->objects = byte == '{' ? s->objects | bit : s->objects & ~bit;
    s->state = byte == '{' ? FIRST_KEY : FIRST_ITEM;
    release(s, out);
    emit(out, &byte, 1);
    return JSON_SCAN_MORE;
}

static enum json_scan close_container(struct json_value_scanner *s, char byte,
                                      struct text_buffer *out)
{
    emit(out, &byte, 1);
    s->depth--;
    return value_end(s);
}

static enum json_scan begin_value(struct json_value_scanner *s, char byte, struct text_buffer *out)
{
    static const char *const words[] = {"true", "false", "null"};
    if (byte == '{' || byte == '[')
        return open_container(s, byte, out);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (byte == words[i][0]) {
            s->word = words[i] + 1;
            s->state = WORD;
        }
    }
    if (byte == '"') {
        s->is_key = false;
        s->state = STRING;
    } else if (byte == '-' || is_digit(byte)) {
        s->state = byte == '-' ? MINUS : byte == '0' ? ZERO : INTEGER;
    } else if (s->state != WORD) {
        return JSON_SCAN_BROKEN;
    }
    release(s, out);
    emit(out, &byte, 1);
    return JSON_SCAN_MORE;
}

/* Between tokens; white space is skipped. */
static enum json_scan structure_push(struct json_value_scanner *s, char byte,
                                     struct text_buffer *out)
{
    switch (s->state) {
    case FIRST_KEY:
    case NEXT_KEY:
        if (byte == '}' && s->state == FIRST_KEY)
            return close_container(s, byte, out);
        if (byte != '"')
            return JSON_SCAN_BROKEN;
        release(s, out);
        emit(out, &byte, 1);
        s->is_key = true;
        s->state = STRING;
        return JSON_SCAN_MORE;
    case COLON:
        if (byte != ':')
            return JSON_SCAN_BROKEN;
        emit(out, &byte, 1);
        s->state = MEMBER_VALUE;
        return JSON_SCAN_MORE;
    case AFTER:
        if (byte == ',') {
            hold(s, byte);
            s->state = in_object(s) ? NEXT_KEY : NEXT_ITEM;
            return JSON_SCAN_MORE;
        }
        if (byte != (in_object(s) ? '}' : ']'))
            return JSON_SCAN_BROKEN;
        return close_container(s, byte, out);
    case FIRST_ITEM:
        if (byte == ']')
            return close_container(s, byte, out);
        return begin_value(s, byte, out);
    default: return begin_value(s, byte, out);
    }
}

static enum json_scan string_push(struct json_value_scanner *s, char byte, struct text_buffer *out)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char c = (unsigned char)byte;
    if (byte == '\\') {
        hold(s, byte);
        s->state = ESCAPE;
        return JSON_SCAN_MORE;
    }
    if (c < 0x20) {
        const char escaped[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
        const char *short_form = byte == '\n'   ? "\\n"
                                 : byte == '\r' ? "\\r"
                                 : byte == '\t' ? "\\t"
                                                : NULL;
        emit(out, short_form ? short_form : escaped, short_form ? 2 : sizeof escaped);
        return JSON_SCAN_MORE;
    }
    emit(out, &byte, 1);
    if (byte != '"')
        return JSON_SCAN_MORE;
    if (!s->is_key)
        return value_end(s);
    s->state = COLON;
    return JSON_SCAN_MORE;
}

/* A complete \uXXXX is held, perhaps after a high surrogate. */
static void unicode_end(struct json_value_scanner *s, struct text_buffer *out)
{
    uint32_t code = 0;
    const char *digits = s->held + s->held_bytes - 4;
    for (int i = 0; i < 4; i++) {
        char c = digits[i];
        code = code * 16 + (uint32_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    bool is_high = code >= 0xd800 && code < 0xdc00;
    bool is_low = code >= 0xdc00 && code < 0xe000;
    if (s->is_pair && !is_low) {
        emit(out, "\\ufffd", 6);
        memmove(s->held, s->held + 6, 6);
        s->held_bytes = 6;
    }
    s->state = is_high ? PAIR : STRING;
    if (is_high)
        return;
    if (is_low && !s->is_pair) {
        s->held_bytes = 0;
        emit(out, "\\ufffd", 6);
    }
    release(s, out);
}

/* The escape is invalid: its backslash stands for itself. */
static enum json_scan escape_repair(struct json_value_scanner *s, char byte,
                                    struct text_buffer *out)
{
    size_t begin = s->is_pair ? 6 : 0;
    if (s->is_pair)
        emit(out, "\\ufffd", 6);
    emit(out, "\\", 1);
    emit(out, s->held + begin, s->held_bytes - begin);
    s->held_bytes = 0;
    s->state = STRING;
    return string_push(s, byte, out);
}

static enum json_scan escape_push(struct json_value_scanner *s, char byte, struct text_buffer *out)
{
    switch (s->state) {
    case ESCAPE:
        s->is_pair = false;
        if (byte != 'u' && (byte == '\0' || !strchr("\"\\/bfnrt", byte)))
            return escape_repair(s, byte, out);
        hold(s, byte);
        s->state = byte == 'u' ? HEX : STRING;
        if (byte != 'u')
            release(s, out);
        return JSON_SCAN_MORE;
    case HEX:
        if (!is_digit(byte) && !((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'))
            return escape_repair(s, byte, out);
        hold(s, byte);
        if (s->held_bytes == (s->is_pair ? 12 : 6))
            unicode_end(s, out);
        return JSON_SCAN_MORE;
    case PAIR:
        if (byte == '\\') {
            hold(s, byte);
            s->state = PAIR_ESCAPE;
            return JSON_SCAN_MORE;
        }
        break;
    case PAIR_ESCAPE:
        if (byte == 'u') {
            hold(s, byte);
            s->is_pair = true;
            s->state = HEX;
            return JSON_SCAN_MORE;
        }
        break;
    default: break;
    }
    /* A lone high surrogate, followed by other text. */
    emit(out, "\\ufffd", 6);
    bool has_backslash = s->state == PAIR_ESCAPE;
    s->held_bytes = 0;
    s->state = STRING;
    if (has_backslash)
        (void)string_push(s, '\\', out);
    return has_backslash ? escape_push(s, byte, out) : string_push(s, byte, out);
}

/* The next state of a number for this byte, or OVER if the number ends before it. */
static enum scan_state number_step(enum scan_state state, char byte)
{
    bool digit = is_digit(byte);
    bool exponent = byte == 'e' || byte == 'E';
    switch (state) {
    case MINUS: return byte == '0' ? ZERO : digit ? INTEGER : OVER;
    case ZERO: return byte == '.' ? POINT : exponent ? EXPONENT : OVER;
    case INTEGER: return digit ? INTEGER : byte == '.' ? POINT : exponent ? EXPONENT : OVER;
    case POINT: return digit ? FRACTION : OVER;
    case FRACTION: return digit ? FRACTION : exponent ? EXPONENT : OVER;
    case EXPONENT:
        return byte == '+' || byte == '-' ? EXPONENT_SIGN : digit ? EXPONENT_DIGITS : OVER;
    default: return digit ? EXPONENT_DIGITS : OVER;
    }
}

static bool number_is_whole(enum scan_state state)
{
    return state == ZERO || state == INTEGER || state == FRACTION || state == EXPONENT_DIGITS;
}

static enum json_scan number_push(struct json_value_scanner *s, char byte, struct text_buffer *out)
{
    enum scan_state next = number_step((enum scan_state)s->state, byte);
    if (next != OVER) {
        s->state = (uint8_t)next;
        emit(out, &byte, 1);
        return JSON_SCAN_MORE;
    }
    if (!number_is_whole((enum scan_state)s->state))
        return JSON_SCAN_BROKEN;
    if (value_end(s) == JSON_SCAN_DONE)
        return JSON_SCAN_ENDED;
    return json_value_scanner_push(s, byte, out);
}

enum json_scan json_value_scanner_push(struct json_value_scanner *s, char byte,
                                       struct text_buffer *out)
{
    switch (s->state) {
    case STRING: return string_push(s, byte, out);
    case ESCAPE:
    case HEX:
    case PAIR:
    case PAIR_ESCAPE: return escape_push(s, byte, out);
    case WORD:
        if (byte != *s->word)
            return JSON_SCAN_BROKEN;
        emit(out, &byte, 1);
        return *++s->word ? JSON_SCAN_MORE : value_end(s);
    case OVER: return JSON_SCAN_BROKEN;
    default: break;
    }
    if (s->state >= MINUS)
        return number_push(s, byte, out);
    if (!is_blank(byte))
        return structure_push(s, byte, out);
    if (s->held_bytes > 0)
        hold(s, byte);
    else if (s->state != TOP)
        emit(out, &byte, 1);
    return JSON_SCAN_MORE;
}

bool json_value_scanner_is_fresh(const struct json_value_scanner *s)
{
    return s->state == FIRST_KEY || s->state == FIRST_ITEM;
}

/* The bytes that complete the current token. */
static const char *token_rest(const struct json_value_scanner *s)
{
    switch (s->state) {
    case STRING:
    case ESCAPE:
    case HEX:
    case PAIR:
    case PAIR_ESCAPE: return s->is_key ? "\":null" : "\"";
    case TOP:
    case MEMBER_VALUE: return "null";
    case COLON: return ":null";
    case WORD: return s->word;
    default:
        return s->state >= MINUS && s->state < OVER && !number_is_whole((enum scan_state)s->state)
                   ? "0"
                   : "";
    }
}

void json_value_scanner_close(struct json_value_scanner *s, struct text_buffer *out)
{
    text_buffer_append_text(out, token_rest(s));
    while (s->depth > 0) {
        text_buffer_append(out, in_object(s) ? "}" : "]", 1);
        s->depth--;
    }
    s->state = OVER;
}

bool json_value_scanner_read(const char *text, size_t length, struct text_buffer *out)
{
    struct json_value_scanner scanner = {0};
    size_t i = 0;
    enum json_scan scan = JSON_SCAN_MORE;
    while (i < length && scan == JSON_SCAN_MORE)
        scan = json_value_scanner_push(&scanner, text[i++], out);
    if (scan == JSON_SCAN_BROKEN)
        return false;
    if (scan == JSON_SCAN_MORE)
        return scanner.depth == 0 && number_is_whole((enum scan_state)scanner.state);
    if (scan == JSON_SCAN_ENDED)
        i--;
    while (i < length && is_blank(text[i]))
        i++;
    return i == length;
}
