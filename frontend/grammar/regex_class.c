/*
 * Character classes and escapes of regular expressions, as ECMAScript with the u flag reads them:
 * \d, \w are ASCII, \s is Unicode's white space, "." leaves out the four line ends.
 * Escapes of other dialects with another meaning are refused, and so are halves of surrogate pairs,
 * which no JSON text contains.
 */
#include <stdio.h>
#include <string.h>

#include "frontend/grammar/regex_tree.h"
#include "proto/utf8.h"

static const struct code_point_range DIGITS[] = {{'0', '9'}};
static const struct code_point_range WORDS[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct code_point_range SPACES[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF},
};

bool regex_refuse(struct grammar_error *error, size_t at, const char *reason)
{
    snprintf(error->message, sizeof(error->message), "the regular expression at byte %zu: %s", at,
             reason);
    return false;
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Exactly `digits` hexadecimal digits. */
static bool hex_read(const char *pattern, size_t length, size_t *at, uint32_t digits,
                     uint32_t *value)
{
    if (length - *at < digits)
        return false;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int digit = hex_value(pattern[*at + i]);
        if (digit < 0)
            return false;
        sum = sum * 16 + (uint32_t)digit;
    }
    *at += digits;
    *value = sum;
    return true;
}

static bool braced_hex_read(const char *pattern, size_t length, size_t *at, uint32_t *value)
{
    size_t place = *at + 1; /* after '{' */
    uint32_t sum = 0;
    size_t digits = 0;
    for (; place < length && hex_value(pattern[place]) >= 0; place++, digits++) {
        sum = sum * 16 + (uint32_t)hex_value(pattern[place]);
        if (sum > CODE_POINT_LAST)
            return false;
    }
    if (digits == 0 || place == length || pattern[place] != '}')
        return false;
    *at = place + 1;
    *value = sum;
    return true;
}

/* \uXXXX, \u{X...}, and two \uXXXX that form a surrogate pair. *at is after the 'u'. */
static bool unicode_escape(const char *pattern, size_t length, size_t *at, uint32_t *value)
{
    if (*at < length && pattern[*at] == '{')
        return braced_hex_read(pattern, length, at, value);
    if (!hex_read(pattern, length, at, 4, value))
        return false;
    size_t low_at = *at + 2;
    uint32_t low;
    if (*value >= 0xD800 && *value < 0xDC00 && low_at < length && pattern[*at] == '\\' &&
        pattern[*at + 1] == 'u' && hex_read(pattern, length, &low_at, 4, &low) && low >= 0xDC00 &&
        low < 0xE000) {
        *value = 0x10000 + ((*value - 0xD800) << 10) + (low - 0xDC00);
        *at = low_at;
    }
    return true;
}

static bool class_named(char name, struct code_point_set *set)
{
    switch (name | 0x20) {
    case 'd': code_point_set_add_all(set, DIGITS, 1); break;
    case 'w': code_point_set_add_all(set, WORDS, 4); break;
    case 's': code_point_set_add_all(set, SPACES, sizeof(SPACES) / sizeof(SPACES[0])); break;
    default: return false;
    }
    if (name < 'a')
        code_point_set_negate(set);
    return true;
}

