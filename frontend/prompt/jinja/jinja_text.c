/*
 * str() and repr().
 *
 * Templates print values and join them into strings; Python's form of `1.0`, `None` or `{'a':
 * ["it's"]}` is part of the prompts that models were trained on. One recursive writer: containers
 * are written with repr() of their members; values that Python prints with an address (a macro, a
 * generator) get a fixed text. The text of a container with a caller's string in it is the
 * caller's.
 */
#include "frontend/prompt/jinja/jinja_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_loop.h"
#include "frontend/prompt/jinja/jinja_unicode.h"
#include "proto/utf8.h"

void jinja_text_float(double real, char out[JINJA_FLOAT_BYTES])
{
    if (isnan(real) || isinf(real)) {
        (void)strcpy(out, isnan(real) ? "nan" : (real < 0 ? "-inf" : "inf"));
        return;
    }
    char shortest[32];
    int few = 1;
    int enough = 17; /* always enough; the minimum is found by bisection */
    while (few < enough) {
        int middle = (few + enough) / 2;
        (void)snprintf(shortest, sizeof(shortest), "%.*e", middle - 1, real);
        if (strtod(shortest, NULL) == real)
            enough = middle;
        else
            few = middle + 1;
    }
    (void)snprintf(shortest, sizeof(shortest), "%.*e", enough - 1, real);
    int exponent = atoi(strchr(shortest, 'e') + 1);
    char digits[24];
    size_t count = 0;
    for (const char *at = shortest; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    const char *sign = signbit(real) ? "-" : "";
    int shown = (int)count;
    if (exponent < -4 || exponent >= 16) {
        (void)snprintf(out, JINJA_FLOAT_BYTES, "%s%c%s%.*se%c%02d", sign, digits[0],
                       count > 1 ? "." : "", shown - 1, digits + 1, exponent < 0 ? '-' : '+',
                       abs(exponent));
    } else if (exponent < 0) {
        (void)snprintf(out, JINJA_FLOAT_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", shown,
                       digits);
    } else if (shown <= exponent + 1) {
        (void)snprintf(out, JINJA_FLOAT_BYTES, "%s%.*s%.*s.0", sign, shown, digits,
                       exponent + 1 - shown, "0000000000000000");
    } else {
        (void)snprintf(out, JINJA_FLOAT_BYTES, "%s%.*s.%.*s", sign, exponent + 1, digits,
                       shown - exponent - 1, digits + exponent + 1);
    }
}

static bool append_char_repr(struct jinja_run *run, struct jinja_builder *builder,
                             uint32_t code_point, char quote, bool trusted)
{
    char text[16];
    if (code_point == '\n' || code_point == '\r' || code_point == '\t')
        (void)snprintf(text, sizeof(text), "\\%c",
                       code_point == '\n' ? 'n' : (code_point == '\r' ? 'r' : 't'));
    else if (code_point == (unsigned char)quote || code_point == '\\')
        (void)snprintf(text, sizeof(text), "\\%c", (char)code_point);
    else if (code_point < 0x20 || code_point == 0x7f ||
             (code_point < 0x100 && jinja_unicode_is_unprintable(code_point)))
        (void)snprintf(text, sizeof(text), "\\x%02" PRIx32, code_point);
    else if (code_point < 0x80 || !jinja_unicode_is_unprintable(code_point))
        return jinja_builder_char(run, builder, code_point, trusted);
    else
        (void)snprintf(text, sizeof(text), code_point < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32,
                       code_point);
    return jinja_builder_bytes(run, builder, text, strlen(text), trusted);
}

static bool append_string_repr(struct jinja_run *run, struct jinja_builder *builder,
                               const struct jinja_string *string)
{
    bool trusted = jinja_string_is_trusted(string);
    bool single = memchr(string->bytes, '\'', string->length) != NULL;
    bool both = single && memchr(string->bytes, '"', string->length) != NULL;
    char quote = single && !both ? '"' : '\'';
    if (string->markup && !jinja_builder_text(run, builder, "Markup("))
        return false;
    if (!jinja_builder_bytes(run, builder, &quote, 1, trusted))
        return false;
    for (size_t at = 0; at < string->length;) {
        uint32_t code_point;
        at += utf8_decode(string->bytes + at, string->length - at, &code_point);
        if (!append_char_repr(run, builder, code_point, quote, trusted))
            return false;
    }
    return jinja_builder_bytes(run, builder, &quote, 1, trusted) &&
           (!string->markup || jinja_builder_text(run, builder, ")"));
}

static bool append_repr(struct jinja_run *run, struct jinja_builder *builder,
                        struct jinja_value value);

static bool append_items(struct jinja_run *run, struct jinja_builder *builder,
                         const struct jinja_list *list, const char *open, const char *close)
{
    if (!jinja_builder_text(run, builder, open))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0 && !jinja_builder_text(run, builder, ", "))
            return false;
        if (!append_repr(run, builder, list->items[i]))
            return false;
    }
    return jinja_builder_text(run, builder, close);
}

