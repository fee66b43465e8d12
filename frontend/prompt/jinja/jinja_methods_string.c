/*
 * String methods that search, cut and join.
 *
 * Templates take replies apart (`content.split('</think>')[-1].lstrip('\n')`), and every piece must
 * keep the provenance of its bytes. Cutting is slicing, which keeps provenance; replacing and
 * joining use the builder, which copies it byte by byte. Positions visible to a template count
 * characters.
 */
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_format.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_methods_case.h"
#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/utf8.h"

static bool in_set(const struct jinja_string *chars, const char *bytes, size_t length)
{
    if (chars == NULL) {
        uint32_t code_point;
        if (length == 1 && (unsigned char)bytes[0] < 0x80)
            return bytes[0] == ' ' || (bytes[0] >= '\t' && bytes[0] <= '\r') ||
                   (bytes[0] >= 0x1c && bytes[0] <= 0x1f);
        (void)utf8_decode(bytes, length, &code_point);
        return jinja_unicode_is_space(code_point);
    }
    for (size_t at = 0; at < chars->length;) {
        bool valid;
        size_t size = utf8_scan(chars->bytes + at, chars->length - at, &valid);
        if (size == length && memcmp(chars->bytes + at, bytes, length) == 0)
            return true;
        at += size;
    }
    return false;
}

/* Start of the last character before `end`, ill-formed or not. */
static size_t previous_char(const struct jinja_string *string, size_t start, size_t end)
{
    if ((unsigned char)string->bytes[end - 1] < 0x80)
        return end - 1;
    for (size_t back = 1; back <= 4 && back <= end - start; back++) {
        bool valid;
        if (utf8_scan(string->bytes + end - back, back, &valid) == back && (valid || back == 1))
            if (((unsigned char)string->bytes[end - back] & 0xc0u) != 0x80)
                return end - back;
    }
    return end - 1;
}

bool jinja_methods_strip(struct jinja_run *run, const struct jinja_string *string,
                         const struct jinja_string *chars, enum jinja_side side,
                         struct jinja_value *out)
{
    size_t start = 0;
    size_t end = string->length;
    while ((side & JINJA_LEFT) != 0 && start < end) {
        bool valid;
        size_t bytes = utf8_scan(string->bytes + start, end - start, &valid);
        if (!in_set(chars, string->bytes + start, bytes))
            break;
        start += bytes;
    }
    while ((side & JINJA_RIGHT) != 0 && start < end) {
        size_t last = previous_char(string, start, end);
        if (!in_set(chars, string->bytes + last, end - last))
            break;
        end = last;
    }
    uint64_t looked_at = string->length - (end - start);
    return jinja_run_scan(run, looked_at * (chars == NULL ? 1 : 1 + chars->length)) &&
           jinja_string_slice(run, string, start, end, out);
}

static bool strip_with(struct jinja_run *run, const struct jinja_call *call, enum jinja_side side,
                       struct jinja_value *out)
{
    const struct jinja_string *chars = NULL;
    if (call->values[0].kind != JINJA_NONE && !jinja_call_string(run, call->values[0], &chars))
        return false;
    return jinja_methods_strip(run, call->self.as.string, chars, side, out);
}

static bool method_strip(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return strip_with(run, call, JINJA_BOTH, out);
}

static bool method_lstrip(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return strip_with(run, call, JINJA_LEFT, out);
}

static bool method_rstrip(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return strip_with(run, call, JINJA_RIGHT, out);
}

bool jinja_methods_replace(struct jinja_run *run, const struct jinja_string *string,
                           const struct jinja_string *old, const struct jinja_string *with,
                           int64_t count, struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    size_t done = 0;
    size_t from = 0;
    for (; count != 0 && from <= string->length; count--) {
        size_t found = jinja_string_find(string, from, old);
        if (found == SIZE_MAX)
            break;
        struct jinja_value before;
        if (!jinja_string_slice(run, string, done, found, &before) ||
            !jinja_builder_string(run, &builder, before.as.string) ||
            !jinja_builder_string(run, &builder, with) || !jinja_run_scan(run, found - done))
            return false;
        done = found + old->length;
        from = done;
        if (old->length == 0) { /* between characters, too */
            bool valid;
            from = done < string->length
                       ? done + utf8_scan(string->bytes + done, string->length - done, &valid)
                       : done + 1;
        }
    }
    struct jinja_value rest;
    return jinja_string_slice(run, string, done, string->length, &rest) &&
           jinja_builder_string(run, &builder, rest.as.string) &&
           jinja_run_scan(run, string->length) && jinja_builder_finish(run, &builder, out);
}

