/*
 * Names by pattern: one table row per kind of tensor, for any number of layers.
 *
 * A row matches when its text equals the name, with digits in place of each '*'; the digits are
 * copied into the stored name, in order. Several rows may match, because versions of a model class
 * spell a tensor differently. Names asked for come from family files, not from input, so a name
 * that is too long is a bug.
 */
#include "worker/plan/tensor_naming.h"

#include <string.h>

#include "proto/must.h"

#define STARS_MAX 2u

/* What the stars of a pattern stand for. */
struct digits {
    const char *at[STARS_MAX];
    size_t count[STARS_MAX];
    const char *rest; /* of the name, for '%' */
};

static bool matches(const char *pattern, const char *asked, struct digits *digits)
{
    uint32_t stars = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '%') {
            digits->rest = asked;
            return *asked != '\0';
        }
        if (*pattern != '*') {
            if (*asked++ != *pattern)
                return false;
            continue;
        }
        must(stars < STARS_MAX);
        digits->at[stars] = asked;
        digits->count[stars] = strspn(asked, "0123456789");
        if (digits->count[stars] == 0)
            return false;
        asked += digits->count[stars++];
    }
    return *asked == '\0';
}

static void append(struct stored_name *name, size_t *at, const char *bytes, size_t count)
{
    must(count < sizeof name->text - *at);
    memcpy(name->text + *at, bytes, count);
    *at += count;
    name->text[*at] = '\0';
}

/* Whether the row matches `asked`; then *stored is its spelling. */
static bool spell_row(const struct tensor_name *row, struct naming_place place, const char *asked,
                      struct stored_name *stored)
{
    struct digits digits = {0};
    uint32_t stars = 0;
    size_t at = 0;
    if (!matches(row->asked, asked, &digits))
        return false;
    for (const char *c = row->stored; *c; c++) {
        if (*c == '^') {
            append(stored, &at, place.prefix, strlen(place.prefix));
        } else if (*c == '%') {
            append(stored, &at, digits.rest, strlen(digits.rest));
        } else if (*c == '*' && stars == 0 && place.layer) {
            append(stored, &at, place.layer, strlen(place.layer));
            stars++;
        } else if (*c == '*') {
            must(stars < STARS_MAX && digits.at[stars]);
            append(stored, &at, digits.at[stars], digits.count[stars]);
            stars++;
        } else {
            append(stored, &at, c, 1);
        }
    }
    return true;
}

/* The rows to search: the family's own if one of them matches, else the usual ones. */
static const struct tensor_name *rows_for(const struct tensor_naming *naming, const char *asked)
{
    struct digits digits;
    for (const struct tensor_name *row = naming->names; row->asked; row++)
        if (matches(row->asked, asked, &digits))
            return row;
    static const struct tensor_name none = {NULL, NULL};
    return naming->usual ? naming->usual : &none;
}

/* Spells `asked` by the first row that matches; false, with *stored unchanged, if none does. */
static bool spell(const struct tensor_naming *naming, struct naming_place place, const char *asked,
                  struct stored_name *stored)
{
    for (const struct tensor_name *row = rows_for(naming, asked); row->asked; row++)
        if (spell_row(row, place, asked, stored))
            return true;
    return false;
}

const struct checkpoint_tensor *tensor_naming_find(const struct tensor_naming *naming,
                                                   const struct tensor_table *table,
                                                   struct naming_place place, const char *asked,
                                                   struct stored_name *stored)
{
    struct stored_name spelling;
    for (const struct tensor_name *row = rows_for(naming, asked); row->asked; row++) {
        if (!spell_row(row, place, asked, &spelling))
            continue;
        const struct checkpoint_tensor *tensor = tensor_table_find(table, spelling.text);
        if (tensor) {
            *stored = spelling;
            return tensor;
        }
    }
    (void)spell(naming, place, asked, stored);
    return NULL;
}

const char *tensor_naming_find_prefix(const struct tensor_naming *naming,
                                      const struct tensor_table *table, const char *layer,
                                      const char *probe)
{
    for (size_t i = 0; naming->prefixes[i]; i++) {
        struct stored_name stored;
        struct naming_place place = {naming->prefixes[i], layer};
        if (tensor_naming_find(naming, table, place, probe, &stored))
            return naming->prefixes[i];
    }
    return NULL;
}

bool tensor_naming_is_other_part(const struct tensor_naming *naming, struct gguf_string name)
{
    for (size_t i = 0; naming->other_parts && naming->other_parts[i]; i++) {
        size_t length = strlen(naming->other_parts[i]);
        if (name.length >= length && memcmp(name.bytes, naming->other_parts[i], length) == 0)
            return true;
    }
    return false;
}
