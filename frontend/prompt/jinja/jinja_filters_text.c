/*
 * Filters on text.
 *
 * Most apply str() to the value and then the string method of the same name. Filters that jinja2
 * defines itself (title, indent, truncate, wordcount) are implemented here.
 */
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_filters.h"
#include "frontend/prompt/jinja/jinja_format.h"
#include "frontend/prompt/jinja/jinja_markup.h"
#include "frontend/prompt/jinja/jinja_methods.h"
#include "frontend/prompt/jinja/jinja_text.h"
#include "frontend/prompt/jinja/jinja_tojson.h"
#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/utf8.h"

static bool cased(struct jinja_run *run, const struct jinja_call *call, enum jinja_casing casing,
                  struct jinja_value *out)
{
    struct jinja_value text;
    return jinja_text_str(run, call->self, &text) &&
           jinja_methods_case(run, text.as.string, casing, out);
}

static bool filter_upper(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return cased(run, call, CASING_UPPER, out);
}

static bool filter_lower(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return cased(run, call, CASING_LOWER, out);
}

static bool filter_capitalize(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    return cased(run, call, CASING_CAPITALIZE, out);
}

static bool starts_word(uint32_t code_point)
{
    return (code_point < 0x80 && code_point != 0 && strchr("-({[<", (int)code_point) != NULL) ||
           jinja_unicode_is_space(code_point);
}

/* Words start after a blank or an opening bracket, unlike in str.title(). */
static bool filter_title(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_value text;
    struct jinja_builder builder = {0};
    bool word_starts = true;
    if (!jinja_text_str(run, call->self, &text))
        return false;
    const struct jinja_string *string = text.as.string;
    bool trusted = jinja_string_is_trusted(string);
    for (size_t at = 0; at < string->length;) {
        uint32_t code_point;
        uint32_t images[3];
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        size_t count = jinja_unicode_convert(word_starts ? JINJA_CASE_UPPER : JINJA_CASE_LOWER,
                                             code_point, images);
        for (size_t i = 0; i < count; i++)
            if (!jinja_builder_char(run, &builder, images[i], trusted))
                return false;
        word_starts = starts_word(code_point);
    }
    return jinja_builder_finish(run, &builder, out);
}

static bool filter_trim(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value text;
    const struct jinja_string *chars = NULL;
    if (!jinja_text_str(run, call->self, &text) ||
        (call->values[0].kind != JINJA_NONE && !jinja_call_string(run, call->values[0], &chars)))
        return false;
    return jinja_methods_strip(run, text.as.string, chars, JINJA_BOTH, out);
}

static bool filter_replace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_value text;
    struct jinja_value old;
    struct jinja_value with;
    int64_t count = -1;
    if (!jinja_text_str(run, call->self, &text) || !jinja_text_str(run, call->values[0], &old) ||
        !jinja_text_str(run, call->values[1], &with) ||
        (call->values[2].kind != JINJA_NONE && !jinja_call_integer(run, call->values[2], &count)))
        return false;
    return jinja_methods_replace(run, text.as.string, old.as.string, with.as.string, count, out);
}

static bool filter_string(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    return jinja_text_str(run, call->self, out);
}

static bool filter_safe(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value text;
    return jinja_text_str(run, call->self, &text) && jinja_markup_mark(run, text.as.string, out);
}

static bool filter_escape(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_value text;
    return jinja_text_str(run, call->self, &text) && jinja_markup_escape(run, text.as.string, out);
}

static bool filter_center(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    static const struct jinja_string blank = {.bytes = " ", .length = 1, .trusted = true};
    struct jinja_value text;
    int64_t width = 80;
    return jinja_text_str(run, call->self, &text) &&
           jinja_call_integer(run, call->values[0], &width) &&
           jinja_methods_pad(run, text.as.string, width, &blank, JINJA_BOTH, out);
}

/* The indentation of each further line: blanks, or the string that was passed. */
static bool indentation(struct jinja_run *run, struct jinja_value width, struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    int64_t blanks = 4;
    if (width.kind == JINJA_STRING) {
        *out = width;
        return true;
    }
    return jinja_call_integer(run, width, &blanks) &&
           jinja_builder_repeat(run, &builder, ' ', blanks > 0 ? (size_t)blanks : 0) &&
           jinja_builder_finish(run, &builder, out);
}

static bool filter_indent(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_value indent;
    struct jinja_value lines;
    struct jinja_builder builder = {0};
    const struct jinja_string *text = NULL;
    bool first = jinja_value_truth(call->values[1]);
    bool blank = jinja_value_truth(call->values[2]);
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (!jinja_call_string(run, call->self, &text) || !indentation(run, call->values[0], &indent) ||
        !jinja_methods_split_lines(run, text, false, &lines))
        return false;
    const struct jinja_list *list = lines.as.list;
    bool ends_in_newline = text->length > 0 && text->bytes[text->length - 1] == '\n';
    size_t count = list->count + (ends_in_newline || text->length == 0 ? 1 : 0);
    for (size_t i = 0; i < count; i++) {
        const struct jinja_string *line = i < list->count ? list->items[i].as.string : NULL;
        bool empty = line == NULL || line->length == 0;
        if (i > 0 && !jinja_builder_text(run, &builder, "\n"))
            return false;
        if ((i == 0 ? first : (blank || !empty)) &&
            !jinja_builder_string(run, &builder, indent.as.string))
            return false;
        if (line != NULL && !jinja_builder_string(run, &builder, line))
            return false;
    }
    return jinja_builder_finish(run, &builder, out);
}

