/*
 * One function for each type, found in a table. The place in the JSON value is kept as a list on
 * the stack and written as a pointer only for an error. After the first error functions return
 * GRAMMAR_NONE.
 */
#include "frontend/grammar/structural_tag.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/gbnf.h"
#include "frontend/grammar/json_schema_compile.h"
#include "frontend/grammar/regex_compile.h"
#include "proto/limits.h"

/* A member or element of the value above. */
struct place {
    const struct place *above;
    const char *name; /* NULL: an element */
    unsigned index;
};

struct tag_compiler {
    struct grammar_builder *builder;
    const struct special_finder *specials;
    struct grammar_error *error;
    bool failed;
    const cJSON *ends; /* of the tag around: a string or a list of strings; NULL: none */
};

typedef symbol_id format_compiler(struct tag_compiler *c, const cJSON *format,
                                  const struct place *place);

static symbol_id format_compile(struct tag_compiler *c, const cJSON *format,
                                const struct place *place);

static size_t pointer_write(const struct place *place, char *text, size_t room)
{
    if (!place)
        return 0;
    size_t length = pointer_write(place->above, text, room);
    if (length < room)
        length +=
            (size_t)(place->name ? snprintf(text + length, room - length, "/%s", place->name)
                                 : snprintf(text + length, room - length, "/%u", place->index));
    return length;
}

static symbol_id fail(struct tag_compiler *c, const struct place *place, const char *keyword,
                      const char *message)
{
    if (c->failed)
        return GRAMMAR_NONE;
    c->failed = true;
    (void)pointer_write(place, c->error->pointer, sizeof c->error->pointer);
    snprintf(c->error->keyword, sizeof c->error->keyword, "%s", keyword);
    snprintf(c->error->message, sizeof c->error->message, "%s", message);
    return GRAMMAR_NONE;
}

/* The error of another compiler, below this place. */
static symbol_id pass(struct tag_compiler *c, const struct place *place,
                      const struct grammar_error *inner)
{
    if (c->failed)
        return GRAMMAR_NONE;
    c->failed = true;
    *c->error = *inner;
    size_t length = pointer_write(place, c->error->pointer, sizeof c->error->pointer);
    if (length < sizeof c->error->pointer)
        snprintf(c->error->pointer + length, sizeof c->error->pointer - length, "%s%.200s",
                 inner->pointer[0] == '/' || !inner->pointer[0] ? "" : ": ", inner->pointer);
    return GRAMMAR_NONE;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* Refuses members that are not in the list; `type` is always allowed. */
static bool members_check(struct tag_compiler *c, const cJSON *format, const struct place *place,
                          const char *const *names)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, format)
    {
        size_t i = 0;
        while (names[i] && strcmp(names[i], item->string) != 0)
            i++;
        if (!names[i] && strcmp(item->string, "type") != 0) {
            fail(c, place, item->string, "this member is not known here");
            return false;
        }
    }
    return !c->failed;
}

static bool flag_read(struct tag_compiler *c, const cJSON *format, const struct place *place,
                      const char *name)
{
    const cJSON *item = member(format, name);
    if (item && !cJSON_IsBool(item))
        fail(c, place, name, "true or false is expected");
    return cJSON_IsTrue(item);
}

static const char *string_read(struct tag_compiler *c, const cJSON *format,
                               const struct place *place, const char *name)
{
    const char *text = cJSON_GetStringValue(member(format, name));
    if (!text)
        fail(c, place, name, "a string is expected");
    return text;
}

/* --- texts ----------------------------------------------------------------------------------- */

struct texts {
    const char **list;
    size_t count;
    size_t capacity;
};

/* Adds a string, or a list of strings; NULL adds nothing. */
static void texts_add(struct tag_compiler *c, struct texts *texts, const cJSON *value,
                      const struct place *place, const char *name)
{
    bool is_list = cJSON_IsArray(value);
    for (const cJSON *item = is_list ? value->child : value; item && !c->failed;
         item = is_list ? item->next : NULL) {
        if (!cJSON_IsString(item)) {
            fail(c, place, name, "strings are expected");
            return;
        }
        if (texts->count == texts->capacity) {
            size_t capacity = texts->capacity ? 2 * texts->capacity : 8;
            const char **list = realloc(texts->list, capacity * sizeof *list);
            if (!list) {
                c->failed = true; /* without a message: out of memory */
                return;
            }
            texts->list = list;
            texts->capacity = capacity;
        }
        texts->list[texts->count++] = item->valuestring;
    }
}

