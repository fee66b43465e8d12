/*
 * A scanner of bytes with a fixed state: JSON is checked elsewhere, so strings, brackets and commas
 * of the outermost object are all that it has to know.
 */
#include "frontend/api/responses/call_input.h"

#include <string.h>

#include "proto/utf8.h"

#define REPLACEMENT 0xFFFDu

static void code_point_append(struct text_buffer *out, uint32_t code_point)
{
    char bytes[UTF8_MAX_CHAR_BYTES];
    text_buffer_append(out, bytes, utf8_encode(code_point, bytes));
}

/* A high surrogate that no low one followed. */
static void high_end(struct call_input *input, struct text_buffer *out)
{
    if (input->high)
        code_point_append(out, REPLACEMENT);
    input->high = 0;
}

/* A complete \uXXXX. */
static void unit_append(struct call_input *input, struct text_buffer *out)
{
    uint32_t unit = input->unit;
    bool is_low = unit >= 0xDC00 && unit < 0xE000;
    if (is_low && input->high) {
        code_point_append(out, 0x10000 + ((input->high - 0xD800) << 10) + (unit - 0xDC00));
        input->high = 0;
        return;
    }
    high_end(input, out);
    if (unit >= 0xD800 && unit < 0xDC00)
        input->high = unit;
    else
        code_point_append(out, is_low ? REPLACEMENT : unit);
}

static uint32_t hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0');
    return (uint32_t)((c | 32) - 'a' + 10) & 15u;
}

/* A byte of an escape; `out` is NULL outside the input. */
static void escape_push(struct call_input *input, char byte, struct text_buffer *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    input->escape++;
    if (input->escape == 2 && byte == 'u') {
        input->unit = 0;
        return;
    }
    if (input->escape > 2)
        input->unit = input->unit << 4 | hex_value(byte);
    bool is_unit = input->escape == 6;
    if (input->escape > 2 && !is_unit)
        return;
    input->escape = 0;
    if (!out)
        return;
    if (is_unit) {
        unit_append(input, out);
        return;
    }
    const char *place = strchr(from, byte);
    high_end(input, out);
    text_buffer_append(out, place && byte ? to + (place - from) : &byte, 1);
}

static void string_begin(struct call_input *input)
{
    static const char name[] = "input";
    bool is_value = input->depth == 1 && !input->key_next;
    input->in_string = true;
    input->in_key = input->depth == 1 && input->key_next;
    if (input->in_key)
        input->key_bytes = 0;
    input->in_input = is_value && !input->found && input->key_bytes == sizeof name - 1 &&
                      memcmp(input->key, name, sizeof name - 1) == 0;
    input->found = input->found || input->in_input;
}

static void string_push(struct call_input *input, char byte, struct text_buffer *out)
{
    if (input->escape > 0) {
        escape_push(input, byte, input->in_input ? out : NULL);
    } else if (byte == '\\') {
        input->escape = 1;
        if (input->in_key) /* no name that is looked for */
            input->key_bytes = sizeof input->key;
    } else if (byte == '"') {
        if (input->in_input)
            high_end(input, out);
        input->in_string = false;
        input->key_next = input->key_next && !input->in_key;
        input->in_input = false;
    } else if (input->in_input) {
        high_end(input, out);
        text_buffer_append(out, &byte, 1);
    } else if (input->in_key && input->key_bytes < sizeof input->key) {
        input->key[input->key_bytes++] = byte;
    }
}

void call_input_push(struct call_input *input, const char *bytes, size_t length,
                     struct text_buffer *out)
{
    for (size_t i = 0; i < length; i++) {
        char byte = bytes[i];
        if (input->in_string) {
            string_push(input, byte, out);
        } else if (byte == '"') {
            string_begin(input);
        } else if (byte == '{' || byte == '[') {
            input->depth++;
            input->key_next = input->key_next || input->depth == 1;
        } else if ((byte == '}' || byte == ']') && input->depth > 0) {
            input->depth--;
        } else if (byte == ',' && input->depth == 1) {
            input->key_next = true;
        }
    }
}
