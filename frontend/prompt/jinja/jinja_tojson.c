/*
 * tojson.
 *
 * Tools are given to the model as JSON, and models were trained on Python's spacing, key order,
 * escapes and number formats: an implementation of json.dumps with separators, indentation (a
 * number or a string), sorting and ASCII escapes as options. Values that json.dumps refuses are
 * refused (undefined values, generators, macros). The result is the template's own only if every
 * string in it is, since a caller's tool description may contain anything.
 */
#include "frontend/prompt/jinja/jinja_tojson.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"
#include "proto/utf8.h"

struct dump {
    struct jinja_run *run;
    struct jinja_builder builder;
    const struct jinja_string *item_separator;
    const struct jinja_string *key_separator;
    const struct jinja_string *indent; /* of one level; NULL: all on one line */
    size_t level;
    bool ensure_ascii;
    bool sort_keys;
    bool trusted; /* so far */
};

static bool dump_value(struct dump *dump, struct jinja_value value);

static bool put(struct dump *dump, const char *text)
{
    return jinja_builder_text(dump->run, &dump->builder, text);
}

static bool put_escaped_char(struct dump *dump, uint32_t code_point)
{
    static const char controls[] = "\"\\\n\r\t\b\f";
    static const char letters[] = "\"\\nrtbf";
    char text[16];
    const char *control = NULL;
    if (code_point != 0 && code_point < 0x80)
        control = strchr(controls, (int)code_point);
    if (control != NULL) {
        (void)snprintf(text, sizeof(text), "\\%c", letters[control - controls]);
    } else if (code_point > 0xffff && dump->ensure_ascii) {
        uint32_t rest = code_point - 0x10000;
        (void)snprintf(text, sizeof(text), "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (rest >> 10),
                       0xdc00 + (rest & 0x3ff));
    } else {
        (void)snprintf(text, sizeof(text), "\\u%04" PRIx32, code_point);
    }
    return put(dump, text);
}

static bool dump_string(struct dump *dump, const struct jinja_string *string)
{
    size_t done = 0;
    dump->trusted = dump->trusted && jinja_string_is_trusted(string);
    if (!put(dump, "\""))
        return false;
    for (size_t at = 0; at < string->length;) {
        uint32_t code_point;
        size_t bytes = utf8_decode(string->bytes + at, string->length - at, &code_point);
        bool escaped = code_point < 0x20 || code_point == '"' || code_point == '\\' ||
                       (dump->ensure_ascii && code_point >= 0x7f);
        if (escaped) {
            if (!jinja_builder_bytes(dump->run, &dump->builder, string->bytes + done, at - done,
                                     true) ||
                !put_escaped_char(dump, code_point))
                return false;
            done = at + bytes;
        }
        at += bytes;
    }
    return jinja_builder_bytes(dump->run, &dump->builder, string->bytes + done,
                               string->length - done, true) &&
           put(dump, "\"");
}

static bool dump_number(struct dump *dump, struct jinja_value value)
{
    char text[40];
    if (value.kind == JINJA_INT)
        (void)snprintf(text, sizeof(text), "%" PRId64, value.as.integer);
    else if (isfinite(value.as.real))
        jinja_text_float(value.as.real, text);
    else
        (void)snprintf(text, sizeof(text), "%s",
                       isnan(value.as.real) ? "NaN"
                                            : (value.as.real < 0 ? "-Infinity" : "Infinity"));
    return (value.kind != JINJA_FLOAT || jinja_run_step(dump->run, JINJA_STEPS_OF_DIGITS)) &&
           put(dump, text);
}

/* Starts a new line at the current indentation, if there is any. */
static bool break_line(struct dump *dump)
{
    if (dump->indent == NULL)
        return true;
    if (!put(dump, "\n"))
        return false;
    for (size_t i = 0; i < dump->level; i++)
        if (!jinja_builder_bytes(dump->run, &dump->builder, dump->indent->bytes,
                                 dump->indent->length, true))
            return false;
    return true;
}

static bool separate(struct dump *dump, size_t i)
{
    return (i == 0 || jinja_builder_bytes(dump->run, &dump->builder, dump->item_separator->bytes,
                                          dump->item_separator->length, true)) &&
           break_line(dump);
}

static bool dump_list(struct dump *dump, const struct jinja_list *list)
{
    if (list->count == 0)
        return put(dump, "[]");
    if (!put(dump, "["))
        return false;
    dump->level++;
    for (size_t i = 0; i < list->count; i++)
        if (!separate(dump, i) || !dump_value(dump, list->items[i]))
            return false;
    dump->level--;
    return break_line(dump) && put(dump, "]");
}

/* Keys other than strings are written as the strings that JSON needs. */
static bool dump_key(struct dump *dump, struct jinja_value key)
{
    if (key.kind == JINJA_STRING)
        return dump_string(dump, key.as.string);
    if (key.kind != JINJA_NONE && key.kind != JINJA_BOOL && key.kind != JINJA_INT &&
        key.kind != JINJA_FLOAT)
        return jinja_fail(dump->run, "keys must be str, int, float, bool or None, not %s",
                          jinja_value_type(key));
    return put(dump, "\"") && dump_value(dump, key) && put(dump, "\"");
}

/* The order of the entries by key: a merge sort, since insertion into a sorted array would be
 * quadratic. */