static bool control_letter(char name, bool in_class, uint32_t *value)
{
    switch (name) {
    case 't': *value = '\t'; return true;
    case 'n': *value = '\n'; return true;
    case 'r': *value = '\r'; return true;
    case 'f': *value = '\f'; return true;
    case 'v': *value = '\v'; return true;
    case 'b': *value = '\b'; return in_class;
    default: return false;
    }
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* \xXX, \uXXXX, \cX and \0; *at is after the letter. */
static bool numeric_escape(const char *pattern, size_t length, size_t *at, char name,
                           uint32_t *value)
{
    if (name == 'x')
        return hex_read(pattern, length, at, 2, value);
    if (name == 'u')
        return unicode_escape(pattern, length, at, value);
    if (name == 'c') {
        if (*at == length || !is_letter(pattern[*at]))
            return false;
        *value = (uint32_t)pattern[(*at)++] & 0x1F;
        return true;
    }
    *value = 0; /* \0 that no digit follows: an octal number would mean something else */
    return name == '0' && (*at == length || pattern[*at] < '0' || pattern[*at] > '9');
}

bool regex_class_escape(const char *pattern, size_t length, size_t *at, bool in_class,
                        struct code_point_set *set, bool *single, struct grammar_error *error)
{
    size_t start = *at;
    code_point_set_clear(set);
    *single = true;
    if (start == length)
        return regex_refuse(error, start, "a backslash at the end");
    char name = pattern[start];
    uint32_t value;
    *at = start + 1;
    if (class_named(name, set)) {
        *single = false;
        return true;
    }
    if (control_letter(name, in_class, &value)) {
        code_point_set_add(set, value, value);
        return true;
    }
    if (name == 'x' || name == 'u' || name == 'c' || name == '0') {
        if (!numeric_escape(pattern, length, at, name, &value))
            return regex_refuse(error, start, "an invalid numeric escape");
        if (value >= 0xD800 && value < 0xE000)
            return regex_refuse(error, start, "half of a surrogate pair");
        code_point_set_add(set, value, value);
        return true;
    }
    if (name == 'b' || name == 'B')
        return regex_refuse(error, start, "word boundaries are not supported");
    if (name == 'p' || name == 'P')
        return regex_refuse(error, start, "Unicode properties are not supported");
    if ((name >= '1' && name <= '9') || name == 'k')
        return regex_refuse(error, start, "back references are not supported");
    if (is_letter(name))
        return regex_refuse(error, start, "an unknown escape");
    *at = start + utf8_decode(pattern + start, length - start, &value);
    code_point_set_add(set, value, value);
    return true;
}

/* One member of a class: a character or an escape. */
static bool class_member(const char *pattern, size_t length, size_t *at, struct code_point_set *set,
                         bool *single, struct grammar_error *error)
{
    if (pattern[*at] == '\\') {
        ++*at;
        return regex_class_escape(pattern, length, at, true, set, single, error);
    }
    uint32_t value;
    *at += utf8_decode(pattern + *at, length - *at, &value);
    code_point_set_clear(set);
    code_point_set_add(set, value, value);
    *single = true;
    return true;
}

static bool class_item(const char *pattern, size_t length, size_t *at, struct code_point_set *set,
                       struct code_point_set *member, struct grammar_error *error)
{
    bool single, last_single;
    size_t start = *at;
    if (!class_member(pattern, length, at, member, &single, error))
        return false;
    bool is_range = length - *at >= 2 && pattern[*at] == '-' && pattern[*at + 1] != ']';
    if (!is_range || !single) {
        code_point_set_add_all(set, member->ranges, member->count);
        return true;
    }
    uint32_t first = member->ranges[0].first;
    size_t dash = (*at)++;
    if (!class_member(pattern, length, at, member, &last_single, error))
        return false;
    if (!last_single) { /* [a-\d]: three members, as without the u flag */
        code_point_set_add(set, first, first);
        *at = dash + 1;
        code_point_set_add(set, '-', '-');
        return true;
    }
    if (member->ranges[0].first < first)
        return regex_refuse(error, start, "a range that ends before it begins");
    code_point_set_add(set, first, member->ranges[0].first);
    return true;
}

bool regex_class_read(const char *pattern, size_t length, size_t *at, struct code_point_set *set,
                      struct grammar_error *error)
{
    struct code_point_set member;
    size_t start = *at;
    bool negated = *at < length && pattern[*at] == '^';
    *at += negated;
    code_point_set_clear(set);
    while (*at < length && pattern[*at] != ']') {
        if (pattern[*at] == '[' && *at + 1 < length && strchr(":.=", pattern[*at + 1]) != NULL)
            return regex_refuse(error, *at, "named classes are not supported");
        if (!class_item(pattern, length, at, set, &member, error))
            return false;
    }
    if (*at == length)
        return regex_refuse(error, start, "a class without ]");
    ++*at;
    if (negated)
        code_point_set_negate(set);
    else
        code_point_set_normalize(set);
    return !set->overflown || regex_refuse(error, start, "a class of too many ranges");
}
