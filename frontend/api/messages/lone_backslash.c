/*
 * Agents paste regular expressions and Windows paths into their JSON by hand and forget to double a
 * backslash now and then; a 400 would end a session that is hours long. Only what no JSON parser
 * takes is touched, and only once a body has been refused, so that no valid body can change its
 * meaning. A backslash that happens to make an escape ("C:\new") cannot be told from one that was
 * meant to, and stays.
 *
 * Two passes: count, then copy. Both walk strings the same way, through escape_bytes().
 */
#include "frontend/api/messages/lone_backslash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Bytes of the escape that begins with the backslash at `at`; 0: it begins none. */
static size_t escape_bytes(const char *at, const char *end)
{
    if (end - at < 2 || at[1] == '\0')
        return 0;
    if (strchr("\"\\/bfnrt", at[1]))
        return 2;
    if (at[1] != 'u' || end - at < 6)
        return 0;
    for (int i = 2; i < 6; i++) {
        if (!is_hex(at[i]))
            return 0;
    }
    return 6;
}

/* How many lone backslashes there are. Copies with each of them doubled to `to`, unless it is NULL.
 */
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

char *lone_backslash_repair(const char *json, size_t json_bytes, size_t *repaired_bytes)
{
    size_t lone = walk(json, json_bytes, NULL);
    char *repaired = lone > 0 ? malloc(json_bytes + lone + 1) : NULL;
    if (!repaired)
        return NULL;
    (void)walk(json, json_bytes, repaired);
    *repaired_bytes = json_bytes + lone;
    repaired[*repaired_bytes] = '\0';
    return repaired;
}
