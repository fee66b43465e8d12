/*
 * Calls.
 *
 * The same expression syntax calls a macro with hidden parameters, a method with optional ones, a
 * filter with keywords, and a recursive loop; arguments may come from `*list` and `**dict`.
 * Arguments are evaluated into one flat struct. A builtin declares its parameters as a string of
 * words, and one function binds against it; a macro's parameters are in its node.
 *
 * A call of an undefined value fails with the reason why it is undefined, for example that
 * `list.append` is not allowed.
 */
#include "frontend/prompt/jinja/jinja_call.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_evaluator.h"
#include "frontend/prompt/jinja/jinja_loop.h"
#include "frontend/prompt/jinja/jinja_macro.h"
#include "frontend/prompt/jinja/jinja_string.h"

#define PARAMETERS_MAX 8u

static bool add_star(struct jinja_run *run, struct jinja_frame *frame,
                     const struct jinja_arguments *arguments, struct jinja_value *values,
                     struct jinja_call *call)
{
    struct jinja_value star;
    struct jinja_list more;
    if (!jinja_evaluate(run, frame, arguments->star, &star) ||
        !jinja_cursor_collect(run, star, &more))
        return false;
    if (more.count == 0)
        return true;
    struct jinja_value *all = jinja_run_take(run, call->count + more.count, sizeof(*all));
    if (all == NULL || !jinja_run_step(run, more.count))
        return false;
    if (call->count > 0)
        memcpy(all, values, call->count * sizeof(*all));
    memcpy(all + call->count, more.items, more.count * sizeof(*all));
    call->values = all;
    call->count += more.count;
    return true;
}

static bool add_double_star(struct jinja_run *run, struct jinja_frame *frame,
                            const struct jinja_arguments *arguments, struct jinja_named *named,
                            struct jinja_call *call)
{
    struct jinja_value star;
    if (!jinja_evaluate(run, frame, arguments->double_star, &star))
        return false;
    if (star.kind != JINJA_DICT)
        return jinja_fail(run, "argument after ** must be a mapping, not %s",
                          jinja_value_type(star));
    const struct jinja_dict *dict = star.as.dict;
    struct jinja_named *all = jinja_run_take(run, call->named_count + dict->count, sizeof(*all));
    if (all == NULL || !jinja_run_step(run, dict->count))
        return false;
    if (call->named_count > 0)
        memcpy(all, named, call->named_count * sizeof(*all));
    for (size_t i = 0; i < dict->count; i++) {
        if (dict->entries[i].key.kind != JINJA_STRING)
            return jinja_fail(run, "keywords must be strings");
        for (size_t j = 0; j < call->named_count; j++) {
            bool same;
            if (!jinja_run_step(run, 1) ||
                !jinja_value_equal(run, named[j].name, dict->entries[i].key, &same))
                return false;
            if (same)
                return jinja_fail(run, "got multiple values for a keyword argument");
        }
        all[call->named_count + i] =
            (struct jinja_named){dict->entries[i].key, dict->entries[i].value};
    }
    call->named = all;
    call->named_count += dict->count;
    return true;
}

bool jinja_call_evaluate(struct jinja_run *run, struct jinja_frame *frame,
                         const struct jinja_arguments *arguments, struct jinja_call *call)
{
    struct jinja_value *values = NULL;
    struct jinja_named *named = NULL;
    if (arguments->positional_count > 0) {
        values = jinja_run_take(run, arguments->positional_count, sizeof(*values));
        if (values == NULL)
            return false;
    }
    for (size_t i = 0; i < arguments->positional_count; i++)
        if (!jinja_evaluate(run, frame, arguments->positional[i], &values[i]))
            return false;
    call->values = values;
    call->count = arguments->positional_count;
    if (arguments->star != NULL && !add_star(run, frame, arguments, values, call))
        return false;
    if (arguments->keyword_count > 0) {
        named = jinja_run_take(run, arguments->keyword_count, sizeof(*named));
        if (named == NULL)
            return false;
    }
    for (size_t i = 0; i < arguments->keyword_count; i++) {
        const struct jinja_keyword *keyword = &arguments->keywords[i];
        if (!jinja_string_view(run, keyword->name, keyword->name_bytes, true, &named[i].name) ||
            !jinja_evaluate(run, frame, keyword->value, &named[i].value))
            return false;
    }
    call->named = named;
    call->named_count = arguments->keyword_count;
    return arguments->double_star == NULL || add_double_star(run, frame, arguments, named, call);
}

