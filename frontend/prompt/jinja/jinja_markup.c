/*
 * Markup.
 *
 * Autoescape is off for chat templates, yet `tools | tojson | safe` is common, and in Python adding
 * plain text to the result of `safe` escapes that text. Here markup is a flag on the string, which
 * concatenation checks. String methods do not preserve the flag, as no template relies on it: their
 * result is plain.
 */
#include "frontend/prompt/jinja/jinja_markup.h"

bool jinja_markup_mark(struct jinja_run *run, const struct jinja_string *string,
                       struct jinja_value *out)
{
    struct jinja_string *marked = jinja_run_take(run, 1, sizeof(*marked));
    if (marked == NULL)
        return false;
    *marked = *string;
    marked->markup = true;
    *out = jinja_string(marked);
    return true;
}

bool jinja_markup_escape(struct jinja_run *run, const struct jinja_string *string,
                         struct jinja_value *out)
{
    static const struct {
        char plain;
        const char *escaped;
    } entities[] = {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct jinja_builder builder = {0};
    struct jinja_value escaped;
    if (string->markup) {
        *out = jinja_string(string);
        return true;
    }
    bool trusted = jinja_string_is_trusted(string);
    size_t done = 0;
    for (size_t at = 0; at <= string->length; at++) {
        const char *entity = NULL;
        for (size_t i = 0; at < string->length && i < 5; i++)
            if (string->bytes[at] == entities[i].plain)
                entity = entities[i].escaped;
        if (at < string->length && entity == NULL)
            continue;
        if (!jinja_builder_bytes(run, &builder, string->bytes + done, at - done, trusted))
            return false;
        for (const char *c = entity; c != NULL && *c != '\0'; c++)
            if (!jinja_builder_bytes(run, &builder, c, 1, trusted))
                return false;
        done = at + 1;
    }
    return jinja_builder_finish(run, &builder, &escaped) &&
           jinja_markup_mark(run, escaped.as.string, out);
}

bool jinja_markup_add(struct jinja_run *run, const struct jinja_string *left,
                      const struct jinja_string *right, struct jinja_value *out)
{
    struct jinja_value a;
    struct jinja_value b;
    struct jinja_value joined;
    return jinja_markup_escape(run, left, &a) && jinja_markup_escape(run, right, &b) &&
           jinja_string_concat(run, a.as.string, b.as.string, &joined) &&
           jinja_markup_mark(run, joined.as.string, out);
}
