/*
 * Classes and case mappings by binary search.
 *
 * The problem: templates call upper(), strip(), isdigit() and repr() on text of any script, and the
 * answer must be Python's, not the C library's, whose answer depends on a locale.
 *
 * The idea: tables made by Python itself (scripts/unicode/make_jinja_tables.py), kept as runs
 * because neighbouring letters behave alike. ASCII never reaches a table.
 */
#include "frontend/prompt/jinja/jinja_unicode.h"

#include "frontend/prompt/jinja/jinja_unicode_table.h"
#include "proto/utf8.h"

static bool set_has(const struct jinja_unicode_run runs[], size_t count, uint32_t code_point)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code_point >= runs[low].first &&
           (code_point - runs[low].first) % runs[low].stride == 0;
}

#define DEFINE_SET(name)                                                                           \
    bool jinja_unicode_is_##name(uint32_t code_point)                                              \
    {                                                                                              \
        return set_has(jinja_unicode_##name, jinja_unicode_##name##_count, code_point);            \
    }
JINJA_UNICODE_SETS(DEFINE_SET)

bool jinja_unicode_is_alnum(uint32_t code_point)
{
    return jinja_unicode_is_alpha(code_point) || jinja_unicode_is_numeric(code_point);
}

bool jinja_unicode_is_space(uint32_t code_point)
{
    return (code_point >= 0x1c && code_point <= 0x1f) || utf8_is_space(code_point);
}

static bool map_shift(const struct jinja_unicode_shift shifts[], size_t count, uint32_t code_point,
                      uint32_t *image)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shifts[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || code_point < shifts[low].first ||
        (code_point - shifts[low].first) % shifts[low].stride != 0)
        return false;
    *image = (uint32_t)((int32_t)code_point + shifts[low].delta);
    return true;
}

static size_t map_expand(const struct jinja_unicode_expansion expansions[], size_t count,
                         uint32_t code_point, uint32_t out[3])
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (expansions[middle].from < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || expansions[low].from != code_point)
        return 0;
    size_t written = 0;
    while (written < 3 && expansions[low].to[written] != 0) {
        out[written] = expansions[low].to[written];
        written++;
    }
    return written;
}

static size_t convert_up(bool title, uint32_t code_point, uint32_t out[3])
{
    size_t expanded =
        title
            ? map_expand(jinja_unicode_long_title, jinja_unicode_long_title_count, code_point, out)
            : map_expand(jinja_unicode_long_upper, jinja_unicode_long_upper_count, code_point, out);
    if (expanded > 0)
        return expanded;
    out[0] = code_point;
    if (title &&
        map_shift(jinja_unicode_to_title, jinja_unicode_to_title_count, code_point, &out[0]))
        return 1;
    (void)map_shift(jinja_unicode_to_upper, jinja_unicode_to_upper_count, code_point, &out[0]);
    return 1;
}

size_t jinja_unicode_convert(enum jinja_case to, uint32_t code_point, uint32_t out[3])
{
    if (code_point < 0x80) {
        bool lower = code_point >= 'a' && code_point <= 'z';
        bool upper = code_point >= 'A' && code_point <= 'Z';
        out[0] = code_point;
        if (to == JINJA_CASE_LOWER ? upper : lower)
            out[0] = code_point ^ 0x20u;
        return 1;
    }
    if (to != JINJA_CASE_LOWER)
        return convert_up(to == JINJA_CASE_TITLE, code_point, out);
    if (code_point == 0x130) { /* the one letter that lower case makes longer */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = code_point;
    (void)map_shift(jinja_unicode_to_lower, jinja_unicode_to_lower_count, code_point, &out[0]);
    return 1;
}

bool jinja_unicode_is_titlecase(uint32_t code_point)
{
    uint32_t lower[3];
    return !jinja_unicode_is_upper(code_point) && !jinja_unicode_is_lower(code_point) &&
           jinja_unicode_is_alpha(code_point) &&
           !(jinja_unicode_convert(JINJA_CASE_LOWER, code_point, lower) == 1 &&
             lower[0] == code_point);
}