/* Position of a parameter in the declaration, or SIZE_MAX. */
static size_t parameter_find(const char *parameters, const struct jinja_string *name)
{
    size_t position = 0;
    for (const char *at = parameters; *at != '\0';) {
        size_t bytes = strcspn(at, " ");
        if (*at != '|') {
            if (bytes == name->length && memcmp(at, name->bytes, bytes) == 0)
                return position;
            position++;
        }
        at += bytes;
        at += strspn(at, " ");
    }
    return SIZE_MAX;
}

static void parameters_count(const char *parameters, size_t *required, size_t *all)
{
    *required = SIZE_MAX;
    *all = 0;
    for (const char *at = parameters; *at != '\0';) {
        if (*at == '|')
            *required = *all;
        else
            (*all)++;
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    if (*required == SIZE_MAX)
        *required = *all;
}

static bool parameters_bind(struct jinja_run *run, const struct jinja_signature *signature,
                            const struct jinja_call *call, struct jinja_value bound[PARAMETERS_MAX],
                            size_t *bound_count)
{
    size_t required;
    parameters_count(signature->parameters, &required, bound_count);
    if (call->count > *bound_count)
        return jinja_fail(run, "%s() takes at most %zu arguments (%zu given)", signature->name,
                          *bound_count, call->count);
    memset(bound, 0, PARAMETERS_MAX * sizeof(*bound));
    if (call->count > 0)
        memcpy(bound, call->values, call->count * sizeof(*bound));
    for (size_t i = 0; i < call->named_count; i++) {
        const struct jinja_string *name = call->named[i].name.as.string;
        size_t position = parameter_find(signature->parameters, name);
        if (position == SIZE_MAX || !jinja_is_absent(bound[position]))
            return jinja_fail(run, "%s() got an unexpected keyword argument '%.*s'",
                              signature->name, (int)(name->length > 60 ? 60 : name->length),
                              name->bytes);
        bound[position] = call->named[i].value;
    }
    for (size_t i = 0; i < required; i++)
        if (jinja_is_absent(bound[i]))
            return jinja_fail(run, "%s() is missing a required argument", signature->name);
    return true;
}

bool jinja_call_builtin(struct jinja_run *run, const struct jinja_signature *signature,
                        const struct jinja_call *call, struct jinja_value *out)
{
    if (!jinja_run_step(run, 1))
        return false;
    if (signature->parameters == NULL)
        return signature->builtin(run, call, out);
    struct jinja_value bound[PARAMETERS_MAX];
    struct jinja_call complete = {.self = call->self, .values = bound};
    return parameters_bind(run, signature, call, bound, &complete.count) &&
           signature->builtin(run, &complete, out);
}

static bool call_inside(struct jinja_run *run, struct jinja_value callee,
                        const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_call bound = *call;
    switch (callee.kind) {
    case JINJA_FUNCTION:
        bound.self = callee.as.function->self;
        return jinja_call_builtin(run, callee.as.function->signature, &bound, out);
    case JINJA_MACRO: return jinja_macro_call(run, callee.as.macro, call, out);
    case JINJA_LOOP: return jinja_macro_call_loop(run, callee.as.loop, call, out);
    case JINJA_JOINER:
        if (!callee.as.joiner->used) {
            callee.as.joiner->used = true;
            return jinja_string_literal(run, "", out);
        }
        *out = callee.as.joiner->separator;
        return true;
    case JINJA_UNDEFINED: return jinja_fail_undefined(run, callee);
    default: return jinja_fail(run, "'%s' object is not callable", jinja_value_type(callee));
    }
}

bool jinja_call_value(struct jinja_run *run, struct jinja_value callee,
                      const struct jinja_call *call, struct jinja_value *out)
{
    if (!jinja_run_enter(run))
        return false;
    bool called = call_inside(run, callee, call, out);
    jinja_run_leave(run);
    return called;
}

bool jinja_call_can(struct jinja_value value)
{
    return value.kind == JINJA_FUNCTION || value.kind == JINJA_MACRO || value.kind == JINJA_LOOP ||
           value.kind == JINJA_JOINER || value.kind == JINJA_UNDEFINED;
}

const struct jinja_signature *jinja_call_find(const struct jinja_signature table[],
                                              const char *name, size_t name_bytes)
{
    for (size_t i = 0; table[i].name != NULL; i++)
        if (strlen(table[i].name) == name_bytes && memcmp(table[i].name, name, name_bytes) == 0)
            return &table[i];
    return NULL;
}

bool jinja_call_integer(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    if (jinja_is_absent(value) || jinja_value_integer(value, out))
        return true;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    return jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                      jinja_value_type(value));
}

bool jinja_call_string(struct jinja_run *run, struct jinja_value value,
                       const struct jinja_string **out)
{
    if (jinja_is_absent(value))
        return true;
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, "must be str, not %s", jinja_value_type(value));
    *out = value.as.string;
    return true;
}