/* Free text without the given texts and without an end of the tag around it. */
static symbol_id free_text(struct tag_compiler *c, struct texts *texts, const struct place *place)
{
    texts_add(c, texts, c->ends, place, "end");
    symbol_id symbol = GRAMMAR_NONE;
    if (!c->failed)
        symbol = grammar_terminal(
            c->builder, grammar_text_without(c->builder, c->specials, texts->list, texts->count));
    free(texts->list);
    return symbol;
}

static symbol_id text_symbol(struct tag_compiler *c, const char *text)
{
    return text ? grammar_text_symbol(c->builder, c->specials, text, strlen(text)) : GRAMMAR_NONE;
}

static symbol_id const_string_compile(struct tag_compiler *c, const cJSON *format,
                                      const struct place *place)
{
    static const char *const names[] = {"value", NULL};
    return members_check(c, format, place, names)
               ? text_symbol(c, string_read(c, format, place, "value"))
               : GRAMMAR_NONE;
}

static symbol_id any_text_compile(struct tag_compiler *c, const cJSON *format,
                                  const struct place *place)
{
    static const char *const names[] = {"excludes", NULL};
    struct texts texts = {0};
    if (members_check(c, format, place, names))
        texts_add(c, &texts, member(format, "excludes"), place, "excludes");
    return free_text(c, &texts, place);
}

/* --- other languages ------------------------------------------------------------------------- */

static symbol_id schema_compile(struct tag_compiler *c, const cJSON *schema,
                                const struct place *place, const char *name)
{
    const struct place below = {place, name, 0};
    const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    struct grammar_error error = {0};
    symbol_id symbol = GRAMMAR_NONE;
    if (!cJSON_IsObject(schema) && !cJSON_IsBool(schema))
        return fail(c, place, name, "a JSON schema is expected");
    if (!json_schema_compile(c->builder, schema, &options, &symbol, &error))
        return pass(c, &below, &error);
    return symbol;
}

static symbol_id json_schema_format(struct tag_compiler *c, const cJSON *format,
                                    const struct place *place)
{
    static const char *const names[] = {"json_schema", "style", NULL};
    const cJSON *style = member(format, "style");
    if (style && !(cJSON_IsString(style) && strcmp(style->valuestring, "json") == 0))
        return fail(c, place, "style", "only the style 'json' is supported");
    return members_check(c, format, place, names)
               ? schema_compile(c, member(format, "json_schema"), place, "json_schema")
               : GRAMMAR_NONE;
}

static symbol_id regex_format(struct tag_compiler *c, const cJSON *format,
                              const struct place *place)
{
    static const char *const names[] = {"pattern", NULL};
    const struct regex_options whole = {0};
    struct grammar_error error = {0};
    regex_id regex = GRAMMAR_NONE;
    const char *pattern =
        members_check(c, format, place, names) ? string_read(c, format, place, "pattern") : NULL;
    if (!pattern)
        return GRAMMAR_NONE;
    if (!regex_compile(c->builder, pattern, strlen(pattern), &whole, &regex, &error))
        return pass(c, &(struct place){place, "pattern", 0}, &error);
    return grammar_terminal(c->builder, regex);
}

static symbol_id grammar_format(struct tag_compiler *c, const cJSON *format,
                                const struct place *place)
{
    static const char *const names[] = {"grammar", NULL};
    struct grammar_error error = {0};
    symbol_id symbol = GRAMMAR_NONE;
    const char *text =
        members_check(c, format, place, names) ? string_read(c, format, place, "grammar") : NULL;
    if (!text)
        return GRAMMAR_NONE;
    if (!gbnf_compile(c->builder, text, strlen(text), c->specials, &symbol, &error))
        return pass(c, &(struct place){place, "grammar", 0}, &error);
    return symbol;
}

/* --- combinations ---------------------------------------------------------------------------- */

