/*
 * Reads the parts of a name one after the other, each up to its separator.
 */
#include "frontend/hub/hub_name.h"

#include <stdio.h>
#include <string.h>

#define LETTERS       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
#define FOLDER_PREFIX "models--"

/* Copies the part at the start of `text`; returns its length, 0 if it is none. */
static size_t part_take(const char *text, char *part, size_t capacity)
{
    size_t length = strspn(text, LETTERS);
    if (text[0] == '.' || text[0] == '-' || length == 0 || length >= capacity)
        return 0;
    memcpy(part, text, length);
    part[length] = '\0';
    return length;
}

/* Parts with slashes between them. */
static size_t revision_take(const char *text, char revision[HUB_REVISION_BYTES])
{
    size_t at = 0;
    for (;;) {
        size_t length = part_take(text + at, revision + at, HUB_REVISION_BYTES - at);
        if (length == 0 || (length >= 5 && strncmp(text + at + length - 5, ".lock", 5) == 0))
            return 0;
        at += length;
        if (text[at] != '/')
            return strstr(revision, "..") ? 0 : at;
        if (at + 2 >= HUB_REVISION_BYTES)
            return 0;
        revision[at++] = '/';
    }
}

bool hub_name_parse(const char *text, struct hub_name *name)
{
    *name = (struct hub_name){.revision = "main"};
    size_t length = part_take(text, name->org, sizeof name->org);
    if (length == 0 || text[length] != '/')
        return false;
    text += length + 1;
    length = part_take(text, name->name, sizeof name->name);
    if (length == 0)
        return false;
    text += length;
    if (*text == ':') {
        length = part_take(text + 1, name->quant, sizeof name->quant);
        if (length == 0)
            return false;
        text += 1 + length;
    }
    if (*text == '@') {
        length = revision_take(text + 1, name->revision);
        if (length == 0)
            return false;
        name->has_revision = true;
        text += 1 + length;
    }
    return *text == '\0';
}

void hub_name_folder(const struct hub_name *name, char folder[HUB_FOLDER_BYTES])
{
    snprintf(folder, HUB_FOLDER_BYTES, FOLDER_PREFIX "%s--%s", name->org, name->name);
}

bool hub_name_from_folder(const char *folder, struct hub_name *name)
{
    size_t prefix = sizeof FOLDER_PREFIX - 1;
    if (strncmp(folder, FOLDER_PREFIX, prefix) != 0)
        return false;
    const char *text = folder + prefix;
    const char *dashes = strstr(text, "--");
    char joined[2 * HUB_PART_BYTES + 1];
    if (!dashes || snprintf(joined, sizeof joined, "%.*s/%s", (int)(dashes - text), text,
                            dashes + 2) >= (int)sizeof joined)
        return false;
    return hub_name_parse(joined, name);
}

bool hub_commit_is_valid(const char *text)
{
    return strspn(text, "0123456789abcdef") >= HUB_COMMIT_BYTES - 1;
}
