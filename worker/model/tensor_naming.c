/*
 * Names by pattern: a table row a kind of tensor, whatever the number of layers.
 *
 * A row matches when the text before and behind its '*' is the asked name's and digits stand
 * between; they are copied into the stored name. Names asked for come from family files, not from
 * input, so one that does not fit is a bug.
 */
#include "worker/model/tensor_naming.h"

#include <string.h>

#include "proto/must.h"

/* Whether `asked` matches; the digits for '*' are then its `*digit_count` bytes at `*digits`. */
static bool matches(const char *pattern, const char *asked, const char **digits,
                    size_t *digit_count)
{
    const char *star = strchr(pattern, '*');
    *digit_count = 0;
    if (!star)
        return strcmp(pattern, asked) == 0;
    size_t front = (size_t)(star - pattern);
    if (strncmp(pattern, asked, front) != 0)
        return false;
    *digits = asked + front;
    *digit_count = strspn(*digits, "0123456789");
    return *digit_count > 0 && strcmp(star + 1, *digits + *digit_count) == 0;
}

static void append(struct stored_name *name, size_t *at, const char *bytes, size_t count)
{
    must(count < sizeof name->text - *at);
    memcpy(name->text + *at, bytes, count);
    *at += count;
    name->text[*at] = '\0';
}

bool tensor_naming_spell(const struct tensor_naming *naming, const char *prefix, const char *asked,
                         struct stored_name *stored)
{
    const char *digits = NULL;
    size_t digit_count = 0, at = 0;
    const struct tensor_name *row = naming->names;
    while (row->asked && !matches(row->asked, asked, &digits, &digit_count))
        row++;
    if (!row->asked)
        return false;
    for (const char *c = row->stored; *c; c++) {
        if (*c == '^')
            append(stored, &at, prefix, strlen(prefix));
        else if (*c == '*')
            append(stored, &at, digits, digit_count);
        else
            append(stored, &at, c, 1);
    }
    return true;
}

const char *tensor_naming_find_prefix(const struct tensor_naming *naming,
                                      const struct tensor_table *table, const char *probe)
{
    for (size_t i = 0; naming->prefixes[i]; i++) {
        struct stored_name stored;
        must(tensor_naming_spell(naming, naming->prefixes[i], probe, &stored));
        if (tensor_table_find(table, stored.text))
            return naming->prefixes[i];
    }
    return NULL;
}

bool tensor_naming_is_other_part(const struct tensor_naming *naming, struct gguf_string name)
{
    for (size_t i = 0; naming->other_parts[i]; i++) {
        size_t length = strlen(naming->other_parts[i]);
        if (name.length >= length && memcmp(name.bytes, naming->other_parts[i], length) == 0)
            return true;
    }
    return false;
}