static bool sort_entries(struct dump *dump, const struct jinja_dict *dict, const size_t **order)
{
    size_t *from = jinja_run_take(dump->run, dict->count, sizeof(*from));
    size_t *to = jinja_run_take(dump->run, dict->count, sizeof(*to));
    if (from == NULL || to == NULL)
        return false;
    for (size_t i = 0; i < dict->count; i++)
        from[i] = i;
    for (size_t width = 1; width < dict->count; width *= 2) {
        for (size_t start = 0; start < dict->count; start += 2 * width) {
            size_t middle = start + width < dict->count ? start + width : dict->count;
            size_t end = middle + width < dict->count ? middle + width : dict->count;
            size_t left = start;
            size_t right = middle;
            for (size_t at = start; at < end; at++) {
                bool take_right = left == middle;
                if (!take_right && right < end &&
                    !jinja_value_less(dump->run, dict->entries[from[right]].key,
                                      dict->entries[from[left]].key, &take_right))
                    return false;
                to[at] = take_right ? from[right++] : from[left++];
            }
        }
        size_t *swap = from;
        from = to;
        to = swap;
        if (!jinja_run_step(dump->run, dict->count))
            return false;
    }
    *order = from;
    return true;
}

static bool dump_dict(struct dump *dump, const struct jinja_dict *dict)
{
    const size_t *order = NULL;
    if (dict->count == 0)
        return put(dump, "{}");
    if ((dump->sort_keys && !sort_entries(dump, dict, &order)) || !put(dump, "{"))
        return false;
    dump->level++;
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_entry *entry = &dict->entries[order == NULL ? i : order[i]];
        if (!separate(dump, i) || !dump_key(dump, entry->key) ||
            !jinja_builder_bytes(dump->run, &dump->builder, dump->key_separator->bytes,
                                 dump->key_separator->length, true) ||
            !dump_value(dump, entry->value))
            return false;
    }
    dump->level--;
    return break_line(dump) && put(dump, "}");
}

static bool dump_inside(struct dump *dump, struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_NONE: return put(dump, "null");
    case JINJA_BOOL: return put(dump, value.as.boolean ? "true" : "false");
    case JINJA_INT:
    case JINJA_FLOAT: return dump_number(dump, value);
    case JINJA_STRING: return dump_string(dump, value.as.string);
    case JINJA_LIST:
    case JINJA_TUPLE: return dump_list(dump, value.as.list);
    case JINJA_DICT: return dump_dict(dump, value.as.dict);
    default:
        return jinja_fail(dump->run, "Object of type %s is not JSON serializable",
                          jinja_value_type(value));
    }
}

static bool dump_value(struct dump *dump, struct jinja_value value)
{
    if (!jinja_run_enter(dump->run))
        return false;
    bool dumped = dump_inside(dump, value);
    jinja_run_leave(dump->run);
    return dumped;
}

static bool read_indent(struct dump *dump, struct jinja_value indent, bool *given)
{
    struct jinja_builder builder = {0};
    struct jinja_value blanks;
    int64_t width = 0;
    *given = indent.kind != JINJA_NONE && !jinja_is_absent(indent);
    if (!*given)
        return true;
    if (indent.kind == JINJA_STRING) {
        dump->indent = indent.as.string;
        return true;
    }
    if (!jinja_call_integer(dump->run, indent, &width) ||
        !jinja_builder_repeat(dump->run, &builder, ' ', width > 0 ? (size_t)width : 0) ||
        !jinja_builder_finish(dump->run, &builder, &blanks))
        return false;
    dump->indent = blanks.as.string;
    return true;
}

static bool read_separators(struct dump *dump, struct jinja_value separators)
{
    if (separators.kind == JINJA_NONE || jinja_is_absent(separators))
        return true;
    bool pair = (separators.kind == JINJA_TUPLE || separators.kind == JINJA_LIST) &&
                separators.as.list->count == 2;
    if (!pair)
        return jinja_fail(dump->run, "separators must be a pair of strings");
    return jinja_call_string(dump->run, separators.as.list->items[0], &dump->item_separator) &&
           jinja_call_string(dump->run, separators.as.list->items[1], &dump->key_separator);
}

bool jinja_tojson_filter(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    static const struct jinja_string comma = {.bytes = ", ", .length = 2, .trusted = true};
    static const struct jinja_string bare_comma = {.bytes = ",", .length = 1, .trusted = true};
    static const struct jinja_string colon = {.bytes = ": ", .length = 2, .trusted = true};
    struct dump dump = {.run = run, .key_separator = &colon, .trusted = true};
    bool indented;
    if (!read_indent(&dump, call->values[1], &indented))
        return false;
    dump.item_separator = indented ? &bare_comma : &comma;
    dump.ensure_ascii = jinja_value_truth(call->values[0]);
    dump.sort_keys = jinja_value_truth(call->values[3]);
    if (!read_separators(&dump, call->values[2]) || !dump_value(&dump, call->self))
        return false;
    bool plain = jinja_string_is_trusted(dump.item_separator) &&
                 jinja_string_is_trusted(dump.key_separator) &&
                 (dump.indent == NULL || jinja_string_is_trusted(dump.indent));
    dump.builder.trusted = dump.trusted && plain;
    return jinja_builder_finish(run, &dump.builder, out);
}