static bool truncate_cut(struct jinja_run *run, const struct jinja_string *text, int64_t chars,
                         bool kill_words, const struct jinja_string *end, struct jinja_value *out)
{
    struct jinja_value head;
    struct jinja_value tail = jinja_string(end);
    size_t cut = jinja_string_offset(text, chars > 0 ? (size_t)chars : 0);
    if (!kill_words) {
        const char *space = memrchr(text->bytes, ' ', cut);
        if (space != NULL)
            cut = (size_t)(space - text->bytes);
    }
    return jinja_string_slice(run, text, 0, cut, &head) &&
           jinja_string_concat(run, head.as.string, tail.as.string, out);
}

static bool filter_truncate(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    static const struct jinja_string dots = {.bytes = "...", .length = 3, .trusted = true};
    const struct jinja_string *text = NULL;
    const struct jinja_string *end = &dots;
    int64_t length = 255;
    int64_t leeway = 5;
    bool has_leeway = call->values[3].kind != JINJA_NONE;
    size_t chars;
    if (!jinja_call_integer(run, call->values[0], &length) ||
        !jinja_call_string(run, call->values[2], &end) ||
        (has_leeway && !jinja_call_integer(run, call->values[3], &leeway)))
        return false;
    if (call->self.kind == JINJA_STRING && !jinja_run_scan(run, call->self.as.string->length))
        return false;
    if (!jinja_cursor_length(call->self, &chars))
        return jinja_fail(run, "object of type '%s' has no len()", jinja_value_type(call->self));
    int64_t end_chars = (int64_t)jinja_string_chars(end);
    int64_t longest = 0;
    if (length < end_chars || leeway < 0 || __builtin_add_overflow(length, leeway, &longest))
        return jinja_fail(run, "truncate: length or leeway out of range");
    if ((int64_t)chars <= longest) {
        *out = call->self;
        return true;
    }
    return jinja_call_string(run, call->self, &text) && jinja_run_scan(run, text->length) &&
           truncate_cut(run, text, length - end_chars, jinja_value_truth(call->values[1]), end,
                        out);
}

static bool filter_wordcount(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    struct jinja_value text;
    int64_t words = 0;
    bool inside = false;
    if (!jinja_text_str(run, call->self, &text) || !jinja_run_scan(run, text.as.string->length * 4))
        return false;
    for (size_t at = 0; at < text.as.string->length;) {
        uint32_t code_point;
        at += utf8_decode(text.as.string->bytes + at, text.as.string->length - at, &code_point);
        bool word = code_point == '_' || jinja_unicode_is_alnum(code_point);
        words += word && !inside ? 1 : 0;
        inside = word;
    }
    *out = jinja_int(words);
    return true;
}

static bool append_quoted(struct jinja_run *run, struct jinja_builder *builder,
                          struct jinja_value value, bool query)
{
    static const char digits[] = "0123456789ABCDEF";
    struct jinja_value text;
    if (!jinja_text_str(run, value, &text))
        return false;
    bool trusted = jinja_string_is_trusted(text.as.string);
    for (size_t at = 0; at < text.as.string->length; at++) {
        unsigned char c = (unsigned char)text.as.string->bytes[at];
        char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
        bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
        bool plain = letter || (c != 0 && c < 0x80 && strchr("_.-~", c) != NULL);
        bool appended;
        if (plain || (!query && c == '/'))
            appended = jinja_builder_bytes(run, builder, text.as.string->bytes + at, 1, trusted);
        else if (query && c == ' ')
            appended = jinja_builder_bytes(run, builder, "+", 1, trusted);
        else
            appended = jinja_builder_bytes(run, builder, escaped, 3, trusted);
        if (!appended)
            return false;
    }
    return true;
}

static bool filter_urlencode(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    struct jinja_value pairs = call->self;
    struct jinja_view items = {.part = JINJA_VIEW_ITEMS};
    struct jinja_list list;
    if (call->self.kind == JINJA_STRING || !jinja_cursor_can(call->self))
        return append_quoted(run, &builder, call->self, false) &&
               jinja_builder_finish(run, &builder, out);
    if (call->self.kind == JINJA_DICT) {
        items.dict = call->self.as.dict;
        pairs = (struct jinja_value){.kind = JINJA_VIEW, .as.view = &items};
    }
    if (!jinja_cursor_collect(run, pairs, &list))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct jinja_list pair;
        if (!jinja_cursor_collect(run, list.items[i], &pair))
            return false;
        if (pair.count != 2)
            return jinja_fail(run, "not enough values to unpack (expected 2, got %zu)", pair.count);
        if ((i > 0 && !jinja_builder_text(run, &builder, "&")) ||
            !append_quoted(run, &builder, pair.items[0], true) ||
            !jinja_builder_text(run, &builder, "=") ||
            !append_quoted(run, &builder, pair.items[1], true))
            return false;
    }
    return jinja_builder_finish(run, &builder, out);
}

const struct jinja_signature jinja_filters_text[] = {
    {"upper", filter_upper, ""},
    {"lower", filter_lower, ""},
    {"capitalize", filter_capitalize, ""},
    {"title", filter_title, ""},
    {"trim", filter_trim, "| chars"},
    {"replace", filter_replace, "old new | count"},
    {"string", filter_string, ""},
    {"safe", filter_safe, ""},
    {"e", filter_escape, ""},
    {"escape", filter_escape, ""},
    {"forceescape", filter_escape, ""},
    {"center", filter_center, "| width"},
    {"indent", filter_indent, "| width first blank"},
    {"truncate", filter_truncate, "| length killwords end leeway"},
    {"wordcount", filter_wordcount, ""},
    {"urlencode", filter_urlencode, ""},
    {"format", jinja_format_filter, NULL},
    {"tojson", jinja_tojson_filter, "| ensure_ascii indent separators sort_keys"},
    {NULL, NULL, NULL}};
