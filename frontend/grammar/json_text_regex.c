/*
 * The spelling is that of Python's json.dumps(ensure_ascii=False), which JSON.stringify shares: a
 * model has seen no other in quantity. "/" and DEL are written as they are.
 */
#include "frontend/grammar/json_text_regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

#define LAST_CODE_POINT 0x10FFFFu
/* Characters whose spelling is not the character itself. */
#define ESCAPED_CHARACTERS 34u

static const char SHORT_ESCAPES[][2] = {{'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'},
                                        {'\r', 'r'}, {'"', '"'},  {'\\', '\\'}};

static bool is_escaped(uint32_t code_point)
{
    return code_point < 0x20 || code_point == '"' || code_point == '\\';
}

size_t json_text_spell(uint32_t code_point, char out[JSON_TEXT_CHARACTER_BYTES])
{
    if (!is_escaped(code_point))
        return utf8_encode(code_point, out);
    for (size_t i = 0; i < sizeof(SHORT_ESCAPES) / sizeof(SHORT_ESCAPES[0]); i++) {
        if ((uint32_t)SHORT_ESCAPES[i][0] == code_point) {
            out[0] = '\\';
            out[1] = SHORT_ESCAPES[i][1];
            return 2;
        }
    }
    return (size_t)snprintf(out, JSON_TEXT_CHARACTER_BYTES, "\\u%04x", code_point);
}

/* The part of a range that is written as it is: what lies between escaped characters. */
static uint32_t plain_ranges_add(struct code_point_range range, struct code_point_range *plain,
                                 uint32_t count)
{
    static const struct code_point_range PLAIN[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, LAST_CODE_POINT}};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t first = range.first > PLAIN[i].first ? range.first : PLAIN[i].first;
        uint32_t last = range.last < PLAIN[i].last ? range.last : PLAIN[i].last;
        if (first <= last)
            plain[count++] = (struct code_point_range){.first = first, .last = last};
    }
    return count;
}

static bool ranges_contain(const struct code_point_range *ranges, size_t count, uint32_t code_point)
{
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].first <= code_point && code_point <= ranges[i].last)
            return true;
    }
    return false;
}

regex_id json_text_code_points(struct grammar_builder *builder,
                               const struct code_point_range *ranges, size_t count)
{
    regex_id parts[ESCAPED_CHARACTERS + 1];
    size_t part_count = 0;
    struct code_point_range *plain = malloc((count * 3 + 1) * sizeof(*plain));
    if (!plain)
        return GRAMMAR_NONE;
    uint32_t plain_count = 0;
    for (size_t i = 0; i < count; i++)
        plain_count = plain_ranges_add(ranges[i], plain, plain_count);
    if (plain_count > 0)
        parts[part_count++] = grammar_regex_code_points(builder, plain, plain_count);
    free(plain);
    for (uint32_t c = 0; c <= '\\'; c++) {
        char spelled[JSON_TEXT_CHARACTER_BYTES];
        if (!is_escaped(c) || !ranges_contain(ranges, count, c))
            continue;
        size_t length = json_text_spell(c, spelled);
        parts[part_count++] = grammar_regex_literal(builder, spelled, length);
    }
    if (part_count == 0)
        return grammar_regex_nothing(builder);
    return part_count == 1 ? parts[0] : grammar_regex_or_of(builder, parts, part_count);
}

regex_id json_text_character(struct grammar_builder *builder)
{
    const struct code_point_range all = {0, LAST_CODE_POINT};
    return json_text_code_points(builder, &all, 1);
}

regex_id json_text_any(struct grammar_builder *builder)
{
    return grammar_regex_repeat(builder, json_text_character(builder), 0, GRAMMAR_UNBOUNDED);
}

regex_id json_text_literal(struct grammar_builder *builder, const char *text)
{
    size_t length = strlen(text), used = 0;
    char *spelled = malloc(length * JSON_TEXT_CHARACTER_BYTES + 1);
    if (!spelled)
        return GRAMMAR_NONE;
    for (size_t at = 0; at < length;) {
        uint32_t code_point;
        at += utf8_decode(text + at, length - at, &code_point);
        used += json_text_spell(code_point, spelled + used);
    }
    regex_id literal = grammar_regex_literal(builder, spelled, used);
    free(spelled);
    return literal;
}
