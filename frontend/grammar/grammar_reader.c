/*
 * Lines are counted only when an error needs them, so that reading stays linear.
 */
#include "frontend/grammar/grammar_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/utf8.h"

uint32_t grammar_reader_fail(struct grammar_reader *r, const char *format, ...)
{
    va_list list;
    if (r->failed)
        return UINT32_MAX;
    r->failed = true;
    va_start(list, format);
    vsnprintf(r->error->message, sizeof r->error->message, format, list);
    va_end(list);
    size_t line = 1;
    const char *line_begin = r->begin;
    for (const char *p = r->begin; p < r->at && p < r->end; p++) {
        if (*p == '\n') {
            line++;
            line_begin = p + 1;
        }
    }
    snprintf(r->error->pointer, sizeof r->error->pointer, "line %zu, column %zu", line,
             (size_t)(r->at - line_begin) + 1);
    return UINT32_MAX;
}

uint32_t grammar_reader_stop(struct grammar_reader *r)
{
    r->failed = true;
    return UINT32_MAX;
}

bool grammar_reader_has(const struct grammar_reader *r, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(r->end - r->at) >= length && memcmp(r->at, text, length) == 0;
}

bool grammar_reader_take(struct grammar_reader *r, const char *text)
{
    bool found = grammar_reader_has(r, text);
    r->at += found ? strlen(text) : 0;
    return found;
}

static bool hex_read(struct grammar_reader *r, unsigned digits, uint32_t *code_point)
{
    *code_point = 0;
    for (unsigned i = 0; i < digits; i++, r->at++) {
        char c = r->at < r->end ? *r->at : 0;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) {
            grammar_reader_fail(r, "an escape needs %u hexadecimal digits", digits);
            return false;
        }
        *code_point = *code_point << 4 | digit;
    }
    return true;
}

static bool escape_read(struct grammar_reader *r, const char *escapes, uint32_t *code_point)
{
    static const char named[] = "nrtfv", meant[] = "\n\r\t\f\v";
    char kind = r->at < r->end ? *r->at : 0;
    const char *place = kind ? strchr(named, kind) : NULL;
    r->at += kind != 0;
    if (kind == 'x')
        return hex_read(r, 2, code_point);
    if (kind == 'u')
        return hex_read(r, 4, code_point);
    if (kind == 'U')
        return hex_read(r, 8, code_point);
    if (place || (kind && strchr(escapes, kind))) {
        *code_point = (unsigned char)(place ? meant[place - named] : kind);
        return true;
    }
    grammar_reader_fail(r, "unknown escape");
    return false;
}

bool grammar_reader_character(struct grammar_reader *r, const char *escapes, uint32_t *code_point)
{
    if (r->at >= r->end) {
        grammar_reader_fail(r, "the text ends inside a string or a class");
        return false;
    }
    if (*r->at == '\\') {
        r->at++;
        if (!escape_read(r, escapes, code_point))
            return false;
    } else {
        r->at += utf8_decode(r->at, (size_t)(r->end - r->at), code_point);
    }
    if (*code_point <= 0x10ffff && !(*code_point >= 0xd800 && *code_point <= 0xdfff))
        return true;
    grammar_reader_fail(r, "U+%X is not a character", *code_point);
    return false;
}

bool grammar_reader_number(struct grammar_reader *r, uint32_t bound, uint32_t *number)
{
    const char *begin = r->at;
    uint64_t value = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && value < bound)
        value = 10 * value + (uint64_t)(*r->at++ - '0');
    if (r->at == begin || value >= bound) {
        grammar_reader_fail(r, "a number below %u is expected", bound);
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

bool grammar_reader_token(struct grammar_reader *r, const struct special_finder *specials,
                          uint32_t *id)
{
    const char *begin = r->at;
    const char *close = memchr(begin, '>', (size_t)(r->end - begin));
    struct special_token special;
    if (grammar_reader_take(r, "<[")) {
        if (!grammar_reader_number(r, LIMIT_VOCAB_TOKENS, id))
            return false;
        if (!grammar_reader_take(r, "]>"))
            grammar_reader_fail(r, "a token's id ends with ']>'");
        else if (!specials || !specials->is_special(specials->context, *id))
            grammar_reader_fail(r,
                                "token %u is not a special token of this model; write its text as "
                                "a string",
                                *id);
        return !r->failed;
    }
    size_t length = close ? (size_t)(close + 1 - begin) : 0;
    if (!close || memchr(begin, '\n', length)) {
        grammar_reader_fail(r, "a token needs a closing '>'");
        return false;
    }
    if (!specials || !specials->find(specials->context, begin, length, &special) ||
        special.begin != 0 || special.length != length) {
        grammar_reader_fail(r,
                            "'%.*s' is not a special token of this model; write its text as a "
                            "string",
                            length > 48 ? 48 : (int)length, begin);
        return false;
    }
    r->at = close + 1;
    *id = special.id;
    return true;
}
