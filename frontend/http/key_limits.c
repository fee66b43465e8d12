/*
 * One table of names; a word at a time.
 */
#include "frontend/http/key_limits.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 10u /* of KEY_LIMIT_MAX */

static const struct {
    const char *name;
    size_t offset; /* in struct key_limits */
} attributes[] = {{"requests", offsetof(struct key_limits, requests)},
                  {"tokens", offsetof(struct key_limits, tokens)},
                  {"images", offsetof(struct key_limits, images)},
                  {"concurrent", offsetof(struct key_limits, concurrent)}};

static bool word_parse(const char *word, size_t bytes, struct client_rights *rights)
{
    if (bytes == strlen("admin") && memcmp(word, "admin", bytes) == 0) {
        rights->admin = true;
        return true;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        size_t name = strlen(attributes[i].name);
        if (bytes <= name + 1 || memcmp(word, attributes[i].name, name) != 0 || word[name] != '=')
            continue;
        size_t digits = bytes - name - 1;
        char number[DIGITS_MAX + 1] = {0};
        if (digits > DIGITS_MAX || strspn(word + name + 1, "0123456789") < digits)
            return false;
        memcpy(number, word + name + 1, digits);
        uint64_t value = strtoull(number, NULL, 10);
        memcpy((char *)&rights->limits + attributes[i].offset, &value, sizeof value);
        return value <= KEY_LIMIT_MAX;
    }
    return false;
}

bool key_limits_parse(const char *text, size_t bytes, struct client_rights *rights)
{
    for (const char *at = text, *end = text + bytes; at < end; at++) {
        const char *word = at;
        while (at < end && *at != ' ' && *at != '\t')
            at++;
        if (at > word && !word_parse(word, (size_t)(at - word), rights))
            return false;
    }
    return true;
}
