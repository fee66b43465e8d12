/*
 * Reads the query part of a URL. Invalid escapes are kept literally; an escaped NUL ends the value,
 * so the result is a string.
 */
#include "frontend/http/query_text.h"

#include <string.h>

#include "frontend/base/hex_digit.h"

/* Decodes one character; advances *at past it. */
static char decode(const char **at)
{
    const char *text = *at;
    if (text[0] == '%' && hex_digit_value(text[1]) >= 0 && hex_digit_value(text[2]) >= 0) {
        *at += 3;
        return (char)(hex_digit_value(text[1]) * 16 + hex_digit_value(text[2]));
    }
    *at += 1;
    return text[0] == '+' ? ' ' : text[0];
}

static void value_decode(const char *text, char *value, size_t value_bytes)
{
    size_t count = 0;
    while (*text && *text != '&' && count + 1 < value_bytes)
        value[count++] = decode(&text);
    value[count] = '\0';
}

bool query_text_find(const char *query, const char *name, char *value, size_t value_bytes)
{
    size_t name_bytes = strlen(name);
    value[0] = '\0';
    for (const char *at = query; *at; at += strcspn(at, "&"), at += *at == '&') {
        if (strncmp(at, name, name_bytes) != 0)
            continue;
        const char *end = at + name_bytes;
        if (*end != '=' && *end != '&' && *end != '\0')
            continue;
        value_decode(*end == '=' ? end + 1 : "", value, value_bytes);
        return true;
    }
    return false;
}
