/*
 * The lexer: separates text from code, and decides which blanks between them are kept.
 *
 * jinja2 decides white space with regular expressions over the raw text, and published templates
 * depend on exactly those decisions. They are made here in one pass. Outside code: find the next
 * opening mark; the text before it is trimmed as its sign (`-`) or lstrip_blocks demands. Inside:
 * cut tokens until the closing mark, which counts only if no bracket is open.
 *
 * Line statements and custom delimiters are not supported: no published chat template can use them.
 */
#include "frontend/prompt/jinja/jinja_lexer.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_lexer_literal.h"
#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/limits.h"
#include "proto/utf8.h"

struct lexer {
    struct jinja_arena *arena;
    struct jinja_token_list *tokens;
    struct error_text *error;
    const char *text; /* normalized newlines */
    size_t length;
    size_t at;
    int line;
    char open_brackets[LIMIT_TEMPLATE_DEPTH];
    size_t open_count;
};

static enum result lexer_push(struct lexer *lexer, struct jinja_token token)
{
    struct jinja_token_list *list = lexer->tokens;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 256 : list->capacity * 2;
        struct jinja_token *grown =
            jinja_arena_take(lexer->arena, capacity * sizeof(struct jinja_token));
        if (grown == NULL)
            return error_set(lexer->error, RESULT_TOO_LARGE, "line %d: template is too large",
                             lexer->line);
        if (list->count > 0)
            memcpy(grown, list->tokens, list->count * sizeof(struct jinja_token));
        list->tokens = grown;
        list->capacity = capacity;
    }
    token.line = lexer->line;
    list->tokens[list->count++] = token;
    return RESULT_OK;
}

static void lexer_advance(struct lexer *lexer, size_t to)
{
    for (; lexer->at < to; lexer->at++)
        lexer->line += lexer->text[lexer->at] == '\n';
}

/* End of the blanks that start at `at`. */
static size_t skip_space(const struct lexer *lexer, size_t at)
{
    while (at < lexer->length) {
        uint32_t code_point;
        size_t bytes = utf8_decode(lexer->text + at, lexer->length - at, &code_point);
        if (!jinja_unicode_is_space(code_point))
            break;
        at += bytes;
    }
    return at;
}

static bool starts_with(const struct lexer *lexer, size_t at, const char *mark)
{
    size_t bytes = strlen(mark);
    return lexer->length - at >= bytes && memcmp(lexer->text + at, mark, bytes) == 0;
}

/* Trims the text before a mark at `end` as the mark's sign demands. Returns the new end. */
static size_t data_end(const struct lexer *lexer, size_t start, size_t end, char sign, bool block)
{
    size_t line_start = end;
    while (line_start > start && lexer->text[line_start - 1] != '\n')
        line_start--;
    if (sign == '-') {
        size_t keep = start;
        for (size_t at = start; at < end;) {
            uint32_t code_point;
            at += utf8_decode(lexer->text + at, end - at, &code_point);
            if (!jinja_unicode_is_space(code_point))
                keep = at;
        }
        return keep;
    }
    bool at_line_start = line_start > start || start == 0 || lexer->text[start - 1] == '\n';
    if (sign != '+' && block && at_line_start && skip_space(lexer, line_start) >= end)
        return line_start;
    return end;
}

static enum result push_data(struct lexer *lexer, size_t start, size_t end)
{
    if (end <= start)
        return RESULT_OK;
    return lexer_push(lexer, (struct jinja_token){.type = TOKEN_DATA,
                                                  .text = lexer->text + start,
                                                  .text_bytes = end - start});
}

/* The end of the closing mark at `at`, with the blanks that it removes; 0 if there is none. */
static size_t close_end(const struct lexer *lexer, size_t at, const char *mark, bool trims_newline)
{
    if (trims_newline && lexer->text[at] == '+' && starts_with(lexer, at + 1, mark))
        return at + 3;
    if (lexer->text[at] == '-' && starts_with(lexer, at + 1, mark))
        return skip_space(lexer, at + 3);
    if (!starts_with(lexer, at, mark))
        return 0;
    bool newline = trims_newline && at + 2 < lexer->length && lexer->text[at + 2] == '\n';
    return at + 2 + (newline ? 1 : 0);
}

