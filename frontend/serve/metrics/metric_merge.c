/*
 * A family is its HELP line, its TYPE line and the samples up to the next HELP line. There are some
 * hundred families, so a family is looked up by comparing HELP lines.
 */
#include "frontend/serve/metrics/metric_merge.h"

#include <stdbool.h>
#include <string.h>

static const char help_word[] = "# HELP ";

struct family {
    const char *help;
    size_t help_bytes; /* of the line */
    const char *samples;
    size_t sample_bytes;
};

static size_t line_bytes(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
}

/* Reads the family at `*at` and moves past it; false at the end. */
static bool family_read(const char **at, const char *end, struct family *family)
{
    if (*at == end)
        return false;
    family->help = *at;
    family->help_bytes = line_bytes(*at, end);
    *at += family->help_bytes;
    *at += line_bytes(*at, end); /* TYPE */
    family->samples = *at;
    while (*at < end && ((size_t)(end - *at) < sizeof help_word - 1 ||
                         memcmp(*at, help_word, sizeof help_word - 1) != 0))
        *at += line_bytes(*at, end);
    family->sample_bytes = (size_t)(*at - family->samples);
    return true;
}

static bool page_find(const struct text_buffer *page, const struct family *wanted,
                      struct family *found)
{
    if (page->length == 0)
        return false;
    const char *at = page->bytes;
    const char *end = page->bytes + page->length;
    while (family_read(&at, end, found))
        if (found->help_bytes == wanted->help_bytes &&
            memcmp(found->help, wanted->help, wanted->help_bytes) == 0)
            return true;
    return false;
}

static bool any_has(const struct text_buffer *pages, size_t count, const struct family *family)
{
    struct family found;
    for (size_t i = 0; i < count; i++)
        if (page_find(&pages[i], family, &found))
            return true;
    return false;
}

void metric_merge(const struct text_buffer *pages, size_t count, struct text_buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        if (pages[i].length == 0)
            continue;
        const char *at = pages[i].bytes;
        const char *end = pages[i].bytes + pages[i].length;
        struct family family, more;
        while (family_read(&at, end, &family)) {
            if (any_has(pages, i, &family))
                continue;
            text_buffer_append(out, family.help,
                               (size_t)(family.samples + family.sample_bytes - family.help));
            for (size_t other = i + 1; other < count; other++)
                if (page_find(&pages[other], &family, &more))
                    text_buffer_append(out, more.samples, more.sample_bytes);
        }
    }
}
