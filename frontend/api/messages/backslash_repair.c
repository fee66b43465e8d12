/*
 * Agents paste regular expressions and Windows paths into JSON and sometimes forget to double a
 * backslash; a 400 would end a session of hours. Only a body that was refused as JSON is repaired,
 * so a valid body never changes its meaning. A backslash that happens to form an escape ("C:\new")
 * cannot be told from an intended one and stays.
 *
 * Two passes: count, then copy. Both walk strings through escape_bytes().
 */
#include "frontend/api/messages/backslash_repair.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/hex_digit.h"

/* Bytes of the escape that starts with the backslash at `at`; 0: it is not an escape. */
static size_t escape_bytes(const char *at, const char *end)
{
    if (end - at < 2 || at[1] == '\0')
        return 0;
    if (strchr("\"\\/bfnrt", at[1]))
        return 2;
    if (at[1] != 'u' || end - at < 6)
        return 0;
    for (int i = 2; i < 6; i++) {
        if (hex_digit_value(at[i]) < 0)
            return 0;
    }
    return 6;
}

/* Counts the backslashes that start no escape. Copies `json` to `to` with these doubled, unless
 * `to` is NULL. */
static size_t walk(const char *json, size_t json_bytes, char *to)
{
    const char *end = json + json_bytes;
    bool in_string = false;
    size_t lone = 0;
    for (const char *at = json; at < end;) {
        size_t bytes = in_string && *at == '\\' ? escape_bytes(at, end) : 1;
        if (bytes == 0) {
            lone++;
            bytes = 1;
            if (to)
                *to++ = '\\';
        }
        if (*at == '"')
            in_string = !in_string;
        if (to) {
            memcpy(to, at, bytes);
            to += bytes;
        }
        at += bytes;
    }
    return lone;
}

enum result backslash_repair(const char *json, size_t json_bytes, char **repaired,
                             size_t *repaired_bytes)
{
    size_t lone = walk(json, json_bytes, NULL);
    if (lone == 0)
        return RESULT_NOT_FOUND;
    char *copy = malloc(json_bytes + lone + 1);
    if (!copy)
        return RESULT_OUT_OF_MEMORY;
    (void)walk(json, json_bytes, copy);
    copy[json_bytes + lone] = '\0';
    *repaired = copy;
    *repaired_bytes = json_bytes + lone;
    return RESULT_OK;
}