/* `{% raw %}` at lexer->at: returns the offset after it, or 0 if the block is another one. */
static size_t raw_begin_end(const struct lexer *lexer, size_t at, const char *word)
{
    if (!starts_with(lexer, at, "{%"))
        return 0;
    at += 2;
    if (at < lexer->length && (lexer->text[at] == '-' || lexer->text[at] == '+'))
        at++;
    at = skip_space(lexer, at);
    if (!starts_with(lexer, at, word))
        return 0;
    at = skip_space(lexer, at + strlen(word));
    return at < lexer->length ? at : 0;
}

static char sign_at(const struct lexer *lexer, size_t at)
{
    char sign = at < lexer->length ? lexer->text[at] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
}

static enum result scan_raw(struct lexer *lexer, size_t body)
{
    lexer_advance(lexer, body);
    for (size_t at = body; at < lexer->length; at++) {
        if (lexer->text[at] != '{')
            continue;
        size_t closing = raw_begin_end(lexer, at, "endraw");
        size_t end = closing == 0 ? 0 : close_end(lexer, closing, "%}", true);
        if (end == 0)
            continue;
        size_t cut = data_end(lexer, body, at, sign_at(lexer, at + 2), true);
        enum result result = push_data(lexer, body, cut);
        lexer_advance(lexer, end);
        return result;
    }
    return error_set(lexer->error, RESULT_INVALID, "line %d: Missing end of raw directive",
                     lexer->line);
}

static enum result scan_comment(struct lexer *lexer)
{
    for (size_t at = lexer->at; at < lexer->length; at++) {
        if (lexer->text[at] != '#' && lexer->text[at] != '-' && lexer->text[at] != '+')
            continue;
        size_t end = close_end(lexer, at, "#}", true);
        if (end > 0) {
            lexer_advance(lexer, end);
            return RESULT_OK;
        }
    }
    return error_set(lexer->error, RESULT_INVALID, "line %d: Missing end of comment tag",
                     lexer->line);
}

static enum result track_bracket(struct lexer *lexer, enum jinja_token_type type)
{
    if (type == TOKEN_LBRACE || type == TOKEN_LPAREN || type == TOKEN_LBRACKET) {
        if (lexer->open_count == LIMIT_TEMPLATE_DEPTH)
            return error_set(lexer->error, RESULT_TOO_LARGE, "line %d: too many open brackets",
                             lexer->line);
        lexer->open_brackets[lexer->open_count++] =
            type == TOKEN_LBRACE ? '}' : (type == TOKEN_LPAREN ? ')' : ']');
        return RESULT_OK;
    }
    if (type != TOKEN_RBRACE && type != TOKEN_RPAREN && type != TOKEN_RBRACKET)
        return RESULT_OK;
    char found = type == TOKEN_RBRACE ? '}' : (type == TOKEN_RPAREN ? ')' : ']');
    if (lexer->open_count == 0)
        return error_set(lexer->error, RESULT_INVALID, "line %d: unexpected '%c'", lexer->line,
                         found);
    char expected = lexer->open_brackets[--lexer->open_count];
    if (expected != found)
        return error_set(lexer->error, RESULT_INVALID, "line %d: unexpected '%c', expected '%c'",
                         lexer->line, found, expected);
    return RESULT_OK;
}

