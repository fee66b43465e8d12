/*
 * Notations close to JSON, converted to JSON while they are written.
 *
 * Python's f(a="x", b=[1, {'c': True}]) and Gemma's {a:<|"|>x<|"|>,b:[1,{c:true}]} differ in their
 * quotes, in the character between a name and its value, and in words without quotes; a
 * literal_syntax describes these. Strings are passed on as they come; words wait for their end,
 * because only the whole word is known to be a number, a constant or text.
 *
 * Positional arguments, expressions and strings with a prefix are not read: such text is no call.
 */
#include "frontend/reply/literal_arguments.h"

#include <stdio.h>
#include <string.h>

enum literal_state { ITEM, QUOTE, WORD, ASSIGN, VALUE, STRING, ESCAPE, DIGITS, AFTER };

const struct literal_syntax literal_syntax_python = {
    .quotes = {"\"", "'", "\"\"\"", "'''"}, .escapes = true, .assign = '=', .close = ')'};

void literal_arguments_begin(struct literal_arguments *l, const struct literal_syntax *syntax)
{
    struct text_buffer word = l->word;
    text_buffer_clear(&word);
    *l = (struct literal_arguments){.syntax = syntax, .state = ITEM, .word = word, .depth = 1};
    l->closers[1] = syntax->close;
}

void literal_arguments_fini(struct literal_arguments *l)
{
    text_buffer_fini(&l->word);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool in_object(const struct literal_arguments *l)
{
    return l->depth == 1 || l->closers[l->depth] == '}';
}

static char assign_push(const struct literal_arguments *l)
{
    return l->depth == 1 ? l->syntax->assign : ':';
}

static enum call_step step_of(bool is_good)
{
    return is_good ? CALL_MORE : CALL_BROKEN;
}

/* --- quotes ----------------------------------------------------------------------------------- */

/* True if the held bytes begin a quote; *whole: the longest quote that they contain, or NULL. */
static bool quote_may_grow(const struct literal_arguments *l, const char **whole)
{
    bool may_grow = false;
    *whole = NULL;
    for (size_t i = 0; i < LITERAL_QUOTES && l->syntax->quotes[i]; i++) {
        const char *quote = l->syntax->quotes[i];
        size_t length = strlen(quote);
        if (l->quote_bytes <= length && memcmp(quote, l->quote, l->quote_bytes) == 0)
            may_grow = true;
        else if (l->quote_bytes > length && memcmp(quote, l->quote, length) == 0)
            *whole = quote;
    }
    return may_grow;
}

static bool begins_quote(const struct literal_arguments *l, char byte)
{
    for (size_t i = 0; i < LITERAL_QUOTES && l->syntax->quotes[i]; i++) {
        if (byte == l->syntax->quotes[i][0])
            return true;
    }
    return false;
}

/* Reads one byte past a quote, to distinguish a short quote from a longer one. */
static enum call_step quote_push(struct literal_arguments *l, struct call_writer *writer, char byte,
                                 size_t *unread)
{
    const char *whole;
    l->quote[l->quote_bytes++] = byte;
    if (quote_may_grow(l, &whole))
        return CALL_MORE;
    *unread = l->quote_bytes;
    if (!whole)
        return CALL_BROKEN;
    *unread -= strlen(whole);
    mark_matcher_init(&l->closing, &whole, 1);
    l->state = STRING;
    return step_of(l->is_key || call_writer_put_text(writer, "\""));
}

/* --- strings ---------------------------------------------------------------------------------- */

static enum call_step key_end(struct literal_arguments *l, struct call_writer *writer)
{
    l->state = ASSIGN;
    l->needs_comma = false; /* put_key writes the comma */
    return step_of(!l->word.failed &&
                   call_writer_put_key(writer, l->word.bytes ? l->word.bytes : "", l->word.length));
}

static enum call_step string_byte(struct literal_arguments *l, struct call_writer *writer,
                                  char byte)
{
    l->state = STRING;
    if (!l->is_key)
        call_writer_put_quoted(writer, &byte, 1);
    else if (l->word.length < LIMIT_TOOL_NAME_BYTES)
        text_buffer_append(&l->word, &byte, 1);
    else
        return CALL_BROKEN;
    return CALL_MORE;
}

static enum call_step string_push(struct literal_arguments *l, struct call_writer *writer,
                                  char byte, size_t *unread)
{
    if (byte == '\\' && l->syntax->escapes && l->closing.held_bytes == 0) {
        l->state = ESCAPE;
        return CALL_MORE;
    }
    enum mark_result result = mark_matcher_push(&l->closing, 1, byte);
    if (result == MARK_MORE)
        return CALL_MORE;
    size_t held = l->closing.held_bytes;
    mark_matcher_reset(&l->closing);
    if (result == MARK_NONE) {
        *unread = held - 1;
        return string_byte(l, writer, l->closing.held[0]);
    }
    if (l->is_key)
        return key_end(l, writer);
    l->state = AFTER;
    return step_of(call_writer_put_text(writer, "\""));
}

static enum call_step escape_push(struct literal_arguments *l, struct call_writer *writer,
                                  char byte)
{
    static const char names[] = "abfnrtv0\\'\"", codes[] = "\a\b\f\n\r\t\v\0\\'\"";
    const char *name = byte ? strchr(names, byte) : NULL;
    l->state = STRING;
    if (name)
        return string_byte(l, writer, codes[name - names]);
    if (byte == '\n')
        return CALL_MORE; /* line continuation */
    if (byte == 'x' || byte == 'u' || byte == 'U') {
        l->escape_digits = byte == 'x' ? 2 : byte == 'u' ? 4 : 8;
        l->escape_code = 0;
        l->state = DIGITS;
        return step_of(!l->is_key);
    }
    enum call_step step = string_byte(l, writer, '\\');
    return step == CALL_MORE ? string_byte(l, writer, byte) : step;
}

static enum call_step digits_push(struct literal_arguments *l, struct call_writer *writer,
                                  char byte)
{
    static const char digits[] = "0123456789abcdef";
    char lower = byte >= 'A' && byte <= 'F' ? (char)(byte | 0x20) : byte;
    const char *digit = byte ? strchr(digits, lower) : NULL;
    if (!digit)
        return CALL_BROKEN;
    l->escape_code = l->escape_code << 4 | (uint32_t)(digit - digits);
    if (--l->escape_digits > 0)
        return CALL_MORE;
    l->state = STRING;
    char escaped[16];
    uint32_t code = l->escape_code;
    if (code > 0x10ffff)
        return CALL_BROKEN;
    if (code < 0x10000)
        snprintf(escaped, sizeof escaped, "\\u%04x", code);
    else
        snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                 0xdc00 + ((code - 0x10000) & 0x3ff));
    return step_of(call_writer_put_text(writer, escaped)); /* the scanner repairs half a pair */
}