static bool append_dict(struct jinja_run *run, struct jinja_builder *builder,
                        const struct jinja_dict *dict)
{
    if (!jinja_builder_text(run, builder, "{"))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0 && !jinja_builder_text(run, builder, ", "))
            return false;
        if (!append_repr(run, builder, dict->entries[i].key) ||
            !jinja_builder_text(run, builder, ": ") ||
            !append_repr(run, builder, dict->entries[i].value))
            return false;
    }
    return jinja_builder_text(run, builder, "}");
}

static bool append_view(struct jinja_run *run, struct jinja_builder *builder,
                        const struct jinja_view *view)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    if (!jinja_builder_text(run, builder, names[view->part]))
        return false;
    for (size_t i = 0; i < view->dict->count; i++) {
        const struct jinja_entry *entry = &view->dict->entries[i];
        struct jinja_value pair[2] = {entry->key, entry->value};
        struct jinja_list both = {.items = pair, .count = 2};
        if (i > 0 && !jinja_builder_text(run, builder, ", "))
            return false;
        bool appended = view->part == JINJA_VIEW_ITEMS
                            ? append_items(run, builder, &both, "(", ")")
                            : append_repr(run, builder, pair[view->part]);
        if (!appended)
            return false;
    }
    return jinja_builder_text(run, builder, "])");
}

static bool append_number(struct jinja_run *run, struct jinja_builder *builder,
                          struct jinja_value value)
{
    char text[96];
    const struct jinja_range *range = value.as.range;
    if (value.kind == JINJA_INT)
        (void)snprintf(text, sizeof(text), "%" PRId64, value.as.integer);
    else if (value.kind == JINJA_FLOAT)
        jinja_text_float(value.as.real, text);
    else if (range->step == 1)
        (void)snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ")", range->start,
                       range->stop);
    else
        (void)snprintf(text, sizeof(text), "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                       range->start, range->stop, range->step);
    return (value.kind != JINJA_FLOAT || jinja_run_step(run, JINJA_STEPS_OF_DIGITS)) &&
           jinja_builder_text(run, builder, text);
}

static bool append_repr_inside(struct jinja_run *run, struct jinja_builder *builder,
                               struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_UNDEFINED: return jinja_builder_text(run, builder, "Undefined");
    case JINJA_NONE: return jinja_builder_text(run, builder, "None");
    case JINJA_BOOL: return jinja_builder_text(run, builder, value.as.boolean ? "True" : "False");
    case JINJA_INT:
    case JINJA_FLOAT:
    case JINJA_RANGE: return append_number(run, builder, value);
    case JINJA_STRING: return append_string_repr(run, builder, value.as.string);
    case JINJA_LIST: return append_items(run, builder, value.as.list, "[", "]");
    case JINJA_TUPLE:
        return append_items(run, builder, value.as.list, "(",
                            value.as.list->count == 1 ? ",)" : ")");
    case JINJA_DICT: return append_dict(run, builder, value.as.dict);
    case JINJA_VIEW: return append_view(run, builder, value.as.view);
    case JINJA_NAMESPACE:
        return jinja_builder_text(run, builder, "<Namespace ") &&
               append_dict(run, builder, value.as.names) && jinja_builder_text(run, builder, ">");
    case JINJA_LOOP: return jinja_loop_describe(run, value.as.loop, builder);
    default:
        return jinja_builder_text(run, builder, "<") &&
               jinja_builder_text(run, builder, jinja_value_type(value)) &&
               jinja_builder_text(run, builder, " object>");
    }
}

static bool append_repr(struct jinja_run *run, struct jinja_builder *builder,
                        struct jinja_value value)
{
    if (!jinja_run_enter(run))
        return false;
    bool appended = append_repr_inside(run, builder, value);
    jinja_run_leave(run);
    return appended;
}

bool jinja_text_repr(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_builder builder = {0};
    if (!append_repr(run, &builder, value))
        return false;
    if (builder.trust != NULL) { /* it contains a caller's string */
        builder.trust = NULL;
        builder.trusted = false;
    }
    return jinja_builder_finish(run, &builder, out);
}

bool jinja_text_str(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    if (value.kind == JINJA_STRING) {
        *out = value;
        return true;
    }
    if (value.kind == JINJA_UNDEFINED)
        return jinja_string_literal(run, "", out);
    return jinja_text_repr(run, value, out);
}

bool jinja_text_append(struct jinja_run *run, struct jinja_builder *builder,
                       struct jinja_value value)
{
    struct jinja_value text;
    return jinja_text_str(run, value, &text) && jinja_builder_string(run, builder, text.as.string);
}