/* The tokens of one `{{ }}` or `{% %}`, including its closing mark. */
static enum result scan_code(struct lexer *lexer, bool block)
{
    const char *mark = block ? "%}" : "}}";
    lexer->open_count = 0;
    while (lexer->at < lexer->length) {
        size_t end = lexer->open_count > 0 ? 0 : close_end(lexer, lexer->at, mark, block);
        if (end > 0) {
            enum result result = lexer_push(
                lexer, (struct jinja_token){.type = block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END});
            lexer_advance(lexer, end);
            return result;
        }
        size_t after_space = skip_space(lexer, lexer->at);
        if (after_space > lexer->at) {
            lexer_advance(lexer, after_space);
            continue;
        }
        struct jinja_token token = {0};
        size_t bytes = 0;
        enum result result =
            jinja_lexer_literal(lexer->arena, lexer->text, lexer->length, lexer->at, lexer->line,
                                &token, &bytes, lexer->error);
        if (result == RESULT_OK)
            result = track_bracket(lexer, token.type);
        if (result == RESULT_OK)
            result = lexer_push(lexer, token);
        if (result != RESULT_OK)
            return result;
        lexer_advance(lexer, lexer->at + bytes);
    }
    return RESULT_OK; /* the parser reports what is missing */
}

/* The next opening mark at or after lexer->at, or the length. */
static size_t find_mark(const struct lexer *lexer)
{
    size_t at = lexer->at;
    while (at + 1 < lexer->length) {
        const char *brace = memchr(lexer->text + at, '{', lexer->length - 1 - at);
        if (brace == NULL)
            break;
        at = (size_t)(brace - lexer->text);
        char kind = lexer->text[at + 1];
        if (kind == '{' || kind == '%' || kind == '#')
            return at;
        at++;
    }
    return lexer->length;
}

static enum result scan_mark(struct lexer *lexer, size_t mark)
{
    char kind = lexer->text[mark + 1];
    char sign = sign_at(lexer, mark + 2);
    size_t start = lexer->at;
    enum result result = push_data(lexer, start, data_end(lexer, start, mark, sign, kind != '{'));
    if (result != RESULT_OK)
        return result;
    lexer_advance(lexer, mark);
    size_t raw = kind == '%' ? raw_begin_end(lexer, mark, "raw") : 0;
    if (raw > 0) {
        size_t body = close_end(lexer, raw, "%}", false);
        if (body > 0)
            return scan_raw(lexer, body);
    }
    lexer_advance(lexer, mark + 2 + (sign == '\0' ? 0 : 1));
    if (kind == '#')
        return scan_comment(lexer);
    result = lexer_push(lexer, (struct jinja_token){.type = kind == '%' ? TOKEN_BLOCK_BEGIN
                                                                        : TOKEN_VARIABLE_BEGIN});
    return result == RESULT_OK ? scan_code(lexer, kind == '%') : result;
}

static enum result normalize_newlines(struct lexer *lexer, const char *source, size_t source_bytes)
{
    char *text = jinja_arena_take(lexer->arena, source_bytes + 1);
    if (text == NULL)
        return error_set(lexer->error, RESULT_TOO_LARGE, "template is too large");
    size_t length = 0;
    for (size_t at = 0; at < source_bytes; at++) {
        bool pair = source[at] == '\r' && at + 1 < source_bytes && source[at + 1] == '\n';
        if (!pair)
            text[length++] = source[at] == '\r' ? '\n' : source[at];
    }
    if (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    lexer->text = text;
    lexer->length = length;
    return RESULT_OK;
}

enum result jinja_lexer_scan(struct jinja_arena *arena, const char *source, size_t source_bytes,
                             struct jinja_token_list *tokens, struct error_text *error)
{
    struct lexer lexer = {.arena = arena, .tokens = tokens, .error = error, .line = 1};
    enum result result = normalize_newlines(&lexer, source, source_bytes);
    while (result == RESULT_OK && lexer.at < lexer.length) {
        size_t mark = find_mark(&lexer);
        if (mark < lexer.length) {
            result = scan_mark(&lexer, mark);
        } else {
            result = push_data(&lexer, lexer.at, lexer.length);
            lexer_advance(&lexer, lexer.length);
        }
    }
    if (result == RESULT_OK)
        result = lexer_push(&lexer, (struct jinja_token){.type = TOKEN_END});
    return result;
}
