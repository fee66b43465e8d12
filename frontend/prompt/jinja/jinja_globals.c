/*
 * The functions that jinja2 and Hugging Face offer to every template.
 *
 * Namespaces, cyclers and joiners are the only values that a template can change; raise_exception
 * ends a rendering with exactly the template's message. Ranges over jinja2's sandbox bound of
 * 100,000 items are refused.
 */
#include "frontend/prompt/jinja/jinja_globals.h"

#include <stdio.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_call.h"
#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_strftime.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"

#define RANGE_ITEMS_MAX 100000

static bool call_range(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    int64_t start = 0;
    int64_t stop = 0;
    int64_t step = 1;
    bool one = jinja_is_absent(call->values[1]);
    if (!jinja_call_integer(run, call->values[one ? 1 : 0], &start) ||
        !jinja_call_integer(run, call->values[one ? 0 : 1], &stop) ||
        !jinja_call_integer(run, call->values[2], &step))
        return false;
    if (step == 0)
        return jinja_fail(run, "range() arg 3 must not be zero");
    uint64_t distance = 0;
    if (step > 0 && stop > start)
        distance = (uint64_t)stop - (uint64_t)start;
    else if (step < 0 && start > stop)
        distance = (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
    if (count > RANGE_ITEMS_MAX)
        return jinja_fail(run,
                          "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          RANGE_ITEMS_MAX);
    struct jinja_range *range = jinja_run_take(run, 1, sizeof(*range));
    if (range == NULL)
        return false;
    *range = (struct jinja_range){start, stop, step, (size_t)count};
    *out = (struct jinja_value){.kind = JINJA_RANGE, .as.range = range};
    return true;
}

/* dict(…): from a mapping or from pairs, then keywords. */
static bool fill_dict(struct jinja_run *run, const struct jinja_call *call, const char *who,
                      struct jinja_dict **out)
{
    struct jinja_dict *dict;
    if (!jinja_dict_make(run, call->named_count, &dict))
        return false;
    if (call->count > 1)
        return jinja_fail(run, "%s expected at most 1 argument, got %zu", who, call->count);
    if (call->count == 1 && call->values[0].kind == JINJA_DICT) {
        const struct jinja_dict *from = call->values[0].as.dict;
        for (size_t i = 0; i < from->count; i++)
            if (!jinja_run_step(run, 1) ||
                !jinja_dict_set(run, dict, from->entries[i].key, from->entries[i].value))
                return false;
    } else if (call->count == 1) {
        struct jinja_list pairs;
        if (!jinja_cursor_collect(run, call->values[0], &pairs))
            return false;
        for (size_t i = 0; i < pairs.count; i++) {
            struct jinja_list pair;
            if (!jinja_cursor_collect(run, pairs.items[i], &pair))
                return false;
            if (pair.count != 2)
                return jinja_fail(run,
                                  "dictionary update sequence element #%zu has length %zu; 2 is "
                                  "required",
                                  i, pair.count);
            if (!jinja_dict_set(run, dict, pair.items[0], pair.items[1]))
                return false;
        }
    }
    for (size_t i = 0; i < call->named_count; i++)
        if (!jinja_dict_set(run, dict, call->named[i].name, call->named[i].value))
            return false;
    *out = dict;
    return true;
}

static bool call_dict(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_dict *dict;
    if (!fill_dict(run, call, "dict", &dict))
        return false;
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}

static bool call_namespace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    struct jinja_dict *dict;
    if (!fill_dict(run, call, "namespace", &dict))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_string *name = dict->entries[i].key.as.string;
        if (dict->entries[i].key.kind == JINJA_STRING && name->length > 0 && name->bytes[0] == '_')
            return jinja_fail(run,
                              "Chat templates cannot store underscore-prefixed attributes on a "
                              "namespace, but got '%.*s'. Please rename the attribute.",
                              (int)(name->length > 60 ? 60 : name->length), name->bytes);
    }
    *out = (struct jinja_value){.kind = JINJA_NAMESPACE, .as.names = dict};
    return true;
}

static bool call_cycler(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    if (call->count == 0 || call->named_count > 0)
        return jinja_fail(run, "at least one item has to be provided");
    struct jinja_cycler *cycler = jinja_run_take(run, 1, sizeof(*cycler));
    if (cycler == NULL)
        return false;
    *cycler = (struct jinja_cycler){.items = call->values, .count = call->count};
    *out = (struct jinja_value){.kind = JINJA_CYCLER, .as.cycler = cycler};
    return true;
}

static bool cycler_next(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_cycler *cycler = call->self.as.cycler;
    *out = cycler->items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->count;
    return jinja_run_step(run, 1);
}

static bool cycler_reset(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    call->self.as.cycler->next = 0;
    *out = jinja_none();
    return jinja_run_step(run, 1);
}

const struct jinja_signature *jinja_globals_cycler_methods(void)
{
    static const struct jinja_signature methods[] = {
        {"next", cycler_next, ""}, {"reset", cycler_reset, ""}, {NULL, NULL, NULL}};
    return methods;
}

static bool call_joiner(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_joiner *joiner = jinja_run_take(run, 1, sizeof(*joiner));
    if (joiner == NULL)
        return false;
    *joiner = (struct jinja_joiner){.separator = call->values[0]};
    if (jinja_is_absent(call->values[0]) && !jinja_string_literal(run, ", ", &joiner->separator))
        return false;
    *out = (struct jinja_value){.kind = JINJA_JOINER, .as.joiner = joiner};
    return true;
}

static bool call_raise(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_value words;
    (void)out;
    if (!jinja_text_str(run, call->values[0], &words))
        return false;
    run->raised = true;
    size_t shown = words.as.string->length;
    if (shown >= sizeof(run->error.text))
        shown = sizeof(run->error.text) - 1;
    return jinja_fail(run, "%.*s", (int)shown, words.as.string->bytes);
}

static bool call_strftime_now(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out)
{
    const struct jinja_string *format = NULL;
    return jinja_call_string(run, call->values[0], &format) &&
           jinja_strftime(run, format, run->now_unix_s, out);
}

bool jinja_globals_add(struct jinja_run *run, struct jinja_dict *globals)
{
    static const struct jinja_signature signatures[] = {
        {"range", call_range, "start | stop step"},
        {"dict", call_dict, NULL},
        {"namespace", call_namespace, NULL},
        {"cycler", call_cycler, NULL},
        {"joiner", call_joiner, "| sep"},
        {"raise_exception", call_raise, "message"},
        {"strftime_now", call_strftime_now, "format"}};
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        struct jinja_value name;
        struct jinja_function *function = jinja_run_take(run, 1, sizeof(*function));
        if (function == NULL || !jinja_string_literal(run, signatures[i].name, &name))
            return false;
        *function = (struct jinja_function){.signature = &signatures[i]};
        struct jinja_value value = {.kind = JINJA_FUNCTION, .as.function = function};
        if (!jinja_dict_set(run, globals, name, value))
            return false;
    }
    return true;
}