/* --- words ------------------------------------------------------------------------------------ */

static bool word_takes(const struct literal_arguments *l, char byte)
{
    if (byte == ',' || byte == ')' || byte == ']' || byte == '}')
        return false;
    if (l->is_key)
        return byte != assign_push(l) && !is_blank(byte);
    return (l->syntax->bare_words || !is_blank(byte)) && !strchr("({[\"'", byte);
}

/* Python's numbers that JSON writes differently: +1, .5, 5. */
static bool number_put(struct call_writer *writer, const char *word, size_t length)
{
    struct text_buffer number = {0};
    bool is_negative = *word == '-';
    size_t begin = *word == '-' || *word == '+';
    if (begin == length || (word[begin] == '.' && begin + 1 == length))
        return false;
    text_buffer_append(&number, "-", is_negative);
    if (word[begin] == '.')
        text_buffer_append(&number, "0", 1);
    text_buffer_append(&number, word + begin, length - begin);
    if (word[length - 1] == '.')
        text_buffer_append(&number, "0", 1);
    bool is_number =
        !number.failed && number.length > 0 &&
        (number.bytes[0] == '-' || (number.bytes[0] >= '0' && number.bytes[0] <= '9')) &&
        json_value_scanner_read(number.bytes, number.length, NULL);
    if (is_number)
        is_number = call_writer_put(writer, number.bytes, number.length);
    text_buffer_fini(&number);
    return is_number;
}

static enum call_step word_end(struct literal_arguments *l, struct call_writer *writer)
{
    static const char *const words[][2] = {{"true", "true"},   {"True", "true"}, {"false", "false"},
                                           {"False", "false"}, {"null", "null"}, {"None", "null"}};
    if (l->is_key)
        return key_end(l, writer);
    l->state = AFTER;
    while (l->word.length > 0 && is_blank(l->word.bytes[l->word.length - 1]))
        l->word.length--;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (l->word.length == strlen(words[i][0]) &&
            memcmp(l->word.bytes, words[i][0], l->word.length) == 0)
            return step_of(call_writer_put_text(writer, words[i][1]));
    }
    if (number_put(writer, l->word.bytes, l->word.length))
        return CALL_MORE;
    if (!l->syntax->bare_words || !call_writer_put_text(writer, "\""))
        return CALL_BROKEN;
    call_writer_put_quoted(writer, l->word.bytes, l->word.length);
    return step_of(call_writer_put_text(writer, "\""));
}

static enum call_step word_push(struct literal_arguments *l, struct call_writer *writer, char byte,
                                size_t *unread)
{
    bool takes = word_takes(l, byte) && byte != '<';
    bool is_long = l->is_key && l->word.length >= LIMIT_TOOL_NAME_BYTES;
    if (takes && !is_long) {
        text_buffer_append(&l->word, &byte, 1);
        return step_of(!l->word.failed);
    }
    *unread = 1;
    if (takes)
        return CALL_BROKEN; /* and no key ends within a character */
    return l->word.length > 0 ? word_end(l, writer) : CALL_BROKEN;
}