static bool method_replace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    const struct jinja_string *old = NULL;
    const struct jinja_string *with = NULL;
    int64_t count = -1;
    return jinja_call_string(run, call->values[0], &old) &&
           jinja_call_string(run, call->values[1], &with) &&
           jinja_call_integer(run, call->values[2], &count) &&
           jinja_methods_replace(run, call->self.as.string, old, with, count, out);
}

static bool add_slice(struct jinja_run *run, const struct jinja_string *string, size_t start,
                      size_t end, struct jinja_items *parts)
{
    struct jinja_value part;
    return jinja_string_slice(run, string, start, end, &part) && jinja_items_add(run, parts, part);
}

static size_t char_at(const struct jinja_string *string, size_t at, bool *space)
{
    uint32_t code_point;
    size_t bytes = utf8_decode(string->bytes + at, string->length - at, &code_point);
    *space = jinja_unicode_is_space(code_point);
    return bytes;
}

/* split() at runs of blanks; blanks at the ends give no parts. */
static bool split_blanks(struct jinja_run *run, const struct jinja_string *string, int64_t limit,
                         struct jinja_items *parts)
{
    size_t at = 0;
    for (;;) {
        bool space = true;
        while (at < string->length) {
            size_t bytes = char_at(string, at, &space);
            if (!space)
                break;
            at += bytes;
        }
        if (at >= string->length)
            return true;
        size_t start = at;
        bool last = limit >= 0 && parts->count == (size_t)limit;
        while (at < string->length) {
            size_t bytes = char_at(string, at, &space);
            if (space && !last)
                break;
            at += bytes;
        }
        if (!add_slice(run, string, start, at, parts))
            return false;
    }
}

/* rsplit() at runs of blanks, parts in reverse. */
static bool rsplit_blanks(struct jinja_run *run, const struct jinja_string *string, int64_t limit,
                          struct jinja_items *parts)
{
    struct jinja_value rest = jinja_string(string);
    for (;;) {
        if (!jinja_methods_strip(run, rest.as.string, NULL, JINJA_RIGHT, &rest))
            return false;
        const struct jinja_string *left = rest.as.string;
        if (left->length == 0)
            return true;
        if (limit >= 0 && parts->count == (size_t)limit)
            return jinja_items_add(run, parts, rest);
        size_t start = left->length;
        while (start > 0) {
            size_t before = previous_char(left, 0, start);
            bool space;
            (void)char_at(left, before, &space);
            if (space)
                break;
            start = before;
        }
        if (!jinja_run_scan(run, left->length - start) ||
            !add_slice(run, left, start, left->length, parts) ||
            !jinja_string_slice(run, left, 0, start, &rest))
            return false;
    }
}

static bool split_at(struct jinja_run *run, const struct jinja_string *string,
                     const struct jinja_string *separator, int64_t limit, struct jinja_items *parts)
{
    size_t start = 0;
    while (limit < 0 || parts->count < (size_t)limit) {
        size_t found = jinja_string_find(string, start, separator);
        if (found == SIZE_MAX)
            break;
        if (!add_slice(run, string, start, found, parts))
            return false;
        start = found + separator->length;
    }
    return add_slice(run, string, start, string->length, parts);
}

/* The last occurrence of the needle within [start, end), or SIZE_MAX. Costs steps per candidate. */
static bool find_last(struct jinja_run *run, const struct jinja_string *string,
                      const struct jinja_string *needle, size_t start, size_t end, size_t *found)
{
    *found = SIZE_MAX;
    if (needle->length > end - start)
        return true;
    if (needle->length == 0) {
        *found = end;
        return true;
    }
    size_t stop = end - needle->length + 1; /* candidates start before it */
    while (stop > start) {
        const char *first = memrchr(string->bytes + start, needle->bytes[0], stop - start);
        if (first == NULL)
            return true;
        stop = (size_t)(first - string->bytes);
        if (memcmp(first, needle->bytes, needle->length) == 0) {
            *found = stop;
            return true;
        }
        if (!jinja_run_scan(run, needle->length))
            return false;
    }
    return true;
}

