/*
 * The type of an argument by its tool's JSON schema, and the conversion of bare text to a value of
 * that type.
 */
#ifndef SHOAL_FRONTEND_REPLY_ARGUMENT_TYPE_H
#define SHOAL_FRONTEND_REPLY_ARGUMENT_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"

struct cJSON;

/* The tool of this name in a list in the form of chat completions, or NULL. */
const struct cJSON *tool_list_find(const struct cJSON *tools, const char *name);

enum argument_type {
    ARGUMENT_STRING = 1,
    ARGUMENT_INTEGER = 2,
    ARGUMENT_NUMBER = 4,
    ARGUMENT_BOOLEAN = 8,
    ARGUMENT_NULL = 16,
    ARGUMENT_OBJECT = 32,
    ARGUMENT_ARRAY = 64,
};

/* The types that the schema of `tool` (NULL: unknown) allows for this argument, as bits; 0 where it
 * says nothing. Reads type, enum, const, anyOf, oneOf, allOf and $ref within the schema. */
unsigned argument_type_find(const struct cJSON *tool, const char *argument);

/* Appends a bare text as a JSON value: its JSON value (or Python literal) if that type is allowed
 * (any type if `types` is 0), else a string. */
void argument_type_write(unsigned types, const char *text, size_t length, struct text_buffer *out);

#endif