/* --- structure -------------------------------------------------------------------------------- */

static enum call_step close_push(struct literal_arguments *l, struct call_writer *writer)
{
    bool is_good = call_writer_put_text(writer, in_object(l) ? "}" : "]");
    l->depth--;
    l->state = AFTER;
    return !is_good ? CALL_BROKEN : l->depth == 0 ? CALL_DONE : CALL_MORE;
}

static enum call_step open_push(struct literal_arguments *l, struct call_writer *writer, char byte)
{
    if (!call_writer_put_text(writer, byte == '{' ? "{" : "["))
        return CALL_BROKEN; /* too deep */
    l->depth++;
    l->closers[l->depth] = byte == '{' ? '}' : byte == '[' ? ']' : ')';
    l->state = ITEM;
    l->needs_comma = false;
    return CALL_MORE;
}

static enum call_step value_begin(struct literal_arguments *l, struct call_writer *writer,
                                  char byte, size_t *unread)
{
    if (l->needs_comma && !call_writer_put_text(writer, ","))
        return CALL_BROKEN;
    l->needs_comma = false;
    l->is_key = false;
    if (byte == '{' || byte == '[' || (byte == '(' && l->syntax->escapes))
        return open_push(l, writer, byte);
    text_buffer_clear(&l->word);
    l->quote_bytes = 0;
    l->state = begins_quote(l, byte) ? QUOTE : WORD;
    return l->state == QUOTE ? quote_push(l, writer, byte, unread)
                             : word_push(l, writer, byte, unread);
}

static enum call_step key_begin(struct literal_arguments *l, struct call_writer *writer, char byte,
                                size_t *unread)
{
    l->is_key = true;
    l->members += l->depth == 1;
    text_buffer_clear(&l->word);
    l->quote_bytes = 0;
    bool is_quoted = begins_quote(l, byte);
    if (is_quoted ? l->depth == 1 && l->syntax->escapes : l->depth > 1 && l->syntax->escapes)
        return CALL_BROKEN; /* Python: names at the top, strings below */
    l->state = is_quoted ? QUOTE : WORD;
    return is_quoted ? quote_push(l, writer, byte, unread) : word_push(l, writer, byte, unread);
}

static enum call_step structure_push(struct literal_arguments *l, struct call_writer *writer,
                                     char byte, size_t *unread)
{
    if (is_blank(byte))
        return CALL_MORE;
    switch (l->state) {
    case ASSIGN: l->state = VALUE; return step_of(byte == assign_push(l));
    case VALUE: return value_begin(l, writer, byte, unread);
    case AFTER:
        if (byte == ',') {
            l->needs_comma = true;
            l->state = ITEM;
            return CALL_MORE;
        }
        return byte == l->closers[l->depth] ? close_push(l, writer) : CALL_BROKEN;
    default:
        if (byte == l->closers[l->depth])
            return close_push(l, writer);
        return in_object(l) ? key_begin(l, writer, byte, unread)
                            : value_begin(l, writer, byte, unread);
    }
}

enum call_step literal_arguments_push(struct literal_arguments *l, struct call_writer *writer,
                                      char byte, size_t *unread)
{
    enum call_step step;
    *unread = 0;
    if (!writer->has_begun)
        (void)call_writer_put_text(writer, "{");
    switch (l->state) {
    case QUOTE: step = quote_push(l, writer, byte, unread); break;
    case WORD: step = word_push(l, writer, byte, unread); break;
    case STRING: step = string_push(l, writer, byte, unread); break;
    case ESCAPE: step = escape_push(l, writer, byte); break;
    case DIGITS: step = digits_push(l, writer, byte); break;
    default: step = structure_push(l, writer, byte, unread); break;
    }
    if (step == CALL_BROKEN && *unread == 0)
        *unread = 1;
    return step;
}

bool literal_arguments_read_python(const char *text, size_t length, struct text_buffer *out)
{
    /* Parsed as the only argument of a call. A reader unreads a few bytes at most. */
    static const char before[] = "v=", key[] = "{\"v\":";
    size_t total = sizeof before - 1 + length + 1;
    struct literal_arguments literal = {0};
    struct call_writer writer = {0};
    enum call_step step = CALL_MORE;
    literal_arguments_begin(&literal, &literal_syntax_python);
    size_t at = 0;
    while (at < total && step == CALL_MORE) {
        size_t unread;
        char byte = at < 2 ? before[at] : at < total - 1 ? text[at - 2] : ')';
        step = literal_arguments_push(&literal, &writer, byte, &unread);
        at += 1 - unread;
    }
    bool is_one =
        step == CALL_DONE && at == total && literal.members == 1 && !writer.arguments.failed;
    if (is_one)
        text_buffer_append(out, writer.arguments.bytes + sizeof key - 1,
                           writer.arguments.length - sizeof key);
    literal_arguments_fini(&literal);
    call_writer_fini(&writer);
    return is_one;
}