static symbol_id elements_compile(struct tag_compiler *c, const cJSON *format,
                                  const struct place *place)
{
    static const char *const names[] = {"elements", NULL};
    const cJSON *elements = member(format, "elements");
    const struct place list = {place, "elements", 0};
    int count = cJSON_GetArraySize(elements);
    bool is_sequence = strcmp(cJSON_GetStringValue(member(format, "type")), "sequence") == 0;
    if (!members_check(c, format, place, names))
        return GRAMMAR_NONE;
    if (!cJSON_IsArray(elements) || count == 0)
        return fail(c, place, "elements", "a list with at least one element is expected");
    symbol_id *symbols = calloc((size_t)count, sizeof *symbols);
    unsigned i = 0;
    const cJSON *item;
    c->failed = c->failed || !symbols;
    cJSON_ArrayForEach(item, elements)
    {
        if (!c->failed)
            symbols[i] = format_compile(c, item, &(struct place){&list, NULL, i});
        i++;
    }
    symbol_id symbol = GRAMMAR_NONE;
    if (!c->failed)
        symbol = is_sequence ? grammar_sequence(c->builder, symbols, (size_t)count)
                             : grammar_choice(c->builder, symbols, (size_t)count);
    free(symbols);
    return symbol;
}

/* A whole number of repetitions; `absent` if it is not given. */
static uint32_t count_read(struct tag_compiler *c, const cJSON *format, const struct place *place,
                           const char *name, uint32_t absent)
{
    const cJSON *item = member(format, name);
    if (!item || (cJSON_IsNumber(item) && item->valuedouble == -1 && absent == GRAMMAR_UNBOUNDED))
        return absent;
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value < GRAMMAR_UNBOUNDED && value == (double)(uint32_t)value)) {
        fail(c, place, name, "a whole number is expected");
        return 0;
    }
    return (uint32_t)value;
}

static symbol_id repeat_compile(struct tag_compiler *c, const cJSON *format,
                                const struct place *place)
{
    static const char *const counted[] = {"content", "min", "max", NULL};
    static const char *const plain[] = {"content", NULL};
    const char *type = cJSON_GetStringValue(member(format, "type"));
    bool is_counted = strcmp(type, "repeat") == 0;
    uint32_t minimum = strcmp(type, "plus") == 0;
    uint32_t maximum = strcmp(type, "optional") == 0 ? 1 : GRAMMAR_UNBOUNDED;
    if (!members_check(c, format, place, is_counted ? counted : plain))
        return GRAMMAR_NONE;
    if (is_counted) {
        minimum = count_read(c, format, place, "min", 0);
        maximum = count_read(c, format, place, "max", GRAMMAR_UNBOUNDED);
        if (maximum < minimum)
            return fail(c, place, "max", "the maximum is below the minimum");
    }
    symbol_id content =
        format_compile(c, member(format, "content"), &(struct place){place, "content", 0});
    return c->failed ? GRAMMAR_NONE : grammar_repeat(c->builder, content, minimum, maximum);
}

/* --- tags ------------------------------------------------------------------------------------ */

/* The end of a tag: one text, or one of several. */
static symbol_id end_compile(struct tag_compiler *c, const cJSON *end, const struct place *place)
{
    struct texts texts = {0};
    if (!end)
        return grammar_sequence(c->builder, NULL, 0);
    texts_add(c, &texts, end, place, "end");
    symbol_id *ends = texts.count && !c->failed ? calloc(texts.count, sizeof *ends) : NULL;
    symbol_id symbol = GRAMMAR_NONE;
    for (size_t i = 0; ends && i < texts.count; i++)
        ends[i] = text_symbol(c, texts.list[i]);
    if (ends)
        symbol = grammar_choice(c->builder, ends, texts.count);
    else
        fail(c, place, "end", "a string, or a list of strings, is expected");
    free(ends);
    free(texts.list);
    return symbol;
}