/* Parts in reverse. */
static bool rsplit_at(struct jinja_run *run, const struct jinja_string *string,
                      const struct jinja_string *separator, int64_t limit,
                      struct jinja_items *parts)
{
    size_t end = string->length;
    while (limit < 0 || parts->count < (size_t)limit) {
        size_t found;
        if (!find_last(run, string, separator, 0, end, &found))
            return false;
        if (found == SIZE_MAX)
            break;
        if (!add_slice(run, string, found + separator->length, end, parts))
            return false;
        end = found;
    }
    return add_slice(run, string, 0, end, parts);
}

static bool split_with(struct jinja_run *run, const struct jinja_call *call, bool right,
                       struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *separator = NULL;
    struct jinja_items parts = {0};
    int64_t limit = -1;
    if ((call->values[0].kind != JINJA_NONE &&
         !jinja_call_string(run, call->values[0], &separator)) ||
        !jinja_call_integer(run, call->values[1], &limit) || !jinja_run_scan(run, string->length))
        return false;
    if (separator != NULL && separator->length == 0)
        return jinja_fail(run, "empty separator");
    bool split;
    if (separator == NULL)
        split = (right ? rsplit_blanks : split_blanks)(run, string, limit, &parts);
    else
        split = (right ? rsplit_at : split_at)(run, string, separator, limit, &parts);
    if (!split)
        return false;
    for (size_t i = 0; right && i < parts.count / 2; i++) {
        struct jinja_value other = parts.items[parts.count - 1 - i];
        parts.items[parts.count - 1 - i] = parts.items[i];
        parts.items[i] = other;
    }
    return jinja_items_list(run, &parts, JINJA_LIST, out);
}

static bool method_split(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return split_with(run, call, false, out);
}

static bool method_rsplit(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return split_with(run, call, true, out);
}

static bool ends_line(uint32_t code_point)
{
    return (code_point >= '\n' && code_point <= '\r') ||
           (code_point >= 0x1c && code_point <= 0x1e) || code_point == 0x85 ||
           code_point == 0x2028 || code_point == 0x2029;
}

bool jinja_methods_split_lines(struct jinja_run *run, const struct jinja_string *string,
                               bool keep_ends, struct jinja_value *out)
{
    struct jinja_items lines = {0};
    size_t start = 0;
    size_t at = 0;
    while (at < string->length) {
        uint32_t code_point;
        size_t end = at;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        if (!ends_line(code_point))
            continue;
        if (code_point == '\r' && at < string->length && string->bytes[at] == '\n')
            at++;
        if (!add_slice(run, string, start, keep_ends ? at : end, &lines))
            return false;
        start = at;
    }
    if (start < string->length && !add_slice(run, string, start, string->length, &lines))
        return false;
    return jinja_run_scan(run, string->length) && jinja_items_list(run, &lines, JINJA_LIST, out);
}

static bool method_splitlines(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return jinja_methods_split_lines(run, call->self.as.string, jinja_value_truth(call->values[0]),
                                     out);
}

/* Converts [start, end), in characters, to bytes, clamped as in Python; false if start is past the
 * end. */
static bool window(struct jinja_run *run, const struct jinja_string *string,
                   const struct jinja_call *call, size_t *start, size_t *end, bool *inside)
{
    int64_t from = 0;
    int64_t to = INT64_MAX;
    *start = 0;
    *end = string->length;
    *inside = true;
    bool has_from = call->values[1].kind != JINJA_NONE && !jinja_is_absent(call->values[1]);
    bool has_to = call->values[2].kind != JINJA_NONE && !jinja_is_absent(call->values[2]);
    if ((has_from && !jinja_call_integer(run, call->values[1], &from)) ||
        (has_to && !jinja_call_integer(run, call->values[2], &to)) ||
        !jinja_run_scan(run, string->length))
        return false;
    if (!has_from && !has_to)
        return true;
    int64_t chars = (int64_t)jinja_string_chars(string);
    from = from < 0 ? (from + chars < 0 ? 0 : from + chars) : from;
    to = to < 0 ? (to + chars < 0 ? 0 : to + chars) : to;
    *inside = from <= chars && from <= (to > chars ? chars : to);
    *start = jinja_string_offset(string, (size_t)from);
    *end = jinja_string_offset(string, (size_t)to);
    return true;
}

