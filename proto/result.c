/*
 * Names of results; formatting of error texts.
 */
#include "proto/result.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const result_names[RESULT_COUNT] = {
    [RESULT_OK] = "ok",
    [RESULT_INVALID] = "invalid",
    [RESULT_UNSUPPORTED] = "unsupported",
    [RESULT_NOT_FOUND] = "not_found",
    [RESULT_TOO_LARGE] = "too_large",
    [RESULT_CONTEXT_EXCEEDED] = "context_exceeded",
    [RESULT_FULL] = "full",
    [RESULT_EMPTY] = "empty",
    [RESULT_STALE] = "stale",
    [RESULT_CORRUPT] = "corrupt",
    [RESULT_OUT_OF_MEMORY] = "out_of_memory",
    [RESULT_IO] = "io",
    [RESULT_PEER_GONE] = "peer_gone",
    [RESULT_CANCELLED] = "cancelled",
    [RESULT_TIMED_OUT] = "timed_out",
    [RESULT_GRAMMAR_FUEL] = "grammar_fuel",
    [RESULT_GRAMMAR_DEAD_END] = "grammar_dead_end",
};

const char *result_name(enum result result)
{
    if ((unsigned)result >= RESULT_COUNT)
        return "unknown";
    return result_names[result];
}

enum result error_set(struct error_text *error, enum result result, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return result;
}