/* A tag, or an older structure, whose content is a schema. */
static symbol_id tag_compile(struct tag_compiler *c, const cJSON *tag, const struct place *place)
{
    static const char *const names[] = {"begin", "content", "end", NULL};
    static const char *const older[] = {"begin", "schema", "end", NULL};
    bool has_schema = member(tag, "schema") != NULL;
    const cJSON *type = member(tag, "type");
    if (!cJSON_IsObject(tag) ||
        (type && !(cJSON_IsString(type) && strcmp(type->valuestring, "tag") == 0)))
        return fail(c, place, "type", "a tag is expected");
    if (!members_check(c, tag, place, has_schema ? older : names))
        return GRAMMAR_NONE;
    const cJSON *ends_outside = c->ends;
    symbol_id parts[3] = {text_symbol(c, string_read(c, tag, place, "begin"))};
    parts[2] = c->failed ? GRAMMAR_NONE : end_compile(c, member(tag, "end"), place);
    c->ends = member(tag, "end") ? member(tag, "end") : ends_outside;
    if (!c->failed)
        parts[1] = has_schema ? schema_compile(c, member(tag, "schema"), place, "schema")
                              : format_compile(c, member(tag, "content"),
                                               &(struct place){place, "content", 0});
    c->ends = ends_outside;
    return c->failed ? GRAMMAR_NONE : grammar_sequence(c->builder, parts, 3);
}

/* One of the tags of a list. Each must begin with a trigger, if there are triggers. */
static symbol_id tags_compile(struct tag_compiler *c, const cJSON *tags, const struct place *place,
                              const char *name, const struct texts *triggers)
{
    const struct place list = {place, name, 0};
    int count = cJSON_GetArraySize(tags);
    if (!cJSON_IsArray(tags) || count == 0)
        return fail(c, place, name, "a list with at least one tag is expected");
    symbol_id *symbols = calloc((size_t)count, sizeof *symbols);
    unsigned i = 0;
    const cJSON *tag;
    c->failed = c->failed || !symbols;
    cJSON_ArrayForEach(tag, tags)
    {
        const struct place here = {&list, NULL, i};
        const char *begin = cJSON_GetStringValue(member(tag, "begin"));
        bool has_trigger = !triggers || !begin;
        for (size_t t = 0; !has_trigger && t < triggers->count; t++)
            has_trigger = strncmp(begin, triggers->list[t], strlen(triggers->list[t])) == 0;
        if (!has_trigger)
            fail(c, &here, "begin", "a tag begins with one of the triggers");
        if (!c->failed)
            symbols[i] = tag_compile(c, tag, &here);
        i++;
    }
    symbol_id symbol =
        c->failed ? GRAMMAR_NONE : grammar_choice(c->builder, symbols, (size_t)count);
    free(symbols);
    return symbol;
}

/* Text, and tags where a trigger begins. */
static symbol_id triggered_build(struct tag_compiler *c, symbol_id text, symbol_id tag,
                                 bool at_least_one, bool stop_after_first)
{
    const symbol_id tag_text[] = {tag, text};
    const symbol_id text_tag[] = {text, tag};
    if (at_least_one && stop_after_first)
        return tag;
    if (stop_after_first) {
        const symbol_id either[] = {text, grammar_sequence(c->builder, text_tag, 2)};
        return grammar_choice(c->builder, either, 2);
    }
    symbol_id more = grammar_repeat(c->builder, grammar_sequence(c->builder, tag_text, 2),
                                    at_least_one, GRAMMAR_UNBOUNDED);
    const symbol_id whole[] = {text, more};
    return at_least_one ? more : grammar_sequence(c->builder, whole, 2);
}

static symbol_id triggered_tags_compile(struct tag_compiler *c, const cJSON *format,
                                        const struct place *place)
{
    static const char *const names[] = {"triggers",         "tags",     "at_least_one",
                                        "stop_after_first", "excludes", NULL};
    struct texts triggers = {0};
    bool at_least_one = flag_read(c, format, place, "at_least_one");
    bool stop_after_first = flag_read(c, format, place, "stop_after_first");
    if (!members_check(c, format, place, names))
        return GRAMMAR_NONE;
    texts_add(c, &triggers, member(format, "triggers"), place, "triggers");
    bool has_empty = triggers.count == 0;
    for (size_t i = 0; i < triggers.count; i++)
        has_empty = has_empty || !triggers.list[i][0];
    if (has_empty)
        fail(c, place, "triggers", "a list of texts that are not empty is expected");
    symbol_id tag = GRAMMAR_NONE;
    if (!c->failed)
        tag = tags_compile(c, member(format, "tags"), place, "tags", &triggers);
    texts_add(c, &triggers, member(format, "excludes"), place, "excludes");
    symbol_id text = free_text(c, &triggers, place);
    return c->failed ? GRAMMAR_NONE : triggered_build(c, text, tag, at_least_one, stop_after_first);
}

