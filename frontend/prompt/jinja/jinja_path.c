/*
 * Attribute paths of filters: split once, then looked up in each item with the rules of `x[key]`.
 * Parts that are all digits are indices.
 */
#include "frontend/prompt/jinja/jinja_path.h"

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_member.h"
#include "frontend/prompt/jinja/jinja_methods.h"

static bool part_value(struct jinja_run *run, const struct jinja_string *text, size_t start,
                       size_t end, struct jinja_value *out)
{
    int64_t index = 0;
    bool digits = end > start && end - start < 18;
    for (size_t at = start; digits && at < end; at++) {
        digits = text->bytes[at] >= '0' && text->bytes[at] <= '9';
        index = index * 10 + (text->bytes[at] - '0');
    }
    if (digits) {
        *out = jinja_int(index);
        return true;
    }
    return jinja_string_slice(run, text, start, end, out);
}

bool jinja_path_parse(struct jinja_run *run, struct jinja_value attribute, struct jinja_path *path)
{
    struct jinja_items parts = {0};
    struct jinja_value part = attribute;
    if (jinja_is_absent(attribute) || attribute.kind == JINJA_NONE)
        return true;
    if (attribute.kind == JINJA_STRING) {
        const struct jinja_string *text = attribute.as.string;
        size_t start = 0;
        for (size_t at = 0; at <= text->length; at++) {
            if (at < text->length && text->bytes[at] != '.')
                continue;
            if (!part_value(run, text, start, at, &part) || !jinja_items_add(run, &parts, part))
                return false;
            start = at + 1;
        }
    } else if (!jinja_items_add(run, &parts, part)) {
        return false;
    }
    path->parts = parts.items;
    path->count = parts.count;
    return true;
}

bool jinja_path_follow(struct jinja_run *run, const struct jinja_path *path,
                       struct jinja_value item, struct jinja_value *out)
{
    for (size_t i = 0; i < path->count; i++) {
        if (!jinja_member_index(run, item, path->parts[i], &item))
            return false;
        bool fallback = item.kind == JINJA_UNDEFINED && !jinja_is_absent(path->fallback) &&
                        path->fallback.kind != JINJA_NONE;
        if (fallback)
            item = path->fallback;
    }
    *out = item;
    return !path->lower || item.kind != JINJA_STRING ||
           jinja_methods_case(run, item.as.string, CASING_LOWER, out);
}