static bool affix_is(const struct jinja_string *string, size_t start, size_t end, bool at_end,
                     const struct jinja_string *affix)
{
    if (affix->length > end - start)
        return false;
    size_t at = at_end ? end - affix->length : start;
    return memcmp(string->bytes + at, affix->bytes, affix->length) == 0;
}

static bool has_affix(struct jinja_run *run, const struct jinja_call *call, bool at_end,
                      struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    struct jinja_list one = {.items = call->values, .count = 1};
    const struct jinja_list *affixes = &one;
    size_t start;
    size_t end;
    bool inside;
    if (call->values[0].kind == JINJA_TUPLE)
        affixes = call->values[0].as.list;
    if (!window(run, string, call, &start, &end, &inside))
        return false;
    bool found = false;
    for (size_t i = 0; !found && i < affixes->count; i++) {
        const struct jinja_string *affix = NULL;
        if (!jinja_call_string(run, affixes->items[i], &affix) || !jinja_run_step(run, 1))
            return false;
        found = inside && affix_is(string, start, end, at_end, affix);
    }
    *out = jinja_bool(found);
    return true;
}

static bool method_startswith(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return has_affix(run, call, false, out);
}

static bool method_endswith(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    return has_affix(run, call, true, out);
}

static bool method_removeprefix(struct jinja_run *run, const struct jinja_call *call,
                                struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *affix = NULL;
    if (!jinja_call_string(run, call->values[0], &affix) || !jinja_run_scan(run, affix->length))
        return false;
    bool has = affix_is(string, 0, string->length, false, affix);
    return jinja_string_slice(run, string, has ? affix->length : 0, string->length, out);
}

static bool method_removesuffix(struct jinja_run *run, const struct jinja_call *call,
                                struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *affix = NULL;
    if (!jinja_call_string(run, call->values[0], &affix) || !jinja_run_scan(run, affix->length))
        return false;
    bool has = affix_is(string, 0, string->length, true, affix);
    return jinja_string_slice(run, string, 0, string->length - (has ? affix->length : 0), out);
}

static bool find_with(struct jinja_run *run, const struct jinja_call *call, bool last,
                      bool must_exist, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *needle = NULL;
    size_t start;
    size_t end;
    bool inside;
    if (!jinja_call_string(run, call->values[0], &needle) ||
        !window(run, string, call, &start, &end, &inside))
        return false;
    struct jinja_string part = {.bytes = string->bytes, .length = end};
    size_t found = SIZE_MAX;
    if (inside && last && !find_last(run, &part, needle, start, end, &found))
        return false;
    if (inside && !last)
        found = jinja_string_find(&part, start, needle);
    if (found == SIZE_MAX && must_exist)
        return jinja_fail(run, "substring not found");
    part.length = found;
    *out = jinja_int(found == SIZE_MAX ? -1 : (int64_t)jinja_string_chars(&part));
    return true;
}

static bool method_find(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return find_with(run, call, false, false, out);
}

static bool method_rfind(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return find_with(run, call, true, false, out);
}

static bool method_index(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return find_with(run, call, false, true, out);
}

static bool method_rindex(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return find_with(run, call, true, true, out);
}

static bool method_count(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *needle = NULL;
    size_t start;
    size_t end;
    bool inside;
    if (!jinja_call_string(run, call->values[0], &needle) ||
        !window(run, string, call, &start, &end, &inside))
        return false;
    struct jinja_string part = {.bytes = string->bytes + start, .length = inside ? end - start : 0};
    int64_t count = 0;
    if (needle->length == 0)
        count = inside ? (int64_t)jinja_string_chars(&part) + 1 : 0;
    for (size_t at = 0; inside && needle->length > 0; at += needle->length, count++) {
        at = jinja_string_find(&part, at, needle);
        if (at == SIZE_MAX)
            break;
    }
    *out = jinja_int(count);
    return true;
}

