/*
 * Tokens inside `{{ }}` and `{% %}`.
 *
 * Literals are Python's (1_000, 0x1f, 1e3, '\u2581' with unicode escapes), and a dot before digits
 * is an index (`x.0.1`), not a fraction. One function per kind of token, tried by the first
 * character. Strings are unescaped here, once. Refused: characters that UTF-8 cannot encode (lone
 * surrogates), character names (\N{...}), and integers over 64 bits.
 */
#include "frontend/prompt/jinja/jinja_lexer_literal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/utf8.h"

struct literal {
    struct jinja_arena *arena;
    const char *text;
    size_t length;
    size_t at;
    int line;
    struct error_text *error;
};

static const struct {
    char text[3];
    enum jinja_token_type type;
} OPERATORS[] = {
    /* two characters first: the longest match wins */
    {"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},     {"==", TOKEN_EQ},    {"!=", TOKEN_NE},
    {">=", TOKEN_GE},       {"<=", TOKEN_LE},      {"+", TOKEN_ADD},    {"-", TOKEN_SUB},
    {"/", TOKEN_DIV},       {"*", TOKEN_MUL},      {"%", TOKEN_MOD},    {"~", TOKEN_TILDE},
    {"[", TOKEN_LBRACKET},  {"]", TOKEN_RBRACKET}, {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN},
    {"{", TOKEN_LBRACE},    {"}", TOKEN_RBRACE},   {">", TOKEN_GT},     {"<", TOKEN_LT},
    {"=", TOKEN_ASSIGN},    {".", TOKEN_DOT},      {":", TOKEN_COLON},  {"|", TOKEN_PIPE},
    {",", TOKEN_COMMA},     {";", TOKEN_SEMICOLON}};

static bool is_digit(char c, unsigned base)
{
    unsigned value = 99;
    if (c >= '0' && c <= '9')
        value = (unsigned)(c - '0');
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        value = (unsigned)((c | 0x20) - 'a') + 10;
    return value < base;
}

static char char_at(const struct literal *literal, size_t at)
{
    return at < literal->length ? literal->text[at] : '\0';
}

/* End of digits that single underscores may separate; `at` itself if there are none. */
static size_t digits_end(const struct literal *literal, size_t at, unsigned base)
{
    if (!is_digit(char_at(literal, at), base))
        return at;
    for (;;) {
        at++;
        bool separated = char_at(literal, at) == '_';
        if (!is_digit(char_at(literal, at + (separated ? 1 : 0)), base))
            return at;
        at += separated ? 1 : 0;
    }
}

/* End of a float at literal->at, or 0. */
static size_t float_end(const struct literal *literal)
{
    if (literal->at > 0 && literal->text[literal->at - 1] == '.')
        return 0;
    size_t whole = digits_end(literal, literal->at, 10);
    size_t fraction = whole;
    if (char_at(literal, whole) == '.')
        fraction = digits_end(literal, whole + 1, 10);
    bool has_fraction = fraction > whole + 1;
    size_t mantissa = has_fraction ? fraction : whole;
    if ((char_at(literal, mantissa) | 0x20) == 'e') {
        size_t sign = mantissa + 1;
        if (char_at(literal, sign) == '+' || char_at(literal, sign) == '-')
            sign++;
        size_t exponent = digits_end(literal, sign, 10);
        if (exponent > sign)
            return exponent;
    }
    return has_fraction ? fraction : 0;
}

/* End of an integer: 0b, 0o, 0x, a decimal without leading zeros, or zeros. */
static size_t integer_end(const struct literal *literal, unsigned *base, size_t *digits)
{
    size_t at = literal->at;
    char prefix = (char)(char_at(literal, at + 1) | 0x20);
    *base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : 2);
    if (literal->text[at] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
        *digits = at + 2 + (char_at(literal, at + 2) == '_' ? 1 : 0);
        size_t end = digits_end(literal, *digits, *base);
        if (end > *digits)
            return end;
    }
    *base = 10;
    *digits = at;
    if (literal->text[at] != '0')
        return digits_end(literal, at, 10);
    while (char_at(literal, at) == '0' ||
           (char_at(literal, at) == '_' && char_at(literal, at + 1) == '0'))
        at++;
    return at;
}

static enum result scan_number(const struct literal *literal, struct jinja_token *token,
                               size_t *token_bytes)
{
    unsigned base = 10;
    size_t start = literal->at;
    size_t end = float_end(literal);
    token->type = end > 0 ? TOKEN_FLOAT : TOKEN_INTEGER;
    if (end == 0)
        end = integer_end(literal, &base, &start);
    char digits[512];
    size_t count = 0;
    for (size_t at = start; at < end; at++) {
        if (count == sizeof(digits) - 1)
            return error_set(literal->error, RESULT_INVALID, "line %d: number is too long",
                             literal->line);
        if (literal->text[at] != '_')
            digits[count++] = literal->text[at];
    }
    digits[count] = '\0';
    *token_bytes = end - literal->at;
    errno = 0;
    if (token->type == TOKEN_FLOAT) {
        token->real = strtod(digits, NULL);
        return RESULT_OK;
    }
    token->integer = strtoll(digits, NULL, (int)base);
    if (errno == ERANGE)
        return error_set(literal->error, RESULT_INVALID, "line %d: integer over 64 bits",
                         literal->line);
    return RESULT_OK;
}

