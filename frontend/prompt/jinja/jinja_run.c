/*
 * The bounds of a rendering and its failure.
 *
 * A template may loop, recurse, allocate and fail anywhere inside an expression. Every part of the
 * interpreter counts on three counters (steps, depth, the arena's bytes), and the first failure is
 * recorded here. A failure is passed up as `false`; there are no exceptions or jumps.
 */
#include "frontend/prompt/jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>

#include "frontend/prompt/jinja/jinja_string.h"
#include "frontend/prompt/jinja/jinja_text.h"
#include "proto/limits.h"

/* The slowest reads, of characters of several bytes, take as long for these as one step. */
#define SCAN_BYTES_PER_STEP 4u
/* New pages cost time, too. */
#define TAKEN_BYTES_PER_STEP 64u

bool jinja_run_step(struct jinja_run *run, uint64_t steps)
{
    if (steps > run->steps_left)
        return jinja_fail_bound(run, "template takes too many steps");
    uint64_t looks_left = run->steps_left / CANCEL_LOOK_UNITS;
    run->steps_left -= steps;
    if (looks_left == run->steps_left / CANCEL_LOOK_UNITS || !cancel_flag_is_set(run->cancelled))
        return true;
    if (run->failure == RESULT_OK)
        run->failure = error_set(&run->error, RESULT_CANCELLED, "rendering was cancelled");
    return false;
}

bool jinja_run_scan(struct jinja_run *run, uint64_t bytes)
{
    return jinja_run_step(run, 1 + bytes / SCAN_BYTES_PER_STEP);
}

bool jinja_run_enter(struct jinja_run *run)
{
    if (run->depth == LIMIT_TEMPLATE_CALL_DEPTH)
        return jinja_fail_bound(run, "template nests too deep");
    run->depth++;
    return jinja_run_step(run, 1);
}

void jinja_run_leave(struct jinja_run *run)
{
    run->depth--;
}

void *jinja_run_take(struct jinja_run *run, size_t count, size_t element_bytes)
{
    size_t bytes = 0;
    void *piece = NULL;
    bool overflows = __builtin_mul_overflow(count, element_bytes, &bytes);
    if (!overflows && !jinja_run_step(run, bytes / TAKEN_BYTES_PER_STEP))
        return NULL;
    if (!overflows)
        piece = jinja_arena_take(&run->arena, bytes);
    if (piece == NULL)
        (void)jinja_fail_bound(run, "template needs too much memory");
    return piece;
}

bool jinja_fail(struct jinja_run *run, const char *format, ...)
{
    if (run->failure != RESULT_OK)
        return false;
    run->failure = RESULT_INVALID;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->error.text, sizeof(run->error.text), format, arguments);
    va_end(arguments);
    return false;
}

bool jinja_fail_bound(struct jinja_run *run, const char *what)
{
    if (run->failure == RESULT_OK)
        run->failure = error_set(&run->error, RESULT_TOO_LARGE, "%s", what);
    return false;
}

bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value undefined)
{
    const struct jinja_undefined *why = undefined.as.undefined;
    if (why->hint != NULL)
        return jinja_fail(run, "%s", why->hint);
    struct jinja_value name;
    if (!jinja_text_repr(run, why->name, &name))
        return false;
    const struct jinja_string *shown = name.as.string;
    int shown_bytes = shown->length > 200 ? 200 : (int)shown->length;
    if (why->object_type == NULL)
        return jinja_fail(run, "%.*s is undefined", shown_bytes, shown->bytes);
    if (why->name.kind == JINJA_STRING)
        return jinja_fail(run, "'%s' has no attribute %.*s", why->object_type, shown_bytes,
                          shown->bytes);
    return jinja_fail(run, "%s has no element %.*s", why->object_type, shown_bytes, shown->bytes);
}

static bool undefined_make(struct jinja_run *run, struct jinja_undefined why,
                           struct jinja_value *out)
{
    struct jinja_undefined *made = jinja_run_take(run, 1, sizeof(*made));
    if (made == NULL)
        return false;
    *made = why;
    *out = (struct jinja_value){.kind = JINJA_UNDEFINED, .as.undefined = made};
    return true;
}

bool jinja_undefined_name(struct jinja_run *run, const char *name, size_t name_bytes,
                          struct jinja_value *out)
{
    struct jinja_undefined why = {0};
    return jinja_string_view(run, name, name_bytes, true, &why.name) &&
           undefined_make(run, why, out);
}

bool jinja_undefined_member(struct jinja_run *run, struct jinja_value object,
                            struct jinja_value name, struct jinja_value *out)
{
    static const char *const types[JINJA_KIND_COUNT] = {
        [JINJA_NONE] = "None",          [JINJA_BOOL] = "bool object",
        [JINJA_INT] = "int object",     [JINJA_FLOAT] = "float object",
        [JINJA_STRING] = "str object",  [JINJA_LIST] = "list object",
        [JINJA_TUPLE] = "tuple object", [JINJA_DICT] = "dict object",
        [JINJA_RANGE] = "range object", [JINJA_ITERATOR] = "generator object"};
    const char *type = types[object.kind];
    if (object.kind == JINJA_STRING && object.as.string->markup)
        type = "markupsafe.Markup object";
    if (type == NULL)
        type = jinja_value_type(object);
    return undefined_make(run, (struct jinja_undefined){.object_type = type, .name = name}, out);
}

bool jinja_undefined_hint(struct jinja_run *run, const char *hint, struct jinja_value *out)
{
    return undefined_make(run, (struct jinja_undefined){.hint = hint}, out);
}