static bool method_join(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    struct jinja_list parts;
    if (!jinja_cursor_collect(run, call->values[0], &parts))
        return false;
    for (size_t i = 0; i < parts.count; i++) {
        if (parts.items[i].kind != JINJA_STRING)
            return jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                              jinja_value_type(parts.items[i]));
        if ((i > 0 && !jinja_builder_string(run, &builder, call->self.as.string)) ||
            !jinja_builder_string(run, &builder, parts.items[i].as.string))
            return false;
    }
    return jinja_builder_finish(run, &builder, out);
}

static bool partition_with(struct jinja_run *run, const struct jinja_call *call, bool last,
                           struct jinja_value *out)
{
    const struct jinja_string *string = call->self.as.string;
    const struct jinja_string *separator = NULL;
    struct jinja_items parts = {0};
    if (!jinja_call_string(run, call->values[0], &separator) ||
        !jinja_run_scan(run, string->length))
        return false;
    if (separator->length == 0)
        return jinja_fail(run, "empty separator");
    size_t found = jinja_string_find(string, 0, separator);
    if (last && !find_last(run, string, separator, 0, string->length, &found))
        return false;
    size_t cut[4] = {0, found, found + separator->length, string->length};
    if (found == SIZE_MAX) {
        cut[1] = last ? 0 : string->length;
        cut[2] = cut[1];
    }
    for (size_t i = 0; i < 3; i++)
        if (!add_slice(run, string, cut[i], cut[i + 1], &parts))
            return false;
    return jinja_items_list(run, &parts, JINJA_TUPLE, out);
}

static bool method_partition(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    return partition_with(run, call, false, out);
}

static bool method_rpartition(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return partition_with(run, call, true, out);
}

const struct jinja_signature jinja_methods_string[] = {
    {"strip", method_strip, "| chars"},
    {"lstrip", method_lstrip, "| chars"},
    {"rstrip", method_rstrip, "| chars"},
    {"split", method_split, "| sep maxsplit"},
    {"rsplit", method_rsplit, "| sep maxsplit"},
    {"splitlines", method_splitlines, "| keepends"},
    {"startswith", method_startswith, "prefix | start end"},
    {"endswith", method_endswith, "suffix | start end"},
    {"replace", method_replace, "old new | count"},
    {"removeprefix", method_removeprefix, "prefix"},
    {"removesuffix", method_removesuffix, "suffix"},
    {"find", method_find, "sub | start end"},
    {"rfind", method_rfind, "sub | start end"},
    {"index", method_index, "sub | start end"},
    {"rindex", method_rindex, "sub | start end"},
    {"count", method_count, "sub | start end"},
    {"join", method_join, "iterable"},
    {"partition", method_partition, "sep"},
    {"rpartition", method_rpartition, "sep"},
    {"format", jinja_format_method, NULL},
    {"upper", jinja_method_upper, ""},
    {"lower", jinja_method_lower, ""},
    {"capitalize", jinja_method_capitalize, ""},
    {"title", jinja_method_title, ""},
    {"swapcase", jinja_method_swapcase, ""},
    {"isupper", jinja_method_isupper, ""},
    {"islower", jinja_method_islower, ""},
    {"istitle", jinja_method_istitle, ""},
    {"isalpha", jinja_method_isalpha, ""},
    {"isalnum", jinja_method_isalnum, ""},
    {"isdigit", jinja_method_isdigit, ""},
    {"isdecimal", jinja_method_isdecimal, ""},
    {"isnumeric", jinja_method_isnumeric, ""},
    {"isspace", jinja_method_isspace, ""},
    {"isascii", jinja_method_isascii, ""},
    {"isprintable", jinja_method_isprintable, ""},
    {"isidentifier", jinja_method_isidentifier, ""},
    {"center", jinja_method_center, "width | fillchar"},
    {"ljust", jinja_method_ljust, "width | fillchar"},
    {"rjust", jinja_method_rjust, "width | fillchar"},
    {"zfill", jinja_method_zfill, "width"},
    {"expandtabs", jinja_method_expandtabs, "| tabsize"},
    {NULL, NULL, NULL}};