static enum result escape_fail(const struct literal *literal)
{
    return error_set(literal->error, RESULT_INVALID, "line %d: bad escape in string literal",
                     literal->line);
}

/* \xHH, \uHHHH, \UHHHHHHHH and octal; `at` is after the backslash. */
static enum result unescape_number(const struct literal *literal, size_t *at, size_t end, char *out,
                                   size_t *length)
{
    char kind = literal->text[*at];
    size_t wanted = kind == 'x' ? 2 : (kind == 'u' ? 4 : (kind == 'U' ? 8 : 3));
    unsigned base = is_digit(kind, 8) ? 8 : 16;
    size_t first = base == 8 ? *at : *at + 1;
    size_t stop = first;
    uint32_t code_point = 0;
    for (; stop < end && stop - first < wanted && is_digit(literal->text[stop], base); stop++) {
        char c = literal->text[stop];
        unsigned value = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
        code_point = code_point * base + value;
    }
    bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
    if ((base == 16 && stop - first < wanted) || code_point > 0x10ffff || surrogate)
        return escape_fail(literal);
    *length += utf8_encode(code_point, out + *length);
    *at = stop;
    return RESULT_OK;
}

static enum result unescape(const struct literal *literal, size_t at, size_t end, char *out,
                            size_t *length)
{
    static const char letters[] = "\\'\"abfnrtv";
    static const char meanings[] = "\\'\"\a\b\f\n\r\t\v";
    while (at < end) {
        char c = literal->text[at++];
        if (c != '\\' || at == end) {
            out[(*length)++] = c;
            continue;
        }
        char kind = literal->text[at];
        const char *letter = kind == '\0' ? NULL : strchr(letters, kind);
        if (letter != NULL) {
            out[(*length)++] = meanings[letter - letters];
            at++;
        } else if (kind == '\n') {
            at++;
        } else if (kind == 'x' || kind == 'u' || kind == 'U' || is_digit(kind, 8)) {
            enum result result = unescape_number(literal, &at, end, out, length);
            if (result != RESULT_OK)
                return result;
        } else if (kind == 'N') {
            return escape_fail(literal);
        } else {
            out[(*length)++] = '\\';
        }
    }
    return RESULT_OK;
}

static enum result scan_string(const struct literal *literal, struct jinja_token *token,
                               size_t *token_bytes)
{
    char quote = literal->text[literal->at];
    size_t end = literal->at + 1;
    while (end < literal->length && literal->text[end] != quote)
        end += literal->text[end] == '\\' ? 2 : 1;
    if (end >= literal->length)
        return error_set(literal->error, RESULT_INVALID, "line %d: unexpected char %s",
                         literal->line, quote == '"' ? "'\"'" : "\"'\"");
    /* No escape is shorter than the character it encodes. */
    char *out = jinja_arena_take(literal->arena, end - literal->at);
    if (out == NULL)
        return error_set(literal->error, RESULT_TOO_LARGE, "template is too large");
    token->type = TOKEN_STRING;
    token->text = out;
    *token_bytes = end + 1 - literal->at;
    return unescape(literal, literal->at + 1, end, out, &token->text_bytes);
}

/* End of a name that starts at literal->at; literal->at itself if there is none. */
static size_t name_end(const struct literal *literal)
{
    size_t at = literal->at;
    while (at < literal->length) {
        uint32_t code_point;
        size_t bytes = utf8_decode(literal->text + at, literal->length - at, &code_point);
        bool digit = code_point >= '0' && code_point <= '9';
        if (code_point < 0x80 ? !(((code_point | 0x20) >= 'a' && (code_point | 0x20) <= 'z') ||
                                  code_point == '_' || (digit && at > literal->at))
                              : !jinja_unicode_is_alpha(code_point))
            break;
        at += bytes;
    }
    return at;
}

enum result jinja_lexer_literal(struct jinja_arena *arena, const char *text, size_t length,
                                size_t at, int line, struct jinja_token *token, size_t *token_bytes,
                                struct error_text *error)
{
    struct literal literal = {arena, text, length, at, line, error};
    if (is_digit(text[at], 10))
        return scan_number(&literal, token, token_bytes);
    if (text[at] == '\'' || text[at] == '"')
        return scan_string(&literal, token, token_bytes);
    size_t end = name_end(&literal);
    token->text = text + at;
    if (end > at) {
        token->type = TOKEN_NAME;
        token->text_bytes = end - at;
        *token_bytes = end - at;
        return RESULT_OK;
    }
    for (size_t i = 0; i < sizeof(OPERATORS) / sizeof(OPERATORS[0]); i++) {
        size_t bytes = strlen(OPERATORS[i].text);
        if (length - at < bytes || memcmp(text + at, OPERATORS[i].text, bytes) != 0)
            continue;
        token->type = OPERATORS[i].type;
        token->text_bytes = bytes;
        *token_bytes = bytes;
        return RESULT_OK;
    }
    return error_set(
        error, RESULT_INVALID, "line %d: unexpected char '%.*s' at %zu", line,
        (int)utf8_char_bytes(text[at]) > (int)(length - at) ? 1 : (int)utf8_char_bytes(text[at]),
        text + at, at);
}