static symbol_id separated_tags_compile(struct tag_compiler *c, const cJSON *format,
                                        const struct place *place)
{
    static const char *const names[] = {"tags", "separator", "at_least_one", "stop_after_first",
                                        NULL};
    bool at_least_one = flag_read(c, format, place, "at_least_one");
    bool stop_after_first = flag_read(c, format, place, "stop_after_first");
    symbol_id tag = GRAMMAR_NONE, separator = GRAMMAR_NONE;
    if (members_check(c, format, place, names))
        tag = tags_compile(c, member(format, "tags"), place, "tags", NULL);
    if (!c->failed)
        separator = text_symbol(c, string_read(c, format, place, "separator"));
    return c->failed ? GRAMMAR_NONE
                     : grammar_separated(c->builder, tag, separator, at_least_one,
                                         stop_after_first ? 1 : GRAMMAR_UNBOUNDED);
}

/* --- all types ------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    format_compiler *compile;
} formats[] = {
    {"const_string", const_string_compile},
    {"json_schema", json_schema_format},
    {"regex", regex_format},
    {"grammar", grammar_format},
    {"any_text", any_text_compile},
    {"sequence", elements_compile},
    {"or", elements_compile},
    {"optional", repeat_compile},
    {"plus", repeat_compile},
    {"star", repeat_compile},
    {"repeat", repeat_compile},
    {"tag", tag_compile},
    {"triggered_tags", triggered_tags_compile},
    {"tags_with_separator", separated_tags_compile},
};

static symbol_id format_compile(struct tag_compiler *c, const cJSON *format,
                                const struct place *place)
{
    const char *type = cJSON_GetStringValue(member(format, "type"));
    if (!cJSON_IsObject(format) || !type)
        return fail(c, place, "type", "an object with a type is expected");
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(type, formats[i].type) == 0)
            return formats[i].compile(c, format, place);
    }
    return fail(c, place, "type", "this type is not supported");
}

/* {"structures": […], "triggers": […]} */
static symbol_id older_compile(struct tag_compiler *c, const cJSON *tag)
{
    static const char *const names[] = {"structures", "triggers", NULL};
    struct texts triggers = {0};
    if (!members_check(c, tag, NULL, names))
        return GRAMMAR_NONE;
    texts_add(c, &triggers, member(tag, "triggers"), NULL, "triggers");
    if (triggers.count == 0)
        fail(c, NULL, "triggers", "a list of texts is expected");
    symbol_id one = GRAMMAR_NONE;
    if (!c->failed)
        one = tags_compile(c, member(tag, "structures"), NULL, "structures", &triggers);
    symbol_id text = free_text(c, &triggers, NULL);
    return c->failed ? GRAMMAR_NONE : triggered_build(c, text, one, false, false);
}

bool structural_tag_compile(struct grammar_builder *builder, const cJSON *tag,
                            const struct special_finder *specials, symbol_id *out,
                            struct grammar_error *error)
{
    static const char *const names[] = {"format", NULL};
    struct tag_compiler c = {.builder = builder, .specials = specials, .error = error};
    *error = (struct grammar_error){0};
    *out = GRAMMAR_NONE;
    const char *type = cJSON_GetStringValue(member(tag, "type"));
    if (!cJSON_IsObject(tag) || (type && strcmp(type, "structural_tag") != 0))
        fail(&c, NULL, "type", "an object of the type 'structural_tag' is expected");
    else if (member(tag, "structures"))
        *out = older_compile(&c, tag);
    else if (members_check(&c, tag, NULL, names))
        *out = format_compile(&c, member(tag, "format"), &(struct place){NULL, "format", 0});
    return !c.failed && !grammar_builder_failed(builder);
}
